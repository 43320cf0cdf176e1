"""Writes tests/data/pipeline/pictures: small pictures of many kinds, with the pixels to expect.

Written by Pillow, tifffile and OpenCV, or by hand where none of them can; the pixels to expect are
those that went in, or for lossy kinds those that Pillow reads. Run from the repository's root:

    python tests/support/make_decode_fixtures.py
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import cv2
import numpy as np
import tifffile
from PIL import Image, ImageOps

FOLDER = Path("tests/data/pipeline/pictures")
HEIGHT, WIDTH = 9, 13


def chirp(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A picture without symmetry, uint8 [height, width, 3]."""
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return (((x * x + 3 * y * y + 7 * x * y) // 2 + 50 * c + 11 * x) % 256).astype(np.uint8)


RGB = chirp()
GREY = RGB[:, :, 1]
GREY16 = (GREY.astype(np.uint16) << 8) + 255 - GREY
RGB16 = (RGB.astype(np.uint16) << 8) + 255 - RGB
ALPHA = np.where(GREY > 100, 255, 0).astype(np.uint8)
RGBA = np.dstack([RGB, ALPHA])
INDEX = (GREY // 19).astype(np.uint8)  # 0 … 13
PALETTE = chirp(1, 16)[0]
BITS = (GREY > 127).astype(np.uint8)

cases: list[dict] = []


def triple(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[:, :, None], 3, axis=2)


def add(
    name: str, encoded: bytes, expected: np.ndarray | None, tolerance: int = 0, refusal: str = ""
) -> None:
    """A case: bytes and the pixels to expect, or the word that the refusal holds."""
    (FOLDER / name).write_bytes(encoded)
    case: dict = {"file": name, "tolerance": tolerance, "refusal": refusal}
    if expected is not None:
        height, width = expected.shape[:2]
        case |= {"width": width, "height": height, "rgb": expected.astype(int).ravel().tolist()}
    cases.append(case)


def pillow(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def tiff(array: np.ndarray, **options) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, array, **({"photometric": "rgb"} | options))
    return buffer.getvalue()


def seen_by_pillow(encoded: bytes) -> np.ndarray:
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded)))
    return np.asarray(image.convert("RGB"))


def palette_image() -> Image.Image:
    image = Image.fromarray(INDEX, "P")
    image.putpalette(PALETTE.ravel().tolist())
    return image


def tiffs() -> None:
    grey = triple(GREY)
    add("grey8.tif", tiff(GREY, photometric="minisblack"), grey)
    add("grey8_white_is_zero.tif", tiff(255 - GREY, photometric="miniswhite"), grey)
    add("grey16.tif", tiff(GREY16, photometric="minisblack", compression="zlib"), grey)
    add("grey16_big_endian.tif", tiff(GREY16, photometric="minisblack", byteorder=">"), grey)
    add("rgb8_lzw.tif", pillow(Image.fromarray(RGB), "TIFF", compression="tiff_lzw"), RGB)
    add("rgb8_packbits.tif", pillow(Image.fromarray(RGB), "TIFF", compression="packbits"), RGB)
    add("rgb16.tif", tiff(RGB16, compression="zlib"), RGB)
    add("rgb8_planes.tif", tiff(RGB.transpose(2, 0, 1), planarconfig="separate"), RGB)
    add("rgb8_big_tiff.tif", tiff(RGB, bigtiff=True), RGB)
    large = chirp(37, 53)
    add("rgb8_tiles.tif", tiff(large, tile=(16, 32)), large)
    add(
        "rgb16_tiled_planes.tif",
        tiff(
            (large.astype(np.uint16) << 8).transpose(2, 0, 1),
            planarconfig="separate",
            tile=(32, 16),
        ),
        large,
    )
    add("rgba8.tif", tiff(RGBA, extrasamples=["unassalpha"]), RGB)
    add("palette8.tif", pillow(palette_image(), "TIFF"), PALETTE[INDEX])
    bilevel = Image.fromarray(BITS * 255).convert("1")
    add("bilevel_group4.tif", pillow(bilevel, "TIFF", compression="group4"), triple(BITS * 255))
    cmyk = pillow(Image.fromarray(RGB).convert("CMYK"), "TIFF")
    add("cmyk8.tif", cmyk, seen_by_pillow(cmyk), tolerance=2)
    smooth = cv2.GaussianBlur(chirp(32, 48), (0, 0), 6)
    jpeg = pillow(Image.fromarray(smooth), "TIFF", compression="jpeg", quality=95)
    add("ycbcr_jpeg.tif", jpeg, seen_by_pillow(jpeg), tolerance=3)
    for orientation in range(2, 9):
        encoded = tiff(RGB, extratags=[(274, "H", 1, orientation, True)])
        add(f"orientation_{orientation}.tif", encoded, seen_by_pillow(encoded))
    add("float32.tif", tiff(RGB.astype(np.float32)), None, refusal="not unsigned integers")
    add(
        "lerc.tif",
        tiff(GREY, photometric="minisblack").replace(
            struct.pack("<HHII", 259, 3, 1, 1), struct.pack("<HHII", 259, 3, 1, 34887)
        ),
        None,
        refusal="compression 34887",
    )


def bmp_header(width: int, height: int, bits: int, compression: int, palette: bytes) -> bytes:
    at = 54 + len(palette)
    return (
        b"BM"
        + struct.pack("<IHHI", 0, 0, 0, at)
        + struct.pack(
            "<IiiHHIIiiII", 40, width, height, 1, bits, compression, 0, 0, 0, len(palette) // 4, 0
        )
        + palette
    )


def padded_rows(rows: list[bytes]) -> bytes:
    return b"".join(row + b"\0" * (-len(row) % 4) for row in rows)


def bmps() -> None:
    add("rgb24.bmp", pillow(Image.fromarray(RGB), "BMP"), RGB)
    add("palette8.bmp", pillow(palette_image(), "BMP"), PALETTE[INDEX])
    add("bilevel.bmp", pillow(Image.fromarray(BITS * 255).convert("1"), "BMP"), triple(BITS * 255))
    add("rgba32.bmp", pillow(Image.fromarray(RGBA), "BMP"), RGB)
    encoded, masked = cv2.imencode(".bmp", cv2.cvtColor(RGBA, cv2.COLOR_RGBA2BGRA))
    assert encoded
    add("rgba32_masks.bmp", masked.tobytes(), RGB)
    bgr = RGB[:, :, ::-1]
    rows = [row.tobytes() for row in bgr]
    add("top_down.bmp", bmp_header(WIDTH, -HEIGHT, 24, 0, b"") + padded_rows(rows), RGB)
    core = (
        b"BM" + struct.pack("<IHHI", 0, 0, 0, 26) + struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 24)
    )
    add("os2.bmp", core + padded_rows(rows[::-1]), RGB)
    colours = b"".join(bytes([b, g, r, 0]) for r, g, b in PALETTE.tolist())
    even = np.pad(INDEX, ((0, 0), (0, 1)))
    nibbles = [(row[0::2] * 16 + row[1::2]).astype(np.uint8).tobytes() for row in even[::-1]]
    palette4 = bmp_header(WIDTH, HEIGHT, 4, 0, colours) + padded_rows(nibbles)
    add("palette4.bmp", palette4, PALETTE[INDEX])
    add("rle8.bmp", bmp_header(WIDTH, HEIGHT, 8, 1, colours) + b"\0\1", None, refusal="RLE")
    add("rgb555.bmp", bmp_header(WIDTH, HEIGHT, 16, 0, b"") + b"\0" * 999, None, refusal="16 bits")
    add("jpeg.bmp", bmp_header(WIDTH, HEIGHT, 0, 4, b"") + b"\0" * 99, None, refusal="JPEG")
    short = bmp_header(WIDTH, HEIGHT, 24, 0, b"") + padded_rows(rows)[:-9]
    add("cut_short.bmp", short, None, refusal="cut short")


def pngs() -> None:
    def opencv(array: np.ndarray) -> bytes:
        done, encoded = cv2.imencode(".png", array)
        assert done
        return encoded.tobytes()

    add("rgb16.png", opencv(RGB16[:, :, ::-1].copy()), RGB)
    rgba16 = np.dstack([RGB16[:, :, ::-1], ALPHA.astype(np.uint16) * 257])
    add("rgba16.png", opencv(rgba16), RGB)
    grey_alpha = Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(ALPHA)])
    add("grey_alpha.png", pillow(grey_alpha, "PNG"), triple(GREY))
    add(
        "grey_transparent_value.png",
        pillow(Image.fromarray(GREY), "PNG", transparency=int(GREY[0, 0])),
        triple(GREY),
    )
    add(
        "rgb_transparent_value.png",
        pillow(Image.fromarray(RGB), "PNG", transparency=tuple(RGB[0, 0].tolist())),
        RGB,
    )
    for bits in (4, 8):
        add(f"palette{bits}.png", pillow(palette_image(), "PNG", bits=bits), PALETTE[INDEX])
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[274] = orientation
        encoded = pillow(Image.fromarray(RGB), "PNG", exif=exif)
        add(f"orientation_{orientation}.png", encoded, seen_by_pillow(encoded))
    whole = pillow(Image.fromarray(RGB), "PNG")
    add("without_end.png", whole[:-12], None, refusal="premature end")


def gifs() -> None:
    image = palette_image()
    add("interlaced.gif", pillow(image, "GIF", interlace=1), PALETTE[INDEX])
    add("sequential.gif", pillow(image, "GIF", interlace=0), PALETTE[INDEX])
    # The frame moved to (3, 2) on a canvas of 20 × 15 whose background is colour 5.
    encoded = bytearray(pillow(image, "GIF", interlace=0))
    struct.pack_into("<HH", encoded, 6, 20, 15)
    encoded[11] = 5
    frame = encoded.index(b",\0\0\0\0" + struct.pack("<HH", WIDTH, HEIGHT))
    struct.pack_into("<HH", encoded, frame + 1, 3, 2)
    canvas = np.tile(PALETTE[5], (15, 20, 1))
    canvas[2 : 2 + HEIGHT, 3 : 3 + WIDTH] = PALETTE[INDEX]
    add("on_canvas.gif", bytes(encoded), canvas)
    # … and on a canvas that is too small, which grows.
    struct.pack_into("<HH", encoded, 6, 4, 4)
    add("beyond_canvas.gif", bytes(encoded), canvas[: 2 + HEIGHT, : 3 + WIDTH])


def others() -> None:
    add("lossless.webp", pillow(Image.fromarray(RGB), "WEBP", lossless=True, exact=True), RGB)
    rgba = pillow(Image.fromarray(RGBA), "WEBP", lossless=True, exact=True)
    add("lossless_rgba.webp", rgba, RGB)
    smooth = Image.fromarray(cv2.GaussianBlur(chirp(32, 48), (0, 0), 6))
    for name, options in {
        "lossy.webp": {"quality": 90},
        "444.jpg": {"quality": 95, "subsampling": 0},
        "420.jpg": {"quality": 95, "subsampling": 2},
        "progressive.jpg": {"quality": 95, "progressive": True},
    }.items():
        encoded = pillow(smooth, "WEBP" if name.endswith("webp") else "JPEG", **options)
        add(name, encoded, seen_by_pillow(encoded), tolerance=1)
    for orientation in (5, 7):
        exif = Image.Exif()
        exif[274] = orientation
        encoded = pillow(smooth, "JPEG", quality=95, exif=exif)
        add(f"orientation_{orientation}.jpg", encoded, seen_by_pillow(encoded), tolerance=1)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for write in (tiffs, bmps, pngs, gifs, others):
        write()
    (FOLDER / "pictures.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
    print(f"{len(cases)} pictures in {FOLDER}")


if __name__ == "__main__":
    main()
