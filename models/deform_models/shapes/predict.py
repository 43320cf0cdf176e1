"""Panoptic segmentation of pictures with the exported network and Hugging Face's processor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn
from transformers import Mask2FormerImageProcessor

from deform_models.shapes.coco import CATEGORIES, STUFF_LABELS

Prediction = tuple[np.ndarray, list[tuple[int, int]]]
"""An id map ``[H, W]`` int64, 0 = void, and its (segment id, category id) pairs."""


def _to_prediction(segmentation: torch.Tensor, segments: list[dict]) -> Prediction:
    id_map = segmentation.cpu().numpy().astype(np.int64)
    id_map[id_map < 0] = 0
    # A fused segment is listed once for each query in it. Should two segments have got the same
    # id, their pixels can't be told apart: the first listed keeps them.
    category_of: dict[int, int] = {}
    for segment in segments:
        category_of.setdefault(segment["id"], CATEGORIES[segment["label_id"]].id)
    present = set(np.unique(id_map).tolist())
    return id_map, [(i, c) for i, c in category_of.items() if i in present]


@torch.inference_mode()
def predict(
    model: nn.Module,
    processor: Mask2FormerImageProcessor,
    images: Sequence[np.ndarray],
    batch_size: int = 16,
) -> Iterator[Prediction]:
    """Predictions for RGB uint8 pictures ``[H, W, 3]``, in order, at each picture's own size.

    The processor's default thresholds are used and labels of stuff are fused.
    """
    device = next(model.parameters()).device
    for start in range(0, len(images), batch_size):
        chunk = list(images[start : start + batch_size])
        pixels = processor(images=chunk, return_tensors="pt")["pixel_values"]
        outputs = model(pixel_values=pixels.to(device))
        results = processor.post_process_panoptic_segmentation(
            outputs,
            label_ids_to_fuse=set(STUFF_LABELS),
            target_sizes=[image.shape[:2] for image in chunk],
        )
        for result in results:
            yield _to_prediction(result["segmentation"], result["segments_info"])
