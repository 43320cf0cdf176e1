"""Panoptic quality: the in-memory number is that of an independent evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deform_models.shapes.coco import CATEGORIES, STUFF_LABELS, PanopticWriter
from deform_models.shapes.predict import _to_prediction
from deform_models.shapes.quality import PanopticQuality
from deform_models.shapes.scenes import Scene, generate_scene
from hotcoco.panoptic import pq_compute
from torch import tensor


def distorted(scene: Scene, rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """A prediction with every kind of error: shifts, holes of void, wrong and missing classes,
    invented segments."""
    truth, segments = scene.id_map()
    ids = np.roll(truth, rng.integers(-5, 6, 2), axis=(0, 1)).astype(np.int64)
    ids[rng.random(ids.shape) < 0.1] = 0
    result = []
    for segment_id, category_id in segments:
        draw = rng.random()
        if draw < 0.15:
            ids[ids == segment_id] = 0
        elif draw < 0.3:
            result.append((segment_id, CATEGORIES[int(rng.integers(len(CATEGORIES)))].id))
        else:
            result.append((segment_id, category_id))
    ids[10:40, 10:30] = 7
    result.append((7, 1))
    return ids, [(s, c) for s, c in result if (ids == s).any()]


def test_quick_quality_equals_hotcoco(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    quality = PanopticQuality()
    truth, prediction = PanopticWriter(tmp_path, "truth"), PanopticWriter(tmp_path, "prediction")
    for seed in range(12):
        scene = generate_scene(seed)
        ids, segments = distorted(scene, rng)
        quality.add(*scene.id_map(), ids, segments)
        truth.add(seed, f"{seed}.jpg", *scene.id_map())
        prediction.add(seed, f"{seed}.jpg", ids, segments)
    reference = pq_compute(str(truth.close()), str(prediction.close()))
    mine = quality.results()
    assert 0.2 < mine["All"]["pq"] < 0.95
    for group in ("All", "Things", "Stuff"):
        for number in ("pq", "sq", "rq", "n"):
            assert mine[group][number] == pytest.approx(reference[group][number], abs=1e-9)


def test_perfect_prediction_scores_one() -> None:
    quality = PanopticQuality()
    for seed in range(3):
        scene = generate_scene(seed)
        quality.add(*scene.id_map(), *scene.id_map())
    assert quality.results()["All"]["pq"] == 1.0


def test_fused_and_void_segments_become_valid_coco_segments() -> None:
    stuff = min(STUFF_LABELS)
    segmentation = tensor([[1, 1, 2], [0, -1, 1]])
    segments = [
        {"id": 1, "label_id": stuff},
        {"id": 1, "label_id": stuff},
        {"id": 2, "label_id": 0},
        {"id": 9, "label_id": 1},
    ]
    ids, pairs = _to_prediction(segmentation, segments)
    assert ids.tolist() == [[1, 1, 2], [0, 0, 1]]
    assert pairs == [(1, CATEGORIES[stuff].id), (2, CATEGORIES[0].id)]
