"""Hugging Face models with their deformable attention run by ``torch.ops.deform.msda``.

:func:`patch` changes a model in place; weights and state dict keep their names. The operator
stays one node under ``torch.export``, AOTInductor and ``torch.compile``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.models.deformable_detr import modeling_deformable_detr
from transformers.models.mask2former import modeling_mask2former

from deform_ops.functional import msda

__all__ = ["Mask2FormerDeformableAttention", "MultiScaleDeformableAttention", "patch"]


class MultiScaleDeformableAttention(modeling_deformable_detr.MultiScaleDeformableAttention):
    """Stands in for the module of this name in Deformable DETR. It has no parameters."""

    def forward(
        self,
        value: Tensor,
        value_spatial_shapes: Tensor,
        value_spatial_shapes_list: list[tuple[int, int]],
        level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        im2col_step: int,
    ) -> Tensor:
        """Returns (B, Q, G*D); see :func:`deform_ops.msda` for the operands.

        ``value_spatial_shapes_list`` and ``im2col_step`` are part of the signature only.
        """
        return msda(
            value, value_spatial_shapes, level_start_index, sampling_locations, attention_weights
        )


class Mask2FormerDeformableAttention(
    modeling_mask2former.Mask2FormerPixelDecoderEncoderMultiscaleDeformableAttention
):
    """Mask2Former's pixel decoder attention, with the sampling in one operator."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        position_embeddings: Tensor | None = None,
        reference_points: Tensor | None = None,
        spatial_shapes_list: list[tuple[int, int]] | None = None,
        level_start_index: Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Returns the attended states (B, Q, d_model) and the weights (B, Q, G, L, K).

        Args:
            hidden_states: (B, Q, d_model), the queries.
            attention_mask: (B, S), true on rows of ``encoder_hidden_states`` that count as 0.
            encoder_hidden_states: (B, S, d_model), all levels, one after the other.
            encoder_attention_mask: unused, part of the signature only.
            position_embeddings: (B, Q, d_model), added to the queries.
            reference_points: (B, Q, L, 2) as x, y in [0, 1], or (B, Q, L, 4) with width, height.
            spatial_shapes_list: height and width of each level.
            level_start_index: (L,), first row of each level.
            output_attentions: unused, part of the signature only.

        Raises:
            ValueError: if a required argument is missing, or the levels don't fill S rows.
        """
        if encoder_hidden_states is None or reference_points is None:
            raise ValueError("encoder_hidden_states and reference_points are required")
        if spatial_shapes_list is None or level_start_index is None:
            raise ValueError("spatial_shapes_list and level_start_index are required")
        rows = encoder_hidden_states.shape[1]
        expected_rows = sum(height * width for height, width in spatial_shapes_list)
        if rows != expected_rows:
            raise ValueError(
                f"encoder_hidden_states has {rows} rows, but spatial_shapes_list {expected_rows}"
            )
        if position_embeddings is not None:
            hidden_states = hidden_states + position_embeddings
        heads, levels, points = self.n_heads, self.n_levels, self.n_points

        value = self.value_proj(encoder_hidden_states)
        if attention_mask is not None:
            value = value.masked_fill(attention_mask.unsqueeze(-1), 0.0)
        value = value.unflatten(-1, (heads, self.d_model // heads))

        weights = self.attention_weights(hidden_states).unflatten(-1, (heads, levels * points))
        weights = weights.softmax(-1).unflatten(-1, (levels, points))
        offsets = self.sampling_offsets(hidden_states)
        offsets = offsets.unflatten(-1, (heads, levels, points, 2))
        spatial_shapes = torch.tensor(
            spatial_shapes_list, dtype=torch.long, device=reference_points.device
        )
        centres = reference_points[:, :, None, :, None, :2]
        if reference_points.shape[-1] == 2:
            locations = centres + offsets / spatial_shapes.flip(-1)[:, None, :]
        elif reference_points.shape[-1] == 4:
            boxes = reference_points[:, :, None, :, None, 2:]
            locations = centres + offsets / points * boxes * 0.5
        else:
            raise ValueError(
                f"reference_points must end in 2 or 4 numbers, but has {reference_points.shape[-1]}"
            )
        attended = msda(value, spatial_shapes, level_start_index, locations, weights)
        return self.output_proj(attended), weights


# A subclass of each adds a forward and no state, so that a module can change over in place.
_REPLACEMENTS: dict[type[nn.Module], type[nn.Module]] = {
    modeling_deformable_detr.MultiScaleDeformableAttention: MultiScaleDeformableAttention,
    modeling_mask2former.Mask2FormerPixelDecoderEncoderMultiscaleDeformableAttention: (
        Mask2FormerDeformableAttention
    ),
}


def patch(model: nn.Module, *, strict: bool = True) -> int:
    """Makes every deformable attention in ``model`` run ``torch.ops.deform.msda``.

    Knows Mask2Former and Deformable DETR, and models that hold either. The model is changed in
    place, and only this one; modules that are patched already stay as they are.

    Args:
        model: any module, such as ``Mask2FormerForUniversalSegmentation``.
        strict: whether finding no deformable attention at all is an error.

    Returns:
        How many modules run the operator now.

    Raises:
        ValueError: if ``strict`` and nothing in ``model`` is a deformable attention.
    """
    patched = 0
    for module in model.modules():
        if type(module) in _REPLACEMENTS:
            module.__class__ = _REPLACEMENTS[type(module)]
        if type(module) in _REPLACEMENTS.values():
            patched += 1
    if strict and patched == 0:
        raise ValueError(
            f"{type(model).__name__} has no deformable attention of Mask2Former or "
            "Deformable DETR to replace"
        )
    return patched
