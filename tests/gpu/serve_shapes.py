"""The shapes model as a CUDA package through deform-server, against Hugging Face on the GPU.

Held-out scenes go through the real server and client; with `compat: HF` the panoptic and instance
answers must equal those of the Hugging Face model and processor: the same segments one to one,
mask IoU >= 0.99, scores within 1e-3.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/e2e")]
import server_process  # noqa: E402
from server_process import ServerProcess  # noqa: E402


def decode_rle(segmentation: dict) -> np.ndarray:
    """COCO run lengths to a boolean mask [height, width], where pycocotools may be absent."""
    height, width = segmentation["size"]
    counts: list[int] = []
    value = shift = 0
    for character in segmentation["counts"].encode():
        bits = character - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            if bits & 0x10:
                value -= 1 << shift
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(width, height).T


def segments_by_picture(results: dict, label_ids: dict[str, int]) -> dict[str, list]:
    """The client's results.json as segments with network labels, by the picture's name."""
    from answers_compare import Found

    categories = {entry["id"]: label_ids[entry["name"]] for entry in results["categories"]}
    names = {image["id"]: Path(image["file_name"]).stem for image in results["images"]}
    found: dict[str, list] = {}
    for annotation in results["annotations"]:  # panoptic: one a picture, with its segments
        for part in annotation.get("segments_info", [annotation]):
            found.setdefault(names[annotation["image_id"]], []).append(
                Found(
                    categories[part["category_id"]],
                    part["score"],
                    decode_rle(part["segmentation"]),
                )
            )
    return found


def main() -> int:
    """Prints one line and writes one JSON object; 0 when every scene agrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="held-out scenes")
    parser.add_argument("--device", default="cuda:0", help="the server's device")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    server_process.BUILD = ROOT
    server_process.REPOSITORY = ROOT / "model_repository"

    import cv2
    import reference_model
    from answers_compare import assert_same_segments

    model, _ = reference_model.loaded()
    seeds = [reference_model.HELD_OUT_SEED + index for index in range(arguments.count)]
    summary: dict[str, object] = {
        "scenes": len(seeds),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    with tempfile.TemporaryDirectory() as folder:
        pictures = Path(folder) / "pictures"
        pictures.mkdir()
        for seed in seeds:
            _, pixels = reference_model.network_outputs(seed)
            cv2.imwrite(str(pictures / f"{seed}.png"), pixels[:, :, ::-1])
        with ServerProcess(
            f"--device={arguments.device}",
            f"--op_library={ROOT / 'lib/libdeform_ops.so'}",
            repository=server_process.REPOSITORY,
        ) as server:
            for task in ("instance", "panoptic"):
                out = Path(folder) / task
                subprocess.run(
                    [str(ROOT / "bin/deform-client"), "segment", str(pictures)]
                    + ["--address", server.grpc_address, "--model", "shapes", "--task", task]
                    + ["--compat", "hf", "--out", str(out)],
                    check=True,
                )
                results = json.loads((out / "results.json").read_text())
                answers = segments_by_picture(results, model.config.label2id)
                for seed in seeds:
                    ours = answers.get(str(seed), [])
                    theirs = getattr(reference_model, task)(seed)
                    assert_same_segments(ours, theirs, min_iou=0.99, score_tolerance=1e-3)
                summary[task] = {"segments": sum(map(len, answers.values()))}
            summary["metrics"] = {
                key: value
                for key, value in server.metrics().items()
                if key.startswith(("deform_batch_size", "deform_stage_duration_seconds"))
                and ("_sum" in key or "_count" in key)
            }
        code = server.stop()
        assert code == 0, f"the server ended with {code}"
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=1))
    print(f"{len(seeds)} scenes agree with Hugging Face in both tasks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
