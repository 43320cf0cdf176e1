"""Hugging Face folders of networks small enough for a test, with weights that make them speak."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    DeformableDetrConfig,
    DeformableDetrForObjectDetection,
    DeformableDetrImageProcessor,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    Mask2FormerImageProcessor,
    PreTrainedModel,
    ResNetConfig,
)

NAMES = {0: "disk", 1: "square", 2: "grass"}
CATEGORIES = [
    {"id": 70, "name": "grass", "isthing": 0, "color": [0, 255, 0], "supercategory": "ground"},
    {"id": 3, "name": "square", "isthing": 1, "color": [1, 2, 3]},
    {"id": 90, "name": "disk", "isthing": 1, "color": [9, 8, 7]},
]


def randomise(model: nn.Module, seed: int = 1) -> None:
    """Weights under which outputs depend on the picture: the classes' own ones hardly do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point() or "criterion" in name:
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if tensor.dim() > 1:
                tensor.copy_(noise / math.sqrt(tensor[0].numel()))
            elif name.endswith(("weight", "running_var")):
                tensor.copy_(1 + 0.2 * noise.clamp(-2, 2))
            else:
                tensor.copy_(0.1 * noise)


def save(model: PreTrainedModel, processor: Any, folder: Path) -> Path:
    """Writes a folder as published checkpoints are laid out."""
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def backbone(stages: tuple[str, ...]) -> ResNetConfig:
    """Four stages of one basic block."""
    return ResNetConfig(
        layer_type="basic",
        embedding_size=16,
        hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1],
        out_features=list(stages),
    )


def mask2former(**changes: Any) -> Mask2FormerForUniversalSegmentation:
    """Two encoder layers, three decoder layers, 8 queries."""
    fields: dict[str, Any] = {
        "backbone_config": backbone(("stage1", "stage2", "stage3", "stage4")),
        "feature_size": 32,
        "mask_feature_size": 32,
        "hidden_dim": 32,
        "encoder_feedforward_dim": 48,
        "dim_feedforward": 48,
        "encoder_layers": 2,
        "decoder_layers": 4,
        "num_attention_heads": 4,
        "num_queries": 8,
        "id2label": NAMES,
    }
    model = Mask2FormerForUniversalSegmentation(Mask2FormerConfig(**{**fields, **changes}))
    randomise(model)
    return model


def save_mask2former(folder: Path, **changes: Any) -> Path:
    """`mask2former()` with a 64×64 processor and categories.json beside it."""
    processor = Mask2FormerImageProcessor(size={"height": 64, "width": 64})
    save(mask2former(**changes), processor, folder)
    (folder / "categories.json").write_text(json.dumps(CATEGORIES))
    return folder


def deformable_detr(**changes: Any) -> DeformableDetrForObjectDetection:
    """Two layers each way, 9 queries, 5 classes."""
    levels = changes.get("num_feature_levels", 4)
    fields: dict[str, Any] = {
        "backbone_config": backbone(("stage2", "stage3", "stage4") if levels > 1 else ("stage4",)),
        "use_timm_backbone": False,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "num_queries": 9,
        "num_labels": 5,
    }
    model = DeformableDetrForObjectDetection(DeformableDetrConfig(**{**fields, **changes}))
    randomise(model)
    return model


def save_deformable_detr(folder: Path, **changes: Any) -> Path:
    """`deformable_detr()` with the class's own processor."""
    return save(deformable_detr(**changes), DeformableDetrImageProcessor(), folder)


def edit_json(path: Path, **changes: Any) -> None:
    """Sets fields of a JSON object on disk; None removes one."""
    value = json.loads(path.read_text())
    for key, change in changes.items():
        value.pop(key, None)
        if change is not None:
            value[key] = change
    path.write_text(json.dumps(value))
