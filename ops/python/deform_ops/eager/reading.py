"""Bilinear reading by tensor operations, and checks of what is read."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check", "compute_dtype", "read"]


def compute_dtype(value: Tensor) -> torch.dtype:
    """What coordinates and sums of ``value``'s type are computed in.

    Raises:
        RuntimeError: if ``value`` isn't of a float type.
    """
    check(value.is_floating_point(), f"value must be of a float type, but is {value.dtype}")
    return torch.float64 if value.dtype == torch.float64 else torch.float32


def check(condition: bool, message: str) -> None:
    """Raises RuntimeError, as the library's operators do, unless ``condition``."""
    if not condition:
        raise RuntimeError(message)


def read(
    rows: Tensor,
    first: Tensor,
    step: int,
    x: Tensor,
    y: Tensor,
    height: Tensor | int,
    width: Tensor | int,
) -> Tensor:
    """Reads maps at pixels x and y, bilinearly, with zeros outside.

    Args:
        rows: (N, C), all maps' pixels in any order that the next two describe.
        first: int64, where each point's map begins among ``rows``.
        step: rows between two pixels of a map, which lie line by line.
        x: columns, of ``first``'s shape once broadcast.
        y: lines.
        height: of each map.
        width: of each map.

    Returns:
        The points' shape and C. A point at -1 or beyond, at the size or beyond, or at no number
        reads 0 and has no derivative.
    """
    counted = (x > -1) & (x < width) & (y > -1) & (y < height)
    x, y = torch.where(counted, x, 0.0), torch.where(counted, y, 0.0)
    left, top = x.detach().floor(), y.detach().floor()
    to_right, to_bottom = x - left, y - top
    total: Tensor | None = None
    for bottom in (0, 1):
        line = top.long() + bottom
        row_share = to_bottom if bottom else 1 - to_bottom
        for right in (0, 1):
            column = left.long() + right
            within = (column >= 0) & (column < width) & (line >= 0) & (line < height) & counted
            share = torch.where(within, row_share * (to_right if right else 1 - to_right), 0.0)
            # A corner outside reads pixel 0 of its map, with a share of 0.
            index = first + torch.where(within, line * width + column, 0) * step
            part = share.unsqueeze(-1) * rows[index]
            total = part if total is None else total + part
    assert total is not None
    return total
