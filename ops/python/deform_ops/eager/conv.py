"""Deformable convolution in tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.eager.reading import check, compute_dtype, read
from deform_ops.geometry import output_size

__all__ = ["conv"]


def conv(
    value: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    offset_groups: int,
) -> Tensor:
    """(B, Ho, Wo, Cout); operands as :class:`deform_ops.registry.Conv` has them, pairs as h, w.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
    """
    check(value.dim() == 4, f"value must have 4 dimensions (B, H, W, Cin), but has {value.dim()}")
    check(weight.dim() == 4, f"weight must have 4 dimensions, but has {weight.dim()}")
    batch, height, width, channels = value.shape
    outputs, group_channels, *kernel = weight.shape
    check(
        channels == groups * group_channels and outputs % groups == 0,
        f"weight must be [a multiple of {groups}, {channels} / {groups}, kH, kW], but is "
        f"{list(weight.shape)}",
    )
    check(
        offset_groups >= 1 and channels % offset_groups == 0,
        f"offset_groups must divide {channels} channels, but is {offset_groups}",
    )
    size = [
        output_size(*numbers)
        for numbers in zip((height, width), kernel, stride, padding, dilation, strict=True)
    ]
    points = kernel[0] * kernel[1]
    places = (batch, *size, offset_groups, points)
    check(
        offset.shape == (*places, 2),
        f"offset must be {[*places, 2]}, but is {list(offset.shape)}",
    )
    check(
        mask is None or mask.shape == places,
        f"mask must be {list(places)}, but is {[] if mask is None else list(mask.shape)}",
    )
    compute = compute_dtype(value)
    lines = torch.arange(size[0], device=value.device).view(-1, 1, 1) * stride[0] - padding[0]
    columns = torch.arange(size[1], device=value.device).view(-1, 1) * stride[1] - padding[1]
    pixels = value.to(compute).reshape(-1, channels // offset_groups)
    picture = torch.arange(batch, device=value.device).view(-1, 1, 1, 1) * (height * width)
    first = picture * offset_groups + torch.arange(offset_groups, device=value.device)
    # (groups, kernel's points, Cin/groups, Cout/groups)
    factors = weight.to(compute).unflatten(0, (groups, -1)).flatten(3).permute(0, 3, 2, 1)
    result = value.new_zeros(groups, batch * size[0] * size[1], outputs // groups, dtype=compute)
    for point in range(points):
        line, column = divmod(point, kernel[1])
        shift = offset[..., point, :].to(compute)  # (B, Ho, Wo, offset groups, 2)
        y = (lines + line * dilation[0]).to(compute) + shift[..., 0]
        x = (columns + column * dilation[1]).to(compute) + shift[..., 1]
        sampled = read(pixels, first, offset_groups, x, y, height, width)
        if mask is not None:
            sampled = sampled * mask[..., point, None].to(compute)
        sampled = sampled.reshape(-1, groups, group_channels).transpose(0, 1)
        result = result + sampled @ factors[:, point]
    combined = result.transpose(0, 1).reshape(batch, *size, outputs)
    if bias is not None:
        combined = combined + bias.to(compute)
    return combined.to(value.dtype)
