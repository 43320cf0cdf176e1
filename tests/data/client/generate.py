"""Makes the files of this folder: what the client reads, written by other libraries.

Run it in this folder after changing it; the output is committed. Needs numpy, opencv, pillow and
pycocotools.
"""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from pycocotools import mask as coco_mask

HERE = Path(__file__).resolve().parent


def rle_case(name: str, mask: np.ndarray) -> dict:
    """A mask ``[H, W]`` as rows of 0 and 1, and as pycocotools encodes it."""
    encoded = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {
        "name": name,
        "size": encoded["size"],
        "counts": encoded["counts"].decode(),
        "rows": ["".join(map(str, row)) for row in mask.astype(int).tolist()],
    }


def disk(height: int, width: int, radius: float) -> np.ndarray:
    """A disk in the middle of an ``[H, W]`` mask."""
    rows, columns = np.mgrid[:height, :width]
    return (rows - height / 2) ** 2 + (columns - width / 2) ** 2 < radius**2


def main() -> None:
    """Writes every file."""
    rng = np.random.default_rng(7)
    corner = np.zeros((60, 90), bool)
    corner[59, 89] = True
    cases = [
        rle_case("column_major", np.array([[0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0]])),
        rle_case("empty", np.zeros((5, 7), bool)),
        rle_case("full", np.ones((5, 7), bool)),
        rle_case("one_pixel_inside", np.ones((1, 1), bool)),
        rle_case("last_pixel_after_a_long_run", corner),
        rle_case("disk", disk(37, 53, 15.5)),
        rle_case("noise", rng.random((23, 31)) < 0.5),
        rle_case("one_row", rng.random((1, 40)) < 0.3),
        rle_case("one_column", rng.random((40, 1)) < 0.3),
    ]
    (HERE / "rle_masks.json").write_text(json.dumps(cases, indent=1) + "\n")

    ids = np.arange(5 * 7, dtype=np.uint16).reshape(5, 7)
    cv2.imwrite(str(HERE / "ids_8_bit.png"), ids.astype(np.uint8))
    cv2.imwrite(str(HERE / "ids_16_bit.png"), ids * 1000 + 3)
    cv2.imwrite(str(HERE / "rgb.png"), np.zeros((5, 7, 3), np.uint8))

    # Stored lying down, 24×16, to be shown standing, 16×24: left half dark, right half bright as
    # stored, which is dark above bright once upright.
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, 12:] = 220
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(HERE / "turned.jpg", quality=95, exif=exif)


if __name__ == "__main__":
    main()
