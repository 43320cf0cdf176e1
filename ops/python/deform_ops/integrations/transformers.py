"""Hugging Face models with their deformable attention run by ``torch.ops.deform.msda``.

:func:`patch` changes a model in place; weights and state dict keep their names. The operator
stays one node under ``torch.export``, AOTInductor and ``torch.compile``.
"""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn
from transformers.models.deformable_detr import modeling_deformable_detr
from transformers.models.mask2former import modeling_mask2former

from deform_ops.integrations.patching import level_starts, patch_classes
from deform_ops.nn.locations import sampling_locations
from deform_ops.registry import Backend, msda

__all__ = ["Mask2FormerDeformableAttention", "MultiScaleDeformableAttention", "patch"]


class MultiScaleDeformableAttention(modeling_deformable_detr.MultiScaleDeformableAttention):
    """Stands in for the module of this name in Deformable DETR. It has no parameters.

    Args:
        backend: who computes; None takes the policy's choice.
    """

    backend: Backend | None = None
    # Says which kernel from the hub may take forward's place: none.
    kernel_layer_name = None

    def __init__(self, *, backend: Backend | None = None) -> None:
        """Makes the module; see the class."""
        super().__init__()
        self.backend = backend

    def forward(
        self,
        value: Tensor,
        value_spatial_shapes: Tensor,
        value_spatial_shapes_list: list[tuple[int, int]],
        level_start_index: Tensor | None,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        im2col_step: int,
    ) -> Tensor:
        """Returns (B, Q, G*D); see :class:`deform_ops.registry.Msda` for the operands.

        ``value_spatial_shapes_list`` and ``im2col_step`` are part of the signature only. Without
        ``level_start_index`` the levels lie one after the other.
        """
        if level_start_index is None:
            level_start_index = level_starts(value_spatial_shapes)
        return msda(
            value,
            value_spatial_shapes,
            level_start_index,
            sampling_locations,
            attention_weights,
            backend=self.backend,
        )


class Mask2FormerDeformableAttention(
    modeling_mask2former.Mask2FormerPixelDecoderEncoderMultiscaleDeformableAttention
):
    """Mask2Former's pixel decoder attention, with the sampling in one operator."""

    backend: Backend | None = None

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
        attended = msda(
            value,
            spatial_shapes,
            level_start_index,
            sampling_locations(reference_points, offsets, spatial_shapes),
            weights,
            backend=self.backend,
        )
        return self.output_proj(attended), weights


_SAMPLING_ARGUMENTS = list(inspect.signature(MultiScaleDeformableAttention.forward).parameters)


def _replacement_of(module: nn.Module) -> type[nn.Module] | None:
    kind = type(module)
    if kind in (MultiScaleDeformableAttention, Mask2FormerDeformableAttention):
        return kind
    if kind is modeling_mask2former.Mask2FormerPixelDecoderEncoderMultiscaleDeformableAttention:
        return Mask2FormerDeformableAttention
    # Deformable DETR's descendants (RT-DETR, Grounding DINO, …) each hold a copy of its module.
    if (
        kind.__name__ == "MultiScaleDeformableAttention"
        and kind.__module__.startswith("transformers.models.")
        and list(inspect.signature(kind.forward).parameters) == _SAMPLING_ARGUMENTS
    ):
        return MultiScaleDeformableAttention
    return None


def patch(model: nn.Module, *, backend: Backend | None = None, strict: bool = True) -> int:
    """Makes every deformable attention in ``model`` run ``torch.ops.deform.msda``.

    Knows Mask2Former and Deformable DETR, models that hold either, and those with a copy of
    Deformable DETR's module, such as RT-DETR and Grounding DINO. The model is changed in place, and
    only this one; modules that are patched already take the new ``backend``.

    Args:
        model: any module, such as ``Mask2FormerForUniversalSegmentation``.
        backend: who computes; None takes the policy's choice.
        strict: whether finding no deformable attention at all is an error.

    Returns:
        How many modules run the operator now.

    Raises:
        NothingPatchedError: (a ValueError and RuntimeError) if ``strict`` and nothing in ``model``
            is a deformable attention.
    """
    return patch_classes(
        model,
        _replacement_of,
        backend=backend,
        strict=strict,
        wanted="Mask2Former or Deformable DETR",
    )
