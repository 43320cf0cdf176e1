"""Textured grounds (the stuff classes) and the curves that divide a picture between two of them.

Every painter takes a numpy Generator and a size (height, width) in pixels and returns a float32
RGB picture ``[height, width, 3]``, nominally 0 … 255.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import skimage.data
from PIL import Image

Size = tuple[int, int]
PHOTOGRAPHS: tuple[str, ...] = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "page.png",
    "retina.jpg",
    "rocket.jpg",
    "text.png",
)
"""Photographs that come inside scikit-image's wheel, so that none is ever downloaded. Its pictures
of bricks and grass are left out: they would belong to two classes."""


@cache
def _photograph(name: str) -> np.ndarray:
    path = Path(skimage.data.__file__).parent / name
    if not path.is_file():
        raise RuntimeError(f"scikit-image's wheel does not hold the photograph {name}")
    with Image.open(path) as file:
        rgb = np.asarray(file.convert("RGB"))
    shrink = min(1.0, 420 / min(rgb.shape[:2]))
    if shrink < 1.0:
        rgb = cv2.resize(rgb, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
    return rgb


@cache
def noise_bank() -> np.ndarray:
    """2**20 standard normal float32 numbers, always the same; scenes take random windows."""
    return np.random.default_rng(20240229).standard_normal(1 << 20, dtype=np.float32)


def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal float32 numbers in ``shape`` from a random window of the bank, wrapping."""
    bank, count = noise_bank(), int(np.prod(shape))
    start = int(rng.integers(len(bank)))
    if start + count <= len(bank):
        return bank[start : start + count].reshape(shape)
    return np.take(bank, np.arange(start, start + count), mode="wrap").reshape(shape)


def random_colors(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random RGB colours ``[count, 3]`` float32 0 … 255, spread over hue, saturation and value."""
    hue, saturation, value = rng.random((3, count, 1))
    ramp = np.abs((hue * 6 + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1
    tint = saturation**0.6 * (1 - ramp.clip(0, 1))
    return (255 * (0.15 + 0.85 * value) * (1 - tint)).astype(np.float32)


def _two_colors(rng: np.random.Generator, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Two colours, ``distance`` apart in the mean over channels if five tries find such a pair."""
    colors = random_colors(rng, 6)
    apart = np.abs(colors[1:] - colors[0]).mean(axis=1)
    far = np.flatnonzero(apart >= distance)
    return colors[0], colors[1 + (far[0] if far.size else int(apart.argmax()))]


def _axes(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in pixels along two perpendicular axes of random direction and origin."""
    angle = rng.uniform(0, np.pi)
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    y = np.arange(size[0], dtype=np.float32)[:, None] - np.float32(rng.uniform(0, size[0]))
    x = np.arange(size[1], dtype=np.float32)[None, :] - np.float32(rng.uniform(0, size[1]))
    return cos * x + sin * y, cos * y - sin * x


def _triangle_wave(t: np.ndarray) -> np.ndarray:
    """Distance of ``t`` to the nearest whole number, 0 … 0.5."""
    return np.abs(t - np.rint(t))


def _blend(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``a`` where ``weight`` is 0, ``b`` where it is 1; colours ``[3]``, weight ``[H, W]``."""
    weight = weight.astype(np.float32, copy=False)
    return cv2.merge([weight * (b[c] - a[c]) + a[c] for c in range(3)])


def stripes(rng: np.random.Generator, size: Size) -> np.ndarray:
    """Parallel bands of two colours, edges one pixel soft."""
    u, _ = _axes(rng, size)
    period, share = rng.uniform(9, 26), rng.uniform(0.18, 0.32)
    weight = ((_triangle_wave(u / np.float32(period)) - share) * period + 0.5).clip(0, 1)
    return _blend(*_two_colors(rng, 45), weight)


def checker(rng: np.random.Generator, size: Size) -> np.ndarray:
    """A chessboard of two colours."""
    u, v = _axes(rng, size)
    cell = np.float32(rng.uniform(9, 24))
    su = (cell * (4 * _triangle_wave(u / (2 * cell)) - 1) / 2).clip(-1, 1)
    sv = (cell * (4 * _triangle_wave(v / (2 * cell)) - 1) / 2).clip(-1, 1)
    return _blend(*_two_colors(rng, 45), 0.5 + 0.5 * su * sv)


def bricks(rng: np.random.Generator, size: Size) -> np.ndarray:
    """Courses of bricks of slightly differing brightness with mortar between them."""
    u, v = _axes(rng, size)
    course = np.float32(rng.uniform(11, 20))
    length, mortar = course * np.float32(rng.uniform(1.9, 2.6)), rng.uniform(1.0, 2.0)
    row = np.floor(v / course)
    along = u / length + 0.5 * (row % 2)
    gap = np.minimum(_triangle_wave(v / course) * course, _triangle_wave(along) * length)
    shades = 1 + 0.16 * noise(rng, (64, 64))
    shade = shades[row.astype(np.int32) & 63, np.floor(along).astype(np.int32) & 63]
    brick, joint = _two_colors(rng, 55)
    return _blend(joint, brick, (gap - mortar + 0.5).clip(0, 1)) * shade[..., None]


def dots(rng: np.random.Generator, size: Size) -> np.ndarray:
    """Small round dots on a regular lattice, well below the size of a disk object."""
    u, v = _axes(rng, size)
    pitch = np.float32(rng.uniform(11, 19))
    radius = pitch * rng.uniform(0.2, 0.32)
    shift = 0.5 * (np.floor(v / pitch) % 2) if rng.random() < 0.5 else np.float32(0)
    fu, fv = u / pitch + shift, v / pitch
    distance = pitch * np.hypot(fu - np.floor(fu) - 0.5, fv - np.floor(fv) - 0.5)
    return _blend(*_two_colors(rng, 50), (radius - distance + 0.5).clip(0, 1))


def clouds(rng: np.random.Generator, size: Size) -> np.ndarray:
    """Soft blotches: three octaves of smooth noise between two colours."""
    weight = np.zeros(size, np.float32)
    for cells, share in ((4, 0.5), (8, 0.3), (16, 0.15)):
        grid = noise(rng, (cells + 2, cells + 2))
        weight += share * cv2.resize(grid, size[::-1], interpolation=cv2.INTER_CUBIC)
    return _blend(*_two_colors(rng, 50), (0.5 + 0.7 * weight).clip(0, 1))


def grass(rng: np.random.Generator, size: Size) -> np.ndarray:
    """Short blades in one main direction: noise smeared along a line, in greens and straws."""
    length, angle = int(rng.integers(7, 12)), rng.uniform(-0.6, 0.6)
    kernel = np.zeros((length, length), np.float32)
    middle = (length - 1) / 2
    dx, dy = middle * np.sin(angle), middle * np.cos(angle)
    ends = [(int(round(middle - dx)), int(round(middle - dy)))]
    ends.append((int(round(middle + dx)), int(round(middle + dy))))
    cv2.line(kernel, ends[0], ends[1], 1.0, 1)
    blades = cv2.filter2D(noise(rng, size), -1, kernel / np.sqrt(kernel.sum()))
    dark = np.array([20, 60, 15], np.float32) * np.float32(rng.uniform(0.5, 1.5))
    light = np.array([rng.uniform(90, 220), rng.uniform(150, 220), rng.uniform(30, 100)])
    return _blend(dark, light.astype(np.float32), (0.45 + 0.33 * blades).clip(0, 1))


def photograph(rng: np.random.Generator, size: Size) -> np.ndarray:
    """A random window of a random photograph, mirrored half of the time."""
    picture = _photograph(PHOTOGRAPHS[int(rng.integers(len(PHOTOGRAPHS)))])
    height, width = picture.shape[:2]
    scale = rng.uniform(0.55, 1.0) * min(height / size[0], width / size[1])
    window_h, window_w = max(1, int(size[0] * scale)), max(1, int(size[1] * scale))
    y = int(rng.integers(height - window_h + 1))
    x = int(rng.integers(width - window_w + 1))
    window = picture[y : y + window_h, x : x + window_w]
    if rng.random() < 0.5:
        window = window[:, ::-1]
    mode = cv2.INTER_AREA if scale > 1 else cv2.INTER_LINEAR
    return cv2.resize(window, size[::-1], interpolation=mode).astype(np.float32)


PAINTERS: dict[str, Callable[[np.random.Generator, Size], np.ndarray]] = {
    "stripes": stripes,
    "checker": checker,
    "bricks": bricks,
    "dots": dots,
    "clouds": clouds,
    "grass": grass,
    "photograph": photograph,
}


def division(rng: np.random.Generator, size: Size) -> np.ndarray:
    """A field ``[H, W]``, in pixels, whose sign divides the picture along a wave or a circle.

    Each side gets between about 25 and 75 per cent of the picture.
    """
    u, v = _axes(rng, size)
    if rng.random() < 0.7:
        wave = rng.uniform(0, 0.09) * min(size)
        field = v + wave * np.sin(u * np.float32(rng.uniform(3, 12) / max(size)))
    else:
        field = np.hypot(u, v)
    share = rng.uniform(0.27, 0.73)
    return (field - np.quantile(field[::8, ::8], share)).astype(np.float32)
