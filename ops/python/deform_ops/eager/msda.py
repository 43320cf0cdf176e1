"""Multi-scale deformable attention in tensor operations."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.eager.reading import check, compute_dtype, read

__all__ = ["msda"]


def msda(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    softmax: bool = False,
) -> Tensor:
    """(B, Q, G*D); operands as :class:`deform_ops.registry.Msda` has them.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
    """
    check(value.dim() == 4, f"value must have 4 dimensions (B, S, G, D), but has {value.dim()}")
    check(
        sampling_locations.dim() == 6,
        "sampling_locations must have 6 dimensions (B, Q, G, L, K, 2), but has "
        f"{sampling_locations.dim()}",
    )
    batch, rows, heads, channels = value.shape
    _, queries, _, levels, points, _ = sampling_locations.shape
    expected = (batch, queries, heads, levels, points, 2)
    check(
        sampling_locations.shape == expected,
        f"sampling_locations must be {list(expected)}, but is {list(sampling_locations.shape)}",
    )
    check(
        spatial_shapes.shape == (levels, 2),
        f"spatial_shapes must be [{levels}, 2], but is {list(spatial_shapes.shape)}",
    )
    check(
        level_start_index.shape == (levels,),
        f"level_start_index must be [{levels}], but is {list(level_start_index.shape)}",
    )
    weights = attention_weights.flatten(3)
    check(
        weights.shape == (batch, queries, heads, levels * points),
        f"attention_weights must be [{batch}, {queries}, {heads}, {levels * points}], but is "
        f"{list(attention_weights.shape)}",
    )
    compute = compute_dtype(value)
    weights = weights.to(compute)
    if softmax:
        weights = weights.softmax(-1)
    weights = weights.unflatten(-1, (levels, points))
    pixels = value.to(compute).reshape(-1, channels)
    picture = torch.arange(batch, device=value.device).view(-1, 1, 1, 1) * rows
    head = torch.arange(heads, device=value.device).view(-1, 1)
    result = value.new_zeros(batch, queries, heads, channels, dtype=compute)
    for level in range(levels):
        height, width = (size.long() for size in spatial_shapes[level].unbind())
        first = (picture + level_start_index[level].long()) * heads + head
        location = sampling_locations[:, :, :, level].to(compute)
        x = location[..., 0] * width - 0.5
        y = location[..., 1] * height - 0.5
        sampled = read(pixels, first, heads, x, y, height, width)  # (B, Q, G, K, D)
        result = result + (sampled * weights[:, :, :, level].unsqueeze(-1)).sum(-2)
    return result.flatten(2).to(value.dtype)
