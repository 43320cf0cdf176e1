"""The thing classes: outlines on the unit circle, drawn anti-aliased into small patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from deform_models.shapes.grounds import noise

SUPERSAMPLING = 4
Outline = list[tuple[np.ndarray, int]]
"""Polygons ``[K, 2]`` (x, y) within the unit circle, each filled with 1 or cut out with 0."""


def _circle(radius: float = 1.0, x: float = 0.0, y: float = 0.0) -> np.ndarray:
    turn = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    return np.stack([x + radius * np.cos(turn), y + radius * np.sin(turn)], axis=1)


def _polygon(*points: tuple[float, float]) -> Outline:
    return [(np.array(points), 1)]


def _disk(rng: np.random.Generator) -> Outline:
    return [(_circle(), 1)]


def _square(rng: np.random.Generator) -> Outline:
    return _polygon((-0.78, -0.78), (0.78, -0.78), (0.78, 0.78), (-0.78, 0.78))


def _triangle(rng: np.random.Generator) -> Outline:
    return _polygon((0, -1), (0.87, 0.5), (-0.87, 0.5))


def _star(rng: np.random.Generator) -> Outline:
    inner = rng.uniform(0.4, 0.5)
    turn = np.arange(10) * np.pi / 5
    radius = np.where(np.arange(10) % 2 == 0, 1.0, inner)
    return [(np.stack([radius * np.sin(turn), -radius * np.cos(turn)], axis=1), 1)]


def _ring(rng: np.random.Generator) -> Outline:
    return [(_circle(), 1), (_circle(rng.uniform(0.45, 0.65)), 0)]


def _cross(rng: np.random.Generator) -> Outline:
    a = rng.uniform(0.24, 0.36)
    right = [(a, -1), (a, -a), (1, -a), (1, a), (a, a), (a, 1)]
    return _polygon(*right, *[(-x, -y) for x, y in right])


def _arrow(rng: np.random.Generator) -> Outline:
    shaft, neck = rng.uniform(0.2, 0.3), rng.uniform(-0.15, 0.1)
    right = [(0.0, -1.0), (0.75, neck), (shaft, neck), (shaft, 1.0)]
    return _polygon(*right, *[(-x, y) for x, y in right[:0:-1]])


def _crescent(rng: np.random.Generator) -> Outline:
    return [(_circle(), 1), (_circle(rng.uniform(0.72, 0.82), x=rng.uniform(0.42, 0.52)), 0)]


OUTLINES: dict[str, Callable[[np.random.Generator], Outline]] = {
    "disk": _disk,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "ring": _ring,
    "cross": _cross,
    "arrow": _arrow,
    "crescent": _crescent,
}


@dataclass(frozen=True)
class Shape:
    """One object's coverage ``alpha`` ``[h, w]`` uint8, already clipped to the picture.

    ``top`` and ``left`` place it in the picture; ``full_area`` is its area in pixels before
    clipping. A pixel belongs to the object where coverage is at least one half.
    """

    alpha: np.ndarray
    top: int
    left: int
    full_area: float

    @property
    def window(self) -> tuple[slice, slice]:
        """The slices of the picture that ``alpha`` covers."""
        height, width = self.alpha.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)

    @property
    def mask(self) -> np.ndarray:
        """The object's own pixels, bool ``[h, w]``."""
        return self.alpha >= 128


def draw_shape(
    rng: np.random.Generator,
    name: str,
    center: tuple[float, float],
    radius: float,
    size: tuple[int, int],
) -> Shape | None:
    """Draws an object of class ``name`` with ``radius`` px about ``center`` (y, x), at a random
    angle and stretched by up to 15 per cent. None if no pixel lies in the picture."""
    outline = OUTLINES[name](rng)
    angle, stretch = rng.uniform(0, 2 * np.pi), rng.uniform(0.86, 1.16)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    transform = rotation @ np.diag([radius * stretch**0.5, radius / stretch**0.5])

    reach = int(radius * 1.1) + 2
    top, left = int(center[0]) - reach, int(center[1]) - reach
    side = 2 * reach + 1
    canvas = np.zeros((side * SUPERSAMPLING, side * SUPERSAMPLING), np.uint8)
    offset = np.array([center[1] - left, center[0] - top])
    for polygon, fill in outline:
        points = ((polygon @ transform.T + offset) * SUPERSAMPLING - 0.5) * 16
        cv2.fillPoly(canvas, [np.rint(points).astype(np.int32)], 255 * fill, shift=4)
    alpha = cv2.resize(canvas, (side, side), interpolation=cv2.INTER_AREA)
    full_area = float(alpha.sum()) / 255

    y0, x0 = max(0, -top), max(0, -left)
    y1, x1 = min(side, size[0] - top), min(side, size[1] - left)
    if y0 >= y1 or x0 >= x1:
        return None
    return Shape(alpha[y0:y1, x0:x1], top + y0, left + x0, full_area)


def fill(rng: np.random.Generator, shape: Shape, color: np.ndarray) -> np.ndarray:
    """The object's paint ``[h, w, 3]`` float32: flat, graded, speckled or with a darker rim."""
    height, width = shape.alpha.shape
    paint = np.broadcast_to(color, (height, width, 3))
    style = rng.integers(5)
    if style == 1:
        angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.15, 0.4)
        y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
        x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
        ramp = 1 + np.float32(strength) * (np.float32(np.cos(angle)) * x + y * np.sin(angle))
        return paint * ramp[..., None].astype(np.float32)
    if style == 2:
        return paint + np.float32(rng.uniform(8, 22)) * noise(rng, (height, width, 1))
    if style == 3:
        depth = cv2.distanceTransform(shape.mask.astype(np.uint8), cv2.DIST_L2, 3)
        rim = (np.float32(rng.uniform(1.6, 3.0)) - depth).clip(0, 1) * np.float32(0.55)
        return paint * (1 - rim[..., None])
    return paint
