"""Where the points of multi-scale deformable attention lie, and where they lie at first."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["initial_offsets", "sampling_locations"]


def sampling_locations(reference: Tensor, offsets: Tensor, spatial_shapes: Tensor) -> Tensor:
    """Points around each query's reference, in float32 unless an operand is float64.

    Half precision would put a point of a large level pixels away from where it belongs.

    Args:
        reference: (B, Q, L, 2) as x, y in [0, 1], to which offsets count in pixels of the level;
            or (B, Q, L, 4) as x, y, width, height, of which K offsets span half a box.
        offsets: (B, Q, G, L, K, 2), x and y.
        spatial_shapes: (L, 2), height and width of each level.

    Returns:
        (B, Q, G, L, K, 2), x and y in [0, 1].

    Raises:
        ValueError: if ``reference`` ends in another number than 2 or 4.
    """
    dtype = torch.promote_types(reference.dtype, offsets.dtype)
    dtype = torch.promote_types(dtype, torch.float32)
    offsets, reference = offsets.to(dtype), reference.to(dtype)[:, :, None, :, None]
    if reference.shape[-1] == 2:
        return reference + offsets / spatial_shapes.flip(-1)[:, None]
    if reference.shape[-1] == 4:
        half_boxes = reference[..., 2:] * 0.5
        return reference[..., :2] + offsets / offsets.shape[-2] * half_boxes
    raise ValueError(f"reference must end in 2 or 4 numbers, but has {reference.shape[-1]}")


def initial_offsets(heads: int, levels: int, points: int) -> Tensor:
    """(G*L*K*2,) float32: head g looks in direction g/G of a turn, point k at k+1 pixels.

    Distances are of the square's border, as in the maximum norm.
    """
    angle = torch.arange(heads, dtype=torch.float32) * (2 * math.pi / heads)
    direction = torch.stack([angle.cos(), angle.sin()], -1)
    direction = direction / direction.abs().amax(-1, keepdim=True)
    steps = torch.arange(1, points + 1, dtype=torch.float32)
    by_point = direction[:, None, None] * steps[:, None]  # (G, 1, K, 2)
    return by_point.expand(heads, levels, points, 2).reshape(-1)
