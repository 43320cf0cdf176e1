"""The network: a small Mask2Former with a basic-block ResNet, its preprocessor and its export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn
from transformers import (
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    Mask2FormerImageProcessor,
    ResNetConfig,
)

from deform_models.shapes.coco import CATEGORIES, coco_categories

PICTURE_SIZE = 256
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
MAX_PARAMETERS = 8_000_000
MAX_WEIGHT_BYTES = 16_000_000


def shapes_config() -> Mask2FormerConfig:
    """The architecture: 5.2 M parameters, 32 queries, 128 channels in heads of 32."""
    names = {label: category.name for label, category in enumerate(CATEGORIES)}
    backbone = ResNetConfig(
        embedding_size=48,
        hidden_sizes=[64, 96, 160, 224],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    return Mask2FormerConfig(
        backbone_config=backbone,
        feature_size=128,
        mask_feature_size=128,
        hidden_dim=128,
        num_attention_heads=4,
        encoder_layers=3,
        encoder_feedforward_dim=512,
        decoder_layers=6,
        dim_feedforward=512,
        num_queries=32,
        dropout=0.0,
        id2label=names,
        label2id={name: label for label, name in names.items()},
        dtype="float32",
    )


def shapes_processor() -> Mask2FormerImageProcessor:
    """The preprocessor: resize to exactly 256×256, rescale by 1/255, normalise."""
    side = {"height": PICTURE_SIZE, "width": PICTURE_SIZE}
    return Mask2FormerImageProcessor(
        do_resize=True,
        size=side,
        size_divisor=32,
        do_rescale=True,
        rescale_factor=1 / 255,
        do_normalize=True,
        image_mean=list(MEAN),
        image_std=list(STD),
        do_reduce_labels=False,
        ignore_index=255,
        num_labels=len(CATEGORIES),
    )


@torch.no_grad()
def _initialise(model: Mask2FormerForUniversalSegmentation) -> None:
    """Weights for training from scratch.

    The class's own defaults suit fine-tuning: batch norms start near zero, and queries so alike
    that they take long to part.
    """
    for name, module in model.named_modules():
        in_backbone = name.startswith("model.pixel_level_module.encoder")
        if isinstance(module, nn.Conv2d):
            if in_backbone:
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            else:
                nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Linear) and not name.endswith(
            ("sampling_offsets", "attention_weights")
        ):
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
    nn.init.normal_(model.model.pixel_level_module.decoder.level_embed)


def build_model(seed: int) -> Mask2FormerForUniversalSegmentation:
    """A freshly initialised network on the CPU, the same for the same ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Mask2FormerForUniversalSegmentation(shapes_config())
        _initialise(model)
    return model


def export_model(weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Writes a Hugging Face model folder from a state dict.

    ``config.json``, ``model.safetensors`` (floats rounded to float16 for storage; the loaded
    values count as float32), ``preprocessor_config.json`` and COCO's ``categories.json``.
    """
    model = Mask2FormerForUniversalSegmentation(shapes_config())
    model.load_state_dict(dict(weights), strict=False)
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    # The stored type is float16, the type to compute in stays float32.
    config_path = folder / "config.json"
    config = json.loads(config_path.read_text())
    config["dtype"] = "float32"
    config_path.write_text(json.dumps(config, indent=2) + "\n")
    shapes_processor().save_pretrained(folder)
    categories = json.dumps(coco_categories(), indent=1)
    (folder / "categories.json").write_text(categories + "\n")


def load_model(
    folder: Path, device: torch.device | str = "cpu"
) -> tuple[Mask2FormerForUniversalSegmentation, Mask2FormerImageProcessor]:
    """The exported network, float32 and in evaluation mode, and its preprocessor."""
    model = Mask2FormerForUniversalSegmentation.from_pretrained(folder, dtype=torch.float32)
    processor = Mask2FormerImageProcessor.from_pretrained(folder)
    return model.to(device).eval(), processor
