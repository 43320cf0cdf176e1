"""Panoptic quality through the server against the same checkpoint scored offline."""

from __future__ import annotations

import io
from pathlib import Path

import grpc
import numpy as np
import pytest
import reference_model
from answers import ask
from PIL import Image

ALLOWED_LOSS = 0.005


def score(server, count: int, folder: Path, compat: str) -> tuple[float, float]:
    """PQ of `count` held-out scenes (through the server, offline), by hotcoco."""
    from deform_models.shapes.coco import PanopticWriter
    from deform_models.shapes.evaluate import write_and_score
    from deform_models.shapes.scenes import generate_scene
    from hotcoco.panoptic import pq_compute

    model, processor = reference_model.loaded()
    offline = write_and_score(model, processor, count, folder / "offline")
    truth, ours = PanopticWriter(folder, "truth"), PanopticWriter(folder, "ours")
    options = [("grpc.max_receive_message_length", 64 << 20)]
    with grpc.insecure_channel(server.grpc_address, options=options) as channel:
        for seed in range(reference_model.HELD_OUT_SEED, reference_model.HELD_OUT_SEED + count):
            scene = generate_scene(seed)
            encoded = reference_model.encode_png(scene.image)
            answer = ask(channel, encoded, "PANOPTIC", compat)
            ids = np.asarray(Image.open(io.BytesIO(answer.id_map.png))).astype(np.int64)
            present = set(np.unique(ids).tolist())
            categories: dict[int, int] = {}
            for part in answer.segments:
                categories.setdefault(part.id, part.category_id)
            segments = [(i, c) for i, c in categories.items() if i in present]
            truth.add(seed, f"{seed}.jpg", *scene.id_map())
            ours.add(seed, f"{seed}.jpg", ids, segments)
    through_server = pq_compute(str(truth.close()), str(ours.close()))
    return through_server["All"]["pq"], offline["All"]["pq"]


def test_quality_through_the_server_equals_offline_on_48_scenes(server, tmp_path):
    ours, offline = score(server, 48, tmp_path, "HF")
    print(f"PQ {ours:.4f} through the server, {offline:.4f} offline")
    assert offline > 0.8
    assert abs(ours - offline) <= ALLOWED_LOSS


@pytest.mark.slow
@pytest.mark.parametrize("compat", ["HF", "DEFAULT"])
def test_quality_through_the_server_equals_offline_on_500_scenes(server, tmp_path, compat):
    ours, offline = score(server, 500, tmp_path, compat)
    print(f"{compat}: PQ {ours:.4f} through the server, {offline:.4f} offline")
    assert offline > 0.9
    assert abs(ours - offline) <= ALLOWED_LOSS
