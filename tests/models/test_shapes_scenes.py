"""Scenes: the same from the same seed, and their truth is whole and in COCO's form."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from deform_models.shapes import coco
from deform_models.shapes.objects import OUTLINES, draw_shape
from deform_models.shapes.scenes import (
    MAX_SEGMENTS,
    MIN_VISIBLE_PIXELS,
    generate_scene,
    write_scenes,
)


def test_same_seed_gives_same_bytes() -> None:
    first, second = generate_scene(41), generate_scene(41)
    assert first.image.tobytes() == second.image.tobytes()
    assert first.segment_map.tobytes() == second.segment_map.tobytes()
    assert first.labels == second.labels


def test_other_seed_gives_another_picture() -> None:
    assert not np.array_equal(generate_scene(41).image, generate_scene(42).image)


@pytest.mark.parametrize("size", [(256, 256), (96, 160)])
def test_every_pixel_belongs_to_a_listed_segment_large_enough_to_see(size: tuple[int, int]) -> None:
    for seed in range(60):
        scene = generate_scene(seed, size)
        assert scene.image.shape == (*size, 3) and scene.image.dtype == np.uint8
        assert scene.segment_map.shape == size
        areas = np.bincount(scene.segment_map.ravel(), minlength=len(scene.labels))
        assert len(areas) == len(scene.labels) <= MAX_SEGMENTS
        assert areas.min() >= MIN_VISIBLE_PIXELS
        things = [coco.CATEGORIES[label].is_thing for label in scene.labels]
        assert things == sorted(things), "grounds come first"
        stuff = [label for label in scene.labels if not coco.CATEGORIES[label].is_thing]
        assert len(stuff) == len(set(stuff)) in (1, 2)


def test_all_classes_occur() -> None:
    seen = {label for seed in range(120) for label in generate_scene(seed, (96, 96)).labels}
    assert seen == set(range(len(coco.CATEGORIES)))


def test_too_small_a_size_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="size must be at least 64"):
        generate_scene(0, (63, 256))


def test_categories_have_gaps_and_unique_colors() -> None:
    ids = [category.id for category in coco.CATEGORIES]
    assert len(set(ids)) == len(ids) and ids != list(range(1, len(ids) + 1))
    assert len({category.color for category in coco.CATEGORIES}) == len(ids)
    assert len(coco.THING_NAMES) >= 8 and len(coco.STUFF_NAMES) >= 5


def test_written_dataset_agrees_with_its_id_maps(tmp_path: Path) -> None:
    document = json.loads(write_scenes(tmp_path, 4, 300, suffix=".png").read_text())
    known = {category["id"] for category in document["categories"]}
    for image, annotation in zip(document["images"], document["annotations"], strict=True):
        scene = generate_scene(image["id"])
        picture = cv2.imread(str(tmp_path / "images" / image["file_name"]))
        assert np.array_equal(picture[..., ::-1], scene.image)
        png = cv2.imread(str(tmp_path / "panoptic" / annotation["file_name"]))
        ids = coco.decode_ids(png[..., ::-1])
        infos = annotation["segments_info"]
        assert set(np.unique(ids)) == {info["id"] for info in infos}
        assert 0 not in ids
        assert len({info["id"] for info in infos}) == len(infos) == len(scene.labels)
        for info in infos:
            mask = ids == info["id"]
            assert info["category_id"] in known
            assert info["area"] == mask.sum()
            x, y, width, height = info["bbox"]
            assert mask[y : y + height, x : x + width].sum() == mask.sum()
            assert mask[y].any() and mask[:, x].any()
            assert mask[y + height - 1].any() and mask[:, x + width - 1].any()


def test_ids_survive_the_rgb_encoding() -> None:
    ids = np.array([[0, 1, 255, 256], [65535, 65536, 112_010, 2**24 - 1]], np.uint32)
    assert np.array_equal(coco.decode_ids(coco.encode_ids(ids)), ids)


@pytest.mark.parametrize("name", sorted(OUTLINES))
def test_drawn_mask_has_the_area_of_its_outline(name: str) -> None:
    """The area by the shoelace rule, in float64, of the very outline that is drawn."""
    outline = OUTLINES[name](np.random.default_rng(3))
    exact = 0.0
    for polygon, fill in outline:
        x, y = polygon[:, 0], polygon[:, 1]
        area = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
        exact += area if fill else -area
    shape = draw_shape(np.random.default_rng(3), name, (150.0, 150.0), 60.0, (300, 300))
    assert shape is not None
    if name == "crescent":  # its cut-out reaches past the disk, so only the cut within counts
        exact = shape.full_area / 60.0**2
        assert 0.5 < exact < 2.0
    assert shape.mask.sum() == pytest.approx(exact * 60.0**2, rel=0.03)
