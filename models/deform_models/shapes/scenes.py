"""Scenes drawn from an integer seed, with exact panoptic truth.

A scene is one or two textured grounds with one to eight objects on them, lit unevenly, blurred
and made noisy. The same seed and size give the same bytes with the same library versions.

Command line: ``python -m deform_models.shapes.scenes --count 500 --seed 10000000 --out DIR``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from deform_models.shapes import grounds, objects
from deform_models.shapes.coco import (
    CATEGORIES,
    LABEL_OF_NAME,
    STUFF_NAMES,
    THING_NAMES,
    PanopticWriter,
    write_rgb,
)

DEFAULT_SIZE = (256, 256)
MAX_OBJECTS = 8
MAX_SEGMENTS = MAX_OBJECTS + 2
MIN_VISIBLE_PIXELS = 60
MIN_VISIBLE_SHARE = 0.55
MIN_GROUND_PIXELS = 600
HELD_OUT_SEED = 10_000_000
"""First seed of the held-out scenes; training uses seeds from TRAINING_SEED up only."""
TRAINING_SEED = 1_000_000_000


@dataclass(frozen=True)
class Scene:
    """A picture and its truth.

    ``image`` is ``[H, W, 3]`` uint8 RGB. ``segment_map`` ``[H, W]`` uint8 gives for each pixel
    the position of its segment in ``labels``; every pixel belongs to one. Grounds come first.
    """

    image: np.ndarray
    segment_map: np.ndarray
    labels: tuple[int, ...]

    def id_map(self) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """The map with COCO segment ids (uint32) and the (segment id, category id) pairs.

        Ids are 1000 × category id + position + 1: unique, non-zero, below 2**24.
        """
        category_ids = [CATEGORIES[label].id for label in self.labels]
        ids = [1000 * c + position + 1 for position, c in enumerate(category_ids)]
        table = np.array(ids, np.uint32)
        return table[self.segment_map], list(zip(ids, category_ids, strict=True))


def _paint_grounds(
    rng: np.random.Generator, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    count = 1 if rng.random() < 0.45 else 2
    # The photograph has many faces, so it comes up twice as often as each plain texture.
    weights = np.array([2.0 if n == "photograph" else 1.0 for n in STUFF_NAMES])
    chosen = rng.choice(len(STUFF_NAMES), count, replace=False, p=weights / weights.sum())
    names = [STUFF_NAMES[i] for i in chosen]
    picture = grounds.PAINTERS[names[0]](rng, size)
    owner = np.zeros(size, np.uint8)
    if count == 2:
        field = grounds.division(rng, size)
        owner[field > 0] = 1
        second = grounds.PAINTERS[names[1]](rng, size)
        picture = picture + (second - picture) * (field + 0.5).clip(0, 1)[..., None]
    return picture, owner, [LABEL_OF_NAME[name] for name in names]


def _place_objects(
    rng: np.random.Generator, owner: np.ndarray, labels: list[int]
) -> list[tuple[objects.Shape, int]]:
    """Places objects front last; updates ``owner`` and ``labels``.

    A place is given up if it would hide too much of an object or ground below it, or if too
    little of the object itself lies within the picture, so that each class stays recognisable.
    """
    size = owner.shape
    unit = min(size) / 256
    wanted = int(rng.integers(1, MAX_OBJECTS + 1))
    placed: list[tuple[objects.Shape, int]] = []
    needed = [float(MIN_GROUND_PIXELS)] * len(labels)
    visible = np.bincount(owner.ravel(), minlength=MAX_SEGMENTS)
    for _ in range(3 * wanted):
        name = THING_NAMES[int(rng.integers(len(THING_NAMES)))]
        radius = unit * 13.0 * (52.0 / 13.0) ** (rng.random() ** 1.3)
        center = (rng.uniform(0, size[0]), rng.uniform(0, size[1]))
        shape = objects.draw_shape(rng, name, center, radius, size)
        if shape is None:
            continue
        below = owner[shape.window]
        mask = shape.mask
        area = np.count_nonzero(mask)
        least = max(MIN_VISIBLE_PIXELS, MIN_VISIBLE_SHARE * shape.full_area)
        hidden = np.bincount(below[mask], minlength=MAX_SEGMENTS)
        left = visible - hidden
        if area < least or any(left[i] < n and hidden[i] for i, n in enumerate(needed)):
            continue
        position = len(labels)
        below[mask] = position
        visible = left
        visible[position] = area
        labels.append(LABEL_OF_NAME[name])
        needed.append(least)
        placed.append((shape, position))
        if len(placed) == wanted:
            break
    return placed


def _paint_objects(
    rng: np.random.Generator, picture: np.ndarray, placed: list[tuple[objects.Shape, int]]
) -> None:
    used: list[np.ndarray] = []
    shadowed = rng.random() < 0.35
    for shape, _ in placed:
        patch = picture[shape.window]
        avoided = np.array([patch[::4, ::4].reshape(-1, 3).mean(axis=0), *used], np.float32)
        candidates = grounds.random_colors(rng, 8)
        contrast = np.abs(candidates[:, None] - avoided).max(axis=2).min(axis=1)
        color = candidates[int(contrast.argmax())]
        used.append(color)
        alpha = (shape.alpha * np.float32(1 / 255))[..., None]
        if shadowed:
            shift = np.float32([[1, 0, 2.5], [0, 1, 2.5]])
            soft = cv2.GaussianBlur(
                cv2.warpAffine(shape.alpha, shift, shape.alpha.shape[::-1]), (5, 5), 0
            )
            patch *= 1 - (soft * np.float32(0.45 / 255))[..., None]
        patch += alpha * (objects.fill(rng, shape, color) - patch)


def _degrade(rng: np.random.Generator, picture: np.ndarray) -> np.ndarray:
    """Uneven light, contrast, blur, sensor noise and JPEG loss; returns uint8."""
    height, width = picture.shape[:2]
    angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.35)
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    light = np.float32(strength * np.cos(angle)) * x + np.float32(strength * np.sin(angle)) * y
    light -= np.float32(rng.uniform(0, 0.25)) * (x * x + y * y) - 1
    gain, offset = rng.uniform(0.7, 1.15), rng.uniform(-15, 25)
    picture = picture * (light * np.float32(gain))[..., None] + np.float32(offset)
    if rng.random() < 0.4:
        picture = cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.4, 1.3))
    sigma = 12 * rng.random() ** 2
    if sigma > 0.5:
        picture += np.float32(sigma) * grounds.noise(rng, picture.shape)
    result = picture.clip(0, 255).astype(np.uint8)
    if rng.random() < 0.3:
        quality = int(rng.integers(50, 96))
        _, packed = cv2.imencode(".jpg", result, [cv2.IMWRITE_JPEG_QUALITY, quality])
        result = cv2.imdecode(packed, cv2.IMREAD_COLOR)
    return result


def generate_scene(seed: int, size: tuple[int, int] = DEFAULT_SIZE) -> Scene:
    """The scene of ``seed`` (non-negative) at ``size`` (height, width) in pixels, each ≥ 64.

    Raises ValueError for a negative seed or a smaller size.
    """
    if min(size) < 64:
        raise ValueError(f"size must be at least 64 pixels a side, got {size[0]}x{size[1]}")
    rng = np.random.default_rng(seed)
    picture, owner, labels = _paint_grounds(rng, size)
    placed = _place_objects(rng, owner, labels)
    _paint_objects(rng, picture, placed)
    return Scene(_degrade(rng, picture), owner, tuple(labels))


def write_scenes(
    folder: Path,
    count: int,
    seed: int,
    size: tuple[int, int] = DEFAULT_SIZE,
    suffix: str = ".jpg",
) -> Path:
    """Writes scenes ``seed`` … ``seed + count − 1`` as ``images/``, ``panoptic/`` and
    ``panoptic.json`` under ``folder``; returns the JSON file's path. JPEG has quality 95."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    writer = PanopticWriter(folder)
    options = [cv2.IMWRITE_JPEG_QUALITY, 95] if suffix == ".jpg" else []
    for scene_seed in tqdm(range(seed, seed + count), desc="scenes", unit="scene"):
        scene = generate_scene(scene_seed, size)
        name = f"{scene_seed:010d}{suffix}"
        write_rgb(folder / "images" / name, scene.image, options)
        writer.add(scene_seed, name, *scene.id_map())
    return writer.close()


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description="Write synthetic scenes in COCO panoptic format.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=HELD_OUT_SEED)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, nargs=2, default=DEFAULT_SIZE, metavar=("H", "W"))
    parser.add_argument("--format", choices=("jpg", "png"), default="jpg")
    arguments = parser.parse_args()
    size = (arguments.size[0], arguments.size[1])
    write_scenes(arguments.out, arguments.count, arguments.seed, size, f".{arguments.format}")


if __name__ == "__main__":
    main()
