"""Panoptic quality of an exported model on held-out scenes.

``python -m deform_models.shapes.evaluate --model DIR [--count 500] [--json FILE]`` writes truth
and predictions in COCO panoptic format and has them scored by hotcoco's port of panopticapi.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm
from transformers import Mask2FormerImageProcessor

from deform_models.shapes.coco import CATEGORIES, PanopticWriter
from deform_models.shapes.model import load_model
from deform_models.shapes.predict import predict
from deform_models.shapes.quality import PanopticQuality
from deform_models.shapes.scenes import HELD_OUT_SEED, generate_scene


def quick_quality(
    model: nn.Module, processor: Mask2FormerImageProcessor, count: int, seed: int = HELD_OUT_SEED
) -> dict[str, dict[str, float]]:
    """Scores scenes ``seed`` … ``seed + count − 1`` in memory, without files."""
    scenes = [generate_scene(seed + i) for i in range(count)]
    quality = PanopticQuality()
    predictions = predict(model, processor, [scene.image for scene in scenes])
    for scene, (id_map, segments) in zip(scenes, predictions, strict=True):
        quality.add(*scene.id_map(), id_map, segments)
    return quality.results()


def write_and_score(
    model: nn.Module,
    processor: Mask2FormerImageProcessor,
    count: int,
    folder: Path,
    seed: int = HELD_OUT_SEED,
) -> dict[str, Any]:
    """Writes ``truth`` and ``prediction`` (JSON and PNG) under ``folder`` and scores them.

    Returns pq, sq, rq and n for "All", "Things", "Stuff" and for each category's name.
    """
    from hotcoco.panoptic import pq_compute

    truth, prediction = PanopticWriter(folder, "truth"), PanopticWriter(folder, "prediction")
    step = 16
    for start in tqdm(range(0, count, step), desc="scoring", unit="batch"):
        seeds = range(seed + start, seed + min(start + step, count))
        scenes = [generate_scene(s) for s in seeds]
        predictions = predict(model, processor, [scene.image for scene in scenes], step)
        for scene_seed, scene, (id_map, segments) in zip(seeds, scenes, predictions, strict=True):
            name = f"{scene_seed:010d}.jpg"
            truth.add(scene_seed, name, *scene.id_map())
            prediction.add(scene_seed, name, id_map, segments)
    scores = pq_compute(str(truth.close()), str(prediction.close()))
    named = {group: scores[group] for group in ("All", "Things", "Stuff")}
    for category in CATEGORIES:
        per_class = scores["per_class"]
        row = per_class.get(category.id, per_class.get(str(category.id)))
        if row is not None and row["pq"] >= 0:  # −1 stands for a category that never occurs
            named[category.name] = row
    return named


def format_table(scores: dict[str, dict[str, float]]) -> str:
    """One line a group or category: PQ, SQ, RQ in per cent."""
    lines = [f"{'':12s}{'PQ':>7s}{'SQ':>7s}{'RQ':>7s}"]
    for name, row in scores.items():
        lines.append(f"{name:12s}" + "".join(f"{100 * row[k]:7.2f}" for k in ("pq", "sq", "rq")))
    return "\n".join(lines)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description="Score an exported shapes model.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=HELD_OUT_SEED)
    parser.add_argument("--json", type=Path, help="write the scores here")
    parser.add_argument("--out", type=Path, help="keep truth and predictions here")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    model, processor = load_model(arguments.model, arguments.device)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        scores = write_and_score(model, processor, arguments.count, folder, arguments.seed)
    print(format_table(scores))
    if arguments.json:
        document = {
            "scenes": arguments.count,
            "first_seed": arguments.seed,
            "evaluator": "hotcoco.panoptic.pq_compute",
            "scores": scores,
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
