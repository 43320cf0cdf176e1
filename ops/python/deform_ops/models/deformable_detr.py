"""Deformable DETR on the operators, and the module that it replaces."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import DeformableDetrForObjectDetection

from deform_ops.integrations import transformers as integration
from deform_ops.models.pretrained import PatchedModel
from deform_ops.registry import Backend

__all__ = [
    "DEFAULT_CHECKPOINT",
    "DeformableDETR",
    "PatchedMultiScaleDeformableAttention",
    "patch_deformable_detr",
]

DEFAULT_CHECKPOINT = "SenseTime/deformable-detr"

PatchedMultiScaleDeformableAttention = integration.MultiScaleDeformableAttention


def patch_deformable_detr(
    model: nn.Module, *, backend: Backend | None = None, strict: bool = True
) -> int:
    """Replaces the attention of a Deformable DETR, in place.

    Returns:
        How many attention modules run the operator now.

    Raises:
        NothingPatchedError: if ``strict`` and there is none.
    """
    return integration.patch(model, backend=backend, strict=strict)


class DeformableDETR(PatchedModel):
    """``DeformableDetrForObjectDetection`` with its attention on the operators."""

    architecture = DeformableDetrForObjectDetection
    default_checkpoint = DEFAULT_CHECKPOINT
    patch = staticmethod(patch_deformable_detr)

    def forward(
        self, pixel_values: Tensor, pixel_mask: Tensor | None = None, **arguments: Any
    ) -> Any:
        """transformers' outputs for ``pixel_values`` (B, 3, H, W), normalised RGB.

        ``pixel_mask`` is (B, H, W), 1 on content and 0 on padding; None is all content.
        """
        return self.model(pixel_values=pixel_values, pixel_mask=pixel_mask, **arguments)
