"""Deformable convolution with torchvision's operands."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.geometry import Pair
from deform_ops.registry import Backend, conv

__all__ = ["deform_conv2d"]


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    mask: Tensor | None = None,
    *,
    backend: Backend | None = None,
) -> Tensor:
    """Deformable convolution over NCHW maps, with ``torchvision.ops.deform_conv2d``'s arguments.

    Groups follow from the shapes. ``K`` = kH*kW.

    Args:
        input: (B, Cin, H, W).
        offset: (B, offset groups * K * 2, Ho, Wo), dy and dx for each point, rows first.
        weight: (Cout, Cin/groups, kH, kW).
        bias: (Cout,), or None.
        stride: pixels between two outputs.
        padding: pixels of zeros on each side.
        dilation: pixels between two points.
        mask: (B, offset groups * K, Ho, Wo), a factor on each sample, or None.
        backend: who computes; None takes the policy's choice.

    Returns:
        (B, Cout, Ho, Wo), in ``input``'s memory format: without a copy where that is channels last.

    Raises:
        ValueError: if an operand has another number of dimensions than 4, or channels that make
            no whole number of groups.
        RuntimeError: on other operands that don't fit together, naming the one at fault.
    """
    named = {"input": input, "offset": offset, "weight": weight}
    if mask is not None:
        named["mask"] = mask
    for name, tensor in named.items():
        if tensor.dim() != 4:
            raise ValueError(f"{name} must have 4 dimensions, but has {tensor.dim()}")
    points = weight.shape[2] * weight.shape[3]
    groups = _whole("input", input.shape[1], weight.shape[1])
    offset_groups = _whole("offset", offset.shape[1], 2 * points)
    if mask is not None and mask.shape[1] != offset_groups * points:
        raise ValueError(
            f"mask must have {offset_groups * points} channels, as offset has "
            f"{offset.shape[1]}, but has {mask.shape[1]}"
        )
    result = conv(
        input.permute(0, 2, 3, 1),
        offset.permute(0, 2, 3, 1).unflatten(-1, (offset_groups, points, 2)),
        weight,
        bias,
        None if mask is None else mask.permute(0, 2, 3, 1).unflatten(-1, (offset_groups, points)),
        stride,
        padding,
        dilation,
        groups=groups,
        offset_groups=offset_groups,
        backend=backend,
    ).permute(0, 3, 1, 2)
    if input.is_contiguous(memory_format=torch.channels_last):
        return result
    return result.contiguous()


def _whole(name: str, channels: int, unit: int) -> int:
    if unit == 0 or channels % unit:
        raise ValueError(f"{name} must have a multiple of {unit} channels, but has {channels}")
    return channels // unit
