"""Mask2Former on the operators, and the modules that it replaces.

The Hungarian matcher and the loss stay transformers' own, which call scipy: they are used in
training only, and have the names here that a user of deformops knows.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Mask2FormerForUniversalSegmentation
from transformers.models.mask2former.modeling_mask2former import (
    Mask2FormerHungarianMatcher,
    Mask2FormerLoss,
    Mask2FormerMaskPredictor,
)

from deform_ops.integrations import transformers as integration
from deform_ops.models.pretrained import PatchedModel
from deform_ops.registry import Backend

__all__ = [
    "DEFAULT_CHECKPOINT",
    "Mask2Former",
    "PatchedMask2FormerHungarianMatcher",
    "PatchedMask2FormerLoss",
    "PatchedMask2FormerMaskPredictor",
    "PatchedMask2FormerPixelDecoderEncoderMultiscaleDeformableAttention",
    "patch_mask2former",
]

DEFAULT_CHECKPOINT = "facebook/mask2former-swin-base-coco-instance"

PatchedMask2FormerPixelDecoderEncoderMultiscaleDeformableAttention = (
    integration.Mask2FormerDeformableAttention
)
PatchedMask2FormerHungarianMatcher = Mask2FormerHungarianMatcher
PatchedMask2FormerLoss = Mask2FormerLoss


class PatchedMask2FormerMaskPredictor(Mask2FormerMaskPredictor):
    """The mask predictor as one batched matrix product, which every exporter knows."""

    def forward(
        self,
        outputs: Tensor,
        pixel_embeddings: Tensor,
        attention_mask_target_size: Any = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns mask logits (B, Q, H, W) and where attention is barred, (B*heads, Q, h*w).

        Args:
            outputs: (Q, B, hidden size), the queries.
            pixel_embeddings: (B, C, H, W).
            attention_mask_target_size: h and w.
        """
        embeddings = self.mask_embedder(outputs.transpose(0, 1))  # (B, Q, C)
        logits = (embeddings @ pixel_embeddings.flatten(2)).unflatten(2, pixel_embeddings.shape[2:])
        small = F.interpolate(
            logits, size=attention_mask_target_size, mode="bilinear", align_corners=False
        )
        # sigmoid(x) < 0.5 as transformers has it, where x rounds to 0.5 from below as well.
        barred = (small.detach().sigmoid() < 0.5).flatten(2).unsqueeze(1)
        return logits, barred.expand(-1, self.num_heads, -1, -1).flatten(0, 1)


def patch_mask2former(
    model: nn.Module, *, backend: Backend | None = None, strict: bool = True
) -> int:
    """Replaces attention and mask predictor of a Mask2Former, in place.

    Returns:
        How many attention modules run the operator now.

    Raises:
        NothingPatchedError: if ``strict`` and there is none.
    """
    patched = integration.patch(model, backend=backend, strict=strict)
    for module in model.modules():
        if type(module) is Mask2FormerMaskPredictor:
            module.__class__ = PatchedMask2FormerMaskPredictor
    return patched


class Mask2Former(PatchedModel):
    """``Mask2FormerForUniversalSegmentation`` with its pixel decoder on the operators."""

    architecture = Mask2FormerForUniversalSegmentation
    default_checkpoint = DEFAULT_CHECKPOINT
    patch = staticmethod(patch_mask2former)

    @property
    def pixel_decoder(self) -> nn.Module:
        """The part whose attention is replaced."""
        return self.model.model.pixel_level_module.decoder

    def forward(self, pixel_values: Tensor, **arguments: Any) -> Any:
        """transformers' outputs for ``pixel_values`` (B, 3, H, W), normalised RGB."""
        return self.model(pixel_values, **arguments)
