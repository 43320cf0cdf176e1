"""The Hugging Face model and processor on the shapes checkpoint: what answers are compared with."""

from __future__ import annotations

import functools
import io
from pathlib import Path

import numpy as np
import torch
from answers_compare import Found
from PIL import Image
from transformers import Mask2FormerForUniversalSegmentation, Mask2FormerImageProcessor

CHECKPOINT = Path(__file__).resolve().parents[2] / "models/deform_models/shapes/weights"
HELD_OUT_SEED = 10_000_000


@functools.cache
def loaded() -> tuple[Mask2FormerForUniversalSegmentation, Mask2FormerImageProcessor]:
    """Model in float32 and processor, read once."""
    model = Mask2FormerForUniversalSegmentation.from_pretrained(CHECKPOINT, dtype=torch.float32)
    return model.eval(), Mask2FormerImageProcessor.from_pretrained(CHECKPOINT)


def stuff_labels() -> set[int]:
    """Network ids of the stuff classes, which panoptic answers fuse."""
    from deform_models.shapes.coco import coco_categories

    model, _ = loaded()
    stuff = {c["name"] for c in coco_categories() if not c["isthing"]}
    return {index for index, name in model.config.id2label.items() if name in stuff}


def encode_png(pixels: np.ndarray) -> bytes:
    """Lossless bytes of [H, W, 3] uint8 pixels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@functools.lru_cache(maxsize=64)
def network_outputs(seed: int):
    """The network's outputs for one held-out scene, and the scene's pixels."""
    from deform_models.shapes.scenes import generate_scene

    model, processor = loaded()
    pixels = generate_scene(seed).image
    with torch.inference_mode():
        inputs = processor(images=Image.fromarray(pixels), return_tensors="pt")
        return model(pixel_values=inputs["pixel_values"]), pixels


def instance(seed: int) -> list[Found]:
    """Hugging Face's instance answer, each mask whole."""
    outputs, pixels = network_outputs(seed)
    found = loaded()[1].post_process_instance_segmentation(
        outputs, threshold=0.5, target_sizes=[pixels.shape[:2]], return_binary_maps=True
    )[0]
    maps = np.asarray(found["segmentation"]) if found["segments_info"] else np.zeros((0, 1, 1))
    return [
        Found(info["label_id"], info["score"], maps[index] > 0)
        for index, info in enumerate(found["segments_info"])
    ]


def panoptic(seed: int) -> list[Found]:
    """Hugging Face's panoptic answer."""
    outputs, pixels = network_outputs(seed)
    found = loaded()[1].post_process_panoptic_segmentation(
        outputs, threshold=0.5, label_ids_to_fuse=stuff_labels(), target_sizes=[pixels.shape[:2]]
    )[0]
    ids = np.asarray(found["segmentation"])
    return [Found(s["label_id"], s["score"], ids == s["id"]) for s in found["segments_info"]]


def semantic(seed: int) -> np.ndarray:
    """Hugging Face's semantic answer: network class of each pixel, [height, width]."""
    outputs, pixels = network_outputs(seed)
    processor = loaded()[1]
    return np.asarray(
        processor.post_process_semantic_segmentation(outputs, target_sizes=[pixels.shape[:2]])[0]
    )
