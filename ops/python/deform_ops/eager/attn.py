"""Single-scale deformable sampling in tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.eager.reading import check, compute_dtype, read
from deform_ops.geometry import output_size

__all__ = ["attn"]


def attn(
    value: Tensor,
    offset_mask: Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    group_dims: int,
    spread: float,
    drop_center: bool,
    softmax: bool = False,
) -> Tensor:
    """(B, Ho, Wo, G*D); operands as :class:`deform_ops.registry.Attn` has them, pairs as h, w.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
    """
    check(value.dim() == 4, f"value must have 4 dimensions (B, H, W, G*D), but has {value.dim()}")
    batch, height, width, channels = value.shape
    check(
        channels == groups * group_dims,
        f"value must have {groups * group_dims} channels, but has {channels}",
    )
    size = tuple(
        output_size(*numbers)
        for numbers in zip((height, width), kernel, stride, padding, dilation, strict=True)
    )
    steps = [
        (column, line)
        for column in range(kernel[1])
        for line in range(kernel[0])
        if not (drop_center and (line, column) == (kernel[0] // 2, kernel[1] // 2))
    ]
    numbers = groups * len(steps) * 3
    check(
        offset_mask.dim() == 4
        and offset_mask.shape[:3] == (batch, *size)
        and offset_mask.shape[3] >= numbers,
        f"offset_mask must be [{batch}, {size[0]}, {size[1]}, at least {numbers}], but is "
        f"{list(offset_mask.shape)}",
    )
    compute = compute_dtype(value)
    by_point = offset_mask[..., :numbers].to(compute).unflatten(-1, (groups, len(steps), 3))
    weights = by_point[..., 2].softmax(-1) if softmax else by_point[..., 2]
    # The places of the kernel's middle, about which `spread` acts.
    middle = [dilation[axis] * (kernel[axis] - 1) // 2 for axis in (0, 1)]
    lines = torch.arange(size[0], device=value.device).view(-1, 1, 1)
    columns = torch.arange(size[1], device=value.device).view(-1, 1)
    centre_y = (lines * stride[0] - padding[0]).to(compute) + middle[0]
    centre_x = (columns * stride[1] - padding[1]).to(compute) + middle[1]

    pixels = value.to(compute).reshape(-1, group_dims)
    picture = torch.arange(batch, device=value.device).view(-1, 1, 1, 1) * (height * width)
    first = picture * groups + torch.arange(groups, device=value.device)
    result = value.new_zeros(batch, *size, groups, group_dims, dtype=compute)
    for point, (column, line) in enumerate(steps):
        dx, dy = by_point[..., point, 0], by_point[..., point, 1]  # (B, Ho, Wo, G)
        x = centre_x + (column * dilation[1] - middle[1] + dx) * spread
        y = centre_y + (line * dilation[0] - middle[0] + dy) * spread
        sampled = read(pixels, first, groups, x, y, height, width)
        result = result + sampled * weights[..., point].unsqueeze(-1)
    return result.flatten(3).to(value.dtype)
