"""mmcv's ``MultiScaleDeformableAttention`` run by ``torch.ops.deform.msda``.

Works with mmcv 2 and with mmcv-lite, which lacks the compiled operators: mmdet 3's Deformable DETR
and DINO are built of this module.
"""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any

from torch import Tensor, nn

from deform_ops.integrations.patching import level_starts, patch_classes
from deform_ops.nn.locations import sampling_locations
from deform_ops.registry import Backend, msda

__all__ = ["MultiScaleDeformableAttention", "patch"]


def _import_attention() -> ModuleType:
    """mmcv's module of the attention; with stand-ins for the extension that mmcv-lite lacks."""
    loader: Any = importlib.import_module("mmcv.utils.ext_loader")
    load = loader.load_ext

    def load_or_stand_in(name: str, functions: list[str]) -> Any:
        try:
            return load(name, functions)
        except ModuleNotFoundError:
            return SimpleNamespace()

    loader.load_ext = load_or_stand_in
    try:
        return importlib.import_module("mmcv.ops.multi_scale_deform_attn")
    finally:
        loader.load_ext = load


_Attention: Any = _import_attention().MultiScaleDeformableAttention


class MultiScaleDeformableAttention(_Attention):
    """mmcv's module, with its constructor and parameters, and the sampling in one operator.

    ``backend`` is who computes; None takes the policy's choice.
    """

    backend: Backend | None = None

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        identity: Tensor | None = None,
        query_pos: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        reference_points: Tensor | None = None,
        spatial_shapes: Tensor | None = None,
        level_start_index: Tensor | None = None,
        residual: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Returns ``identity`` with the attended queries added, in the query's layout.

        Args:
            query: (Q, B, embed_dims), or (B, Q, embed_dims) if ``batch_first``.
            key: unused, part of the signature only.
            value: (S, B, embed_dims) or with the batch first; None is the query.
            identity: like the query, which None stands for.
            query_pos: like the query, added to it.
            key_padding_mask: (B, S), true on rows that count as 0.
            reference_points: (B, Q, L, 2) as x, y in [0, 1], or (B, Q, L, 4) with width, height.
            spatial_shapes: (L, 2), integers: height and width of each level.
            level_start_index: (L,), integers: first row of each level; None is one after the other.
            residual: mmcv's old name of ``identity``.

        Raises:
            ValueError: if ``reference_points`` or ``spatial_shapes`` is missing, or the former ends
                in another number than 2 or 4.
            RuntimeError: on operands that don't fit together, naming the one at fault.
        """
        if reference_points is None or spatial_shapes is None:
            raise ValueError("reference_points and spatial_shapes are required")
        value = query if value is None else value
        if identity is None:
            identity = query if residual is None else residual
        if query_pos is not None:
            query = query + query_pos
        if not self.batch_first:
            query, value = query.transpose(0, 1), value.transpose(0, 1)
        heads, levels, points = self.num_heads, self.num_levels, self.num_points

        value = self.value_proj(value)
        if key_padding_mask is not None:
            value = value.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        offsets = self.sampling_offsets(query).unflatten(-1, (heads, levels, points, 2))
        attended = msda(
            value.unflatten(-1, (heads, -1)),
            spatial_shapes,
            level_starts(spatial_shapes) if level_start_index is None else level_start_index,
            sampling_locations(reference_points, offsets, spatial_shapes),
            self.attention_weights(query).unflatten(-1, (heads, levels * points)),
            method="softmax",
            backend=self.backend,
        )
        output = self.output_proj(attended)
        if not self.batch_first:
            output = output.transpose(0, 1)
        return self.dropout(output) + identity


def _replacement_of(module: nn.Module) -> type[nn.Module] | None:
    known = type(module) in (_Attention, MultiScaleDeformableAttention)
    return MultiScaleDeformableAttention if known else None


def patch(model: nn.Module, *, backend: Backend | None = None, strict: bool = True) -> int:
    """Makes every ``MultiScaleDeformableAttention`` of mmcv in ``model`` run the operator.

    The model is changed in place, and only this one. Subclasses of mmcv's module with a forward of
    their own stay as they are.

    Args:
        model: any module, such as mmdet's ``DeformableDETR``.
        backend: who computes; None takes the policy's choice.
        strict: whether finding nothing to replace is an error.

    Returns:
        How many modules run the operator now.

    Raises:
        NothingPatchedError: (a ValueError and RuntimeError) if ``strict`` and there is none.
    """
    return patch_classes(model, _replacement_of, backend=backend, strict=strict, wanted="mmcv")
