"""Categories of the shapes world and reading and writing of the COCO panoptic format.

Two numberings exist. A *label* is the network's class index, 0 … 14 without gaps. A *category id*
is the number used in COCO files; these have gaps on purpose, as in COCO itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np


@dataclass(frozen=True)
class Category:
    """One class: COCO ``id``, ``name``, thing or stuff, display ``color`` as RGB 0 … 255."""

    id: int
    name: str
    is_thing: bool
    color: tuple[int, int, int]


CATEGORIES: tuple[Category, ...] = (
    Category(1, "disk", True, (220, 20, 60)),
    Category(2, "square", True, (0, 130, 200)),
    Category(3, "triangle", True, (60, 180, 75)),
    Category(5, "star", True, (255, 200, 25)),
    Category(6, "ring", True, (145, 30, 180)),
    Category(8, "cross", True, (245, 130, 48)),
    Category(9, "arrow", True, (70, 230, 230)),
    Category(11, "crescent", True, (240, 50, 230)),
    Category(101, "stripes", False, (128, 128, 0)),
    Category(102, "checker", False, (0, 0, 128)),
    Category(104, "bricks", False, (128, 0, 0)),
    Category(105, "dots", False, (0, 128, 128)),
    Category(107, "clouds", False, (170, 190, 220)),
    Category(110, "grass", False, (107, 142, 35)),
    Category(112, "photograph", False, (128, 128, 128)),
)
"""All categories; the position in this tuple is the network's label."""

LABEL_OF_CATEGORY_ID: dict[int, int] = {c.id: label for label, c in enumerate(CATEGORIES)}
STUFF_LABELS: frozenset[int] = frozenset(
    label for label, c in enumerate(CATEGORIES) if not c.is_thing
)
THING_NAMES: tuple[str, ...] = tuple(c.name for c in CATEGORIES if c.is_thing)
STUFF_NAMES: tuple[str, ...] = tuple(c.name for c in CATEGORIES if not c.is_thing)
LABEL_OF_NAME: dict[str, int] = {c.name: label for label, c in enumerate(CATEGORIES)}


def coco_categories() -> list[dict[str, Any]]:
    """The categories as COCO's ``categories`` list."""
    return [
        {
            "id": c.id,
            "name": c.name,
            "supercategory": "shape" if c.is_thing else "ground",
            "isthing": int(c.is_thing),
            "color": list(c.color),
        }
        for c in CATEGORIES
    ]


def encode_ids(id_map: np.ndarray) -> np.ndarray:
    """Segment ids ``[H, W]`` below 2**24 to the COCO RGB picture ``[H, W, 3]`` uint8."""
    ids = id_map.astype(np.uint32)
    return np.stack([ids & 255, (ids >> 8) & 255, (ids >> 16) & 255], axis=-1).astype(np.uint8)


def decode_ids(rgb: np.ndarray) -> np.ndarray:
    """The inverse of :func:`encode_ids`: ``[H, W, 3]`` uint8 to ids ``[H, W]`` uint32."""
    channels = rgb.astype(np.uint32)
    return channels[..., 0] | (channels[..., 1] << 8) | (channels[..., 2] << 16)


def segment_info(id_map: np.ndarray, segment_id: int, category_id: int) -> dict[str, Any]:
    """COCO's ``segments_info`` entry of one segment: area in pixels, box as x, y, width, height.

    Raises ValueError if no pixel of ``id_map`` carries ``segment_id``.
    """
    mask = id_map == segment_id
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size == 0:
        raise ValueError(f"segment {segment_id} has no pixel")
    x, y = int(columns[0]), int(rows[0])
    return {
        "id": int(segment_id),
        "category_id": int(category_id),
        "area": int(np.count_nonzero(mask)),
        "bbox": [x, y, int(columns[-1]) - x + 1, int(rows[-1]) - y + 1],
        "iscrowd": 0,
    }


class PanopticWriter:
    """Writes ``<stem>.json`` and the id maps ``<stem>/<name>.png`` under ``folder``.

    One object per file set, used from one thread: ``add`` each picture, then ``close``.
    """

    def __init__(self, folder: Path, stem: str = "panoptic") -> None:
        """Makes the folder for the id maps."""
        self._json_path = folder / f"{stem}.json"
        self._png_folder = folder / stem
        self._png_folder.mkdir(parents=True, exist_ok=True)
        self._images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def add(
        self,
        image_id: int,
        file_name: str,
        id_map: np.ndarray,
        segments: Iterable[tuple[int, int]],
    ) -> None:
        """Adds one picture. ``id_map`` is ``[H, W]``, 0 = void; ``segments`` holds
        (segment id, category id) pairs, ids unique and each with at least one pixel."""
        name = f"{Path(file_name).stem}.png"
        self._images.append(
            {
                "id": image_id,
                "file_name": file_name,
                "height": int(id_map.shape[0]),
                "width": int(id_map.shape[1]),
            }
        )
        self._annotations.append(
            {
                "image_id": image_id,
                "file_name": name,
                "segments_info": [segment_info(id_map, s, c) for s, c in segments],
            }
        )
        write_rgb(self._png_folder / name, encode_ids(id_map))

    def close(self) -> Path:
        """Writes the JSON file and returns its path."""
        document = {
            "info": {"description": "synthetic shapes with exact panoptic truth"},
            "images": self._images,
            "annotations": self._annotations,
            "categories": coco_categories(),
        }
        self._json_path.write_text(json.dumps(document))
        return self._json_path


def write_rgb(path: Path, rgb: np.ndarray, options: Sequence[int] = ()) -> None:
    """Writes ``rgb`` ``[H, W, 3]`` uint8; the suffix picks the format. Raises OSError."""
    if not cv2.imwrite(str(path), cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), list(options)):
        raise OSError(f"cannot write {path.name}")
