"""Mask2Former: instance, semantic and panoptic segmentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deform_models.errors import PackagingError
from deform_models.recipe import Recipe


class Mask2FormerNetwork(nn.Module):
    """`pixel_values [B, 3, H, W]` float32 to class and mask logits, float32.

    Class logits are `[B, queries, classes + 1]`, the last one "no object"; mask logits
    `[B, queries, H / 4, W / 4]`. Inside, the model computes in its own dtype.
    """

    def __init__(self, model: nn.Module) -> None:
        """Wraps `model`, a Mask2FormerForUniversalSegmentation."""
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        """Runs the network."""
        out = self.model(pixel_values=pixel_values.to(self.model.dtype))
        return out.class_queries_logits.float(), out.masks_queries_logits.float()


class Mask2FormerRecipe(Recipe):
    """Every backbone that `transformers` builds from a `backbone_config`."""

    architecture = "mask2former"
    model_class = "Mask2FormerForUniversalSegmentation"
    processor_types = frozenset(
        {
            "Mask2FormerImageProcessor",
            "Mask2FormerImageProcessorFast",
            "Mask2FormerImageProcessorPil",
            "MaskFormerImageProcessor",
            "MaskFormerImageProcessorFast",
            "MaskFormerFeatureExtractor",
        }
    )
    takes_pixel_mask = False
    default_size_divisor = 32
    output_names = ("class_queries_logits", "masks_queries_logits")

    def check_config(self, config: Any) -> None:
        """Refuses projections whose weights `transformers` neither stores nor loads."""
        if config.feature_size != config.hidden_dim:
            raise PackagingError(
                f"config.json: feature_size is {config.feature_size} and hidden_dim is "
                f"{config.hidden_dim}; they have to be equal, as the projections between them "
                "are not part of a checkpoint"
            )
        if config.enforce_input_projection:
            raise PackagingError(
                "config.json: enforce_input_projection is true; the projections that it adds are "
                "not part of a checkpoint"
            )

    def network(self, model: nn.Module) -> nn.Module:
        """See Mask2FormerNetwork."""
        return Mask2FormerNetwork(model)

    def operator_calls(self, config: Any) -> int:
        """One in each layer of the pixel decoder's encoder."""
        return config.encoder_layers

    def num_queries(self, config: Any) -> int:
        """Queries of one picture."""
        return config.num_queries

    def logits_per_query(self, config: Any) -> int:
        """Classes and "no object"."""
        return config.num_labels + 1

    def tasks(self, panoptic: bool) -> list[str]:
        """PANOPTIC only where things and stuff can be told apart."""
        return ["INSTANCE", "SEMANTIC"] + (["PANOPTIC"] if panoptic else [])

    def rounding_trials(
        self, model: nn.Module, inputs: tuple[Tensor, ...], noise: float, trials: int
    ) -> list[tuple[Tensor, ...]]:
        """Disturbs the mask logits that become attention masks, cut at probability 0.5."""
        network = self.network(model)
        results = []
        for trial in range(trials):
            with torch.inference_mode(), _disturbed_attention_masks(model, noise, trial):
                results.append(network(*inputs))
        return results


@contextmanager
def _disturbed_attention_masks(model: nn.Module, noise: float, seed: int) -> Iterator[None]:
    generator = torch.Generator().manual_seed(seed)

    def disturb(module: Any, arguments: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> Any:
        logits, _ = output
        resized = nn.functional.interpolate(
            logits, size=arguments[2], mode="bilinear", align_corners=False
        )
        offset = torch.rand(resized.shape, generator=generator).mul_(2).sub_(1).mul_(noise)
        outside = (resized + offset.to(resized)).sigmoid().flatten(2) < 0.5
        return logits, outside.unsqueeze(1).repeat(1, module.num_heads, 1, 1).flatten(0, 1)

    predictor = model.get_submodule("model.transformer_module.decoder.mask_predictor")
    handle = predictor.register_forward_hook(disturb)
    try:
        yield
    finally:
        handle.remove()
