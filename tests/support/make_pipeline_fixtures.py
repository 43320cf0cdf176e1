"""Writes tests/data/pipeline: what other programs answer, for the tests of server/pipeline.

- preprocess.json, *.values.npy: Hugging Face's fast image processor and torchvision.
- rle.json: pycocotools.
- mask2former_*.json, detr_*.json, *.npy: network outputs made up from seeds; Hugging Face's
  post-processing of them, and the default rules written over whole arrays in float64.

Pictures and masks are formulas that the tests repeat, so that no input needs storing. Run from the
repository's root:

    python tests/support/make_pipeline_fixtures.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pycocotools import mask as coco_mask
from torch.nn import functional as F
from torchvision.transforms.v2 import functional as tvF
from transformers import DeformableDetrImageProcessor, Mask2FormerImageProcessor

FOLDER = Path("tests/data/pipeline")
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Outputs:
    """What the processors read of a model's output, with a batch of one."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        for name, tensor in tensors.items():
            setattr(self, name, tensor[None])


def write_json(name: str, content: object) -> None:
    (FOLDER / name).write_text(json.dumps(content, separators=(",", ":")) + "\n")


# --- preprocessing -----------------------------------------------------------------------------


def rings_picture(height: int, width: int) -> np.ndarray:
    """RingsPicture of the C++ tests: rings that alias, uint8 [height, width, 3]."""
    y, x, c = np.mgrid[0:height, 0:width, 0:3].astype(np.int64)
    return (((x * x + 3 * y * y + 7 * x * y) // 8 + 50 * c + 11 * x) % 256).astype(np.uint8)


def preprocess_cases() -> list[dict]:
    cases = []
    for height, width, net_height, net_width in [
        (37, 53, 32, 48),
        (48, 31, 64, 40),
        (301, 200, 40, 56),
        (32, 48, 32, 48),
        (1, 400, 24, 24),
        (5, 3, 24, 40),
    ]:
        picture = Image.fromarray(rings_picture(height, width))
        processor = Mask2FormerImageProcessor(
            size={"height": net_height, "width": net_width}, size_divisor=0
        )
        exact = processor(images=picture, return_tensors="pt").pixel_values[0].numpy()
        name = f"exact_{height}x{width}_to_{net_height}x{net_width}.values.npy"
        np.save(FOLDER / name, exact)
        cases.append(
            {
                "mode": "exact",
                "height": height,
                "width": width,
                "net_height": net_height,
                "net_width": net_width,
                "content_height": net_height,
                "content_width": net_width,
                "values": name,
            }
        )
    for height, width, net_height, net_width, content in [
        (37, 53, 32, 48, (32, 46)),
        (300, 200, 40, 56, (40, 27)),
        (7, 90, 64, 40, (3, 40)),
        (400, 1, 24, 24, (24, 1)),
    ]:
        picture = Image.fromarray(rings_picture(height, width))
        processor = DeformableDetrImageProcessor(
            size={"height": content[0], "width": content[1]},
            pad_size={"height": net_height, "width": net_width},
        )
        inputs = processor(images=picture, return_tensors="pt")
        assert inputs.pixel_mask.sum() == content[0] * content[1]
        name = f"fit_{height}x{width}_to_{net_height}x{net_width}.values.npy"
        np.save(FOLDER / name, inputs.pixel_values[0].numpy())
        cases.append(
            {
                "mode": "fit",
                "height": height,
                "width": width,
                "net_height": net_height,
                "net_width": net_width,
                "content_height": content[0],
                "content_width": content[1],
                "values": name,
            }
        )
    return cases


def plain_bilinear_case() -> dict:
    """torchvision without antialiasing."""
    picture = torch.from_numpy(rings_picture(61, 83)).permute(2, 0, 1)
    resized = tvF.resize(picture, [20, 30], antialias=False).float()
    values = (resized / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    np.save(FOLDER / "plain_61x83_to_20x30.values.npy", values.numpy())
    return {
        "mode": "plain",
        "height": 61,
        "width": 83,
        "net_height": 20,
        "net_width": 30,
        "content_height": 20,
        "content_width": 30,
        "values": "plain_61x83_to_20x30.values.npy",
    }


# --- run lengths -------------------------------------------------------------------------------


def noise_mask(height: int, width: int, seed: int, per_mille: int) -> np.ndarray:
    """NoiseMask of the C++ tests: a linear congruential generator, row by row."""
    state, bits = seed, []
    for _ in range(height * width):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        bits.append((state >> 33) % 1000 < per_mille)
    return np.array(bits, np.uint8).reshape(height, width)


def disk_mask(height: int, width: int, x: int, y: int, radius: int) -> np.ndarray:
    rows, columns = np.mgrid[0:height, 0:width]
    return ((columns - x) ** 2 + (rows - y) ** 2 < radius**2).astype(np.uint8)


def rle_cases() -> list[dict]:
    masks = []
    for height, width, seed, per_mille in [
        (3, 4, 1, 500),
        (1, 1, 2, 1000),
        (1, 1, 3, 0),
        (1, 50, 4, 500),
        (50, 1, 5, 500),
        (37, 53, 6, 500),
        (53, 37, 7, 20),
        (16, 64, 8, 980),
        (33, 65, 9, 1000),
        (65, 33, 10, 0),
        (400, 700, 11, 1),
        (90, 31, 12, 300),
    ]:
        masks.append(
            (
                {
                    "kind": "noise",
                    "height": height,
                    "width": width,
                    "seed": seed,
                    "per_mille": per_mille,
                },
                noise_mask(height, width, seed, per_mille),
            )
        )
    for height, width, x, y, radius in [
        (96, 96, 40, 50, 30),
        (300, 1100, 900, 250, 120),
        (1100, 300, 10, 10, 5),
        (700, 900, 450, 350, 2000),
        (500, 40, 20, 495, 30),
    ]:
        masks.append(
            (
                {
                    "kind": "disk",
                    "height": height,
                    "width": width,
                    "x": x,
                    "y": y,
                    "radius": radius,
                },
                disk_mask(height, width, x, y, radius),
            )
        )
    cases = []
    for case, mask in masks:
        rle = coco_mask.encode(np.asfortranarray(mask))
        box = coco_mask.toBbox(rle).astype(int).tolist()
        cases.append(
            case
            | {
                "counts": rle["counts"].decode(),
                "area": int(coco_mask.area(rle)),
                "box": box if mask.any() else [0, 0, 0, 0],
            }
        )
    return cases


# --- post-processing ---------------------------------------------------------------------------


def string_rle(mask: np.ndarray) -> str:
    return coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()


def smooth(generator: torch.Generator, channels: int, height: int, width: int) -> torch.Tensor:
    """Smooth noise of about unit variance, [channels, height, width]."""
    coarse = torch.randn(1, channels, 5, 6, generator=generator)
    return F.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=True)[0]


def stored(values: torch.Tensor, name: str, step: float) -> torch.Tensor:
    """Writes int8 and gives back the float32 that the tests read: (2 v + 1) · step, never 0."""
    quantised = torch.clamp(torch.floor(values / (2 * step)), -128, 127).to(torch.int8)
    np.save(FOLDER / name, quantised.numpy())
    return (2 * quantised.float() + 1) * step


def segment(label: int, score: float, mask: np.ndarray, id: int = 0) -> dict:
    return {"id": int(id), "label_id": int(label), "score": float(score), "mask": string_rle(mask)}


def hugging_face(outputs: Outputs, case: dict, size: tuple[int, int]) -> dict:
    processor = Mask2FormerImageProcessor()
    thresholds = {"mask_threshold": case["mask_threshold"], "target_sizes": [size]}
    instance = processor.post_process_instance_segmentation(
        outputs, threshold=case["score_threshold"], return_binary_maps=True, **thresholds
    )[0]
    panoptic = processor.post_process_panoptic_segmentation(
        outputs,
        threshold=case["score_threshold"],
        label_ids_to_fuse=set(case["fuse"]),
        overlap_mask_area_threshold=case["overlap"],
        **thresholds,
    )[0]
    semantic = processor.post_process_semantic_segmentation(outputs, target_sizes=[size])[0].numpy()
    ids = panoptic["segmentation"].numpy()
    return {
        "instance": [
            segment(info["label_id"], info["score"], instance["segmentation"][i].numpy())
            for i, info in enumerate(instance["segments_info"])
        ],
        "panoptic": [
            segment(info["label_id"], info["score"], ids == info["id"], info["id"])
            for info in panoptic["segments_info"]
        ],
        "semantic": [segment(label, 0, semantic == label) for label in np.unique(semantic)],
    }


def default_rules(classes: torch.Tensor, masks: torch.Tensor, case: dict) -> dict:
    """docs/postprocessing.md over whole arrays, in float64."""
    content, size = case["content"], case["size"]
    masks = F.interpolate(masks.double()[None], size=case["network"], mode="bilinear")[
        ..., : content[0], : content[1]
    ]
    probabilities = classes.double().softmax(-1)
    num_classes = probabilities.shape[1] - 1
    inner = masks[0].sigmoid()
    full = F.interpolate(masks, size=size, mode="bilinear")[0].sigmoid()

    instances = []
    inside = inner >= case["mask_threshold"]
    mean = (inner * inside).sum((1, 2)) / inside.sum((1, 2)).clamp(min=1)
    pairs = [
        (float(probabilities[q, c]), q, c)
        for q in range(len(inner))
        for c in range(num_classes)
        if c not in case["fuse"]
    ]
    for p, q, c in sorted(pairs, key=lambda pair: -pair[0])[: max(len(inner), 100)]:
        mask = (full[q] >= case["mask_threshold"]).numpy()
        if p * mean[q] >= case["score_threshold"] and mask.any():
            instances.append(segment(c, p * mean[q], mask))
    instances.sort(key=lambda found: -found["score"])

    scores, labels = probabilities.max(-1)
    kept = [
        q
        for q in range(len(full))
        if labels[q] != num_classes and scores[q] >= case["score_threshold"]
    ]
    winner = (full[kept] * scores[kept, None, None]).argmax(0) if kept else None
    entries: dict[int, dict] = {}
    fused: dict[int, int] = {}
    ids = torch.zeros(size, dtype=torch.int64)
    for k, q in enumerate(kept):
        won, above = winner == k, full[q] >= case["mask_threshold"]
        if not (won & above).any() or won.sum() / above.sum() < case["overlap"]:
            continue
        label = int(labels[q])
        id = fused.get(label, len(entries) + 1)
        if label in case["fuse"]:
            fused[label] = id
        ids[won & above] = id
        entry = entries.setdefault(id, {"label": label, "score": 0.0})
        entry["score"] = max(entry["score"], float(scores[q]))
    panoptic = [
        segment(entry["label"], entry["score"], (ids == id).numpy(), id)
        for id, entry in entries.items()
    ]

    values = torch.einsum("qc,qhw->chw", probabilities[:, :-1], inner)
    values = F.interpolate(values[None], size=size, mode="bilinear")[0]
    best, semantic = values.max(0)
    return {
        "instance": instances,
        "panoptic": panoptic,
        "semantic": [
            segment(
                label, min(1.0, float(best[semantic == label].mean())), (semantic == label).numpy()
            )
            for label in semantic.unique().tolist()
        ],
    }


def mask2former_case(name: str, seed: int, case: dict) -> None:
    generator = torch.Generator().manual_seed(seed)
    queries, classes = case["queries"], case["classes"]
    height, width = case["logits"]
    class_logits = 3 * torch.randn(queries, classes + 1, generator=generator)
    class_logits[:, -1] += 1.5
    mask_logits = 6 * smooth(generator, queries, height, width) - 4
    np.save(FOLDER / f"{name}.classes.npy", class_logits.numpy())
    mask_logits = stored(mask_logits, f"{name}.masks.npy", 1 / 16)
    outputs = Outputs(class_queries_logits=class_logits, masks_queries_logits=mask_logits)
    case["hf"] = hugging_face(outputs, case, tuple(case["size"]))
    case["default"] = default_rules(class_logits, mask_logits, case)
    for rules in ("hf", "default"):
        print(name, rules, {task: len(found) for task, found in case[rules].items()})
        assert all(case[rules].values()), "a case in which nothing is found tests nothing"
    write_json(f"{name}.json", case)


def detection_case(name: str, seed: int, case: dict) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(case["queries"], case["classes"], generator=generator) - 4
    np.save(FOLDER / f"{name}.logits.npy", logits.numpy())
    boxes = torch.rand(case["queries"], 4, generator=generator)
    boxes[:, 2:] *= 0.6
    np.save(FOLDER / f"{name}.boxes.npy", boxes.numpy())
    found = DeformableDetrImageProcessor().post_process_object_detection(
        Outputs(logits=logits, pred_boxes=boxes),
        threshold=case["score_threshold"],
        target_sizes=[tuple(case["size"])],
    )[0]
    case["hf"] = [
        {"label_id": int(label), "score": float(score), "corners": box.tolist()}
        for score, label, box in zip(found["scores"], found["labels"], found["boxes"], strict=True)
    ]
    print(name, len(case["hf"]))
    write_json(f"{name}.json", case)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in [*FOLDER.glob("*.npy"), *FOLDER.glob("*.json")]:
        old.unlink()
    write_json("preprocess.json", [*preprocess_cases(), plain_bilinear_case()])
    write_json("rle.json", rle_cases())
    common = {"mask_threshold": 0.5, "score_threshold": 0.5, "overlap": 0.8}
    mask2former_case(
        "mask2former_upscaled",
        1,
        common
        | {
            "queries": 24,
            "classes": 6,
            "logits": [24, 32],
            "network": [96, 128],
            "content": [96, 128],
            "size": [150, 211],
            "fuse": [4, 5],
        },
    )
    mask2former_case(
        "mask2former_downscaled",
        2,
        common
        | {
            "queries": 40,
            "classes": 9,
            "logits": [32, 32],
            "network": [128, 128],
            "content": [128, 128],
            "size": [57, 41],
            "fuse": [0],
            "score_threshold": 0.3,
            "mask_threshold": 0.6,
            "overlap": 0.5,
        },
    )
    mask2former_case(
        "mask2former_fit",
        3,
        common
        | {
            "queries": 30,
            "classes": 5,
            "logits": [40, 24],
            "network": [160, 96],
            "content": [96, 96],
            "size": [130, 130],
            "fuse": [2, 3],
            "score_threshold": 0.4,
            "overlap": 0.3,
        },
    )
    detection_case(
        "detr_many", 4, {"queries": 50, "classes": 20, "size": [480, 640], "score_threshold": 0.1}
    )
    detection_case(
        "detr_few", 5, {"queries": 20, "classes": 91, "size": [333, 200], "score_threshold": 0.9}
    )


if __name__ == "__main__":
    main()
