"""Tiny randomly initialised models of transformers with deformable attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import (
    DeformableDetrConfig,
    DeformableDetrForObjectDetection,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    ResNetConfig,
    SwinConfig,
)

MASK2FORMER_LAYERS, DETR_LAYERS = 2, 3


def mask2former() -> Mask2FormerForUniversalSegmentation:
    """Swin with one block a stage, 2 decoder layers, 6 queries, 3 labels."""
    backbone = SwinConfig(
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = Mask2FormerConfig(
        backbone_config=backbone,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        num_attention_heads=2,
        encoder_layers=MASK2FORMER_LAYERS,
        decoder_layers=2,
        num_queries=6,
        num_labels=3,
    )
    torch.manual_seed(0)
    return Mask2FormerForUniversalSegmentation(config).eval()


def deformable_detr() -> DeformableDetrForObjectDetection:
    """A small ResNet, 1 encoder and 2 decoder layers, 5 queries, 3 labels."""
    backbone = ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = DeformableDetrConfig(
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=DETR_LAYERS - 1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=5,
        num_labels=3,
        disable_custom_kernels=True,
    )
    torch.manual_seed(0)
    return DeformableDetrForObjectDetection(config).eval()


@dataclass(frozen=True)
class Model:
    """How to make a model, what of its answer to compare, how often it attends."""

    make: Callable[[], torch.nn.Module]
    outputs: tuple[str, ...]
    layers: int


MODELS = {
    "mask2former": Model(
        mask2former, ("class_queries_logits", "masks_queries_logits"), MASK2FORMER_LAYERS
    ),
    "deformable_detr": Model(deformable_detr, ("logits", "pred_boxes"), DETR_LAYERS),
}


class Outputs(torch.nn.Module):
    """The model with its answers as a tuple, as an exported program has them."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        answer = self.model(pixels)
        return tuple(getattr(answer, name) for name in self.names)
