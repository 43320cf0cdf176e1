"""Sizes given as one number or as a pair."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Pair", "output_size", "pair"]

Pair = int | Sequence[int]


def pair(name: str, value: Pair) -> tuple[int, int]:
    """``value`` as height and width.

    Raises:
        ValueError: if it is a sequence of another length than 2.
    """
    if isinstance(value, int):
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name} must be a number or two, but is {value!r}")
    return value[0], value[1]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many places a kernel has on an axis of ``size``."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
