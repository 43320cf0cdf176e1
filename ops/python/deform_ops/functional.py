"""The operators as typed functions."""

from __future__ import annotations

import torch
from torch import Tensor


def msda(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    /,
) -> Tensor:
    """Multi-scale deformable attention.

    ``B`` batch, ``S`` rows of all levels together, ``G`` heads, ``D`` channels a head, ``Q``
    queries, ``L`` levels, ``K`` points.

    Args:
        value: (B, S, G, D), float32, float16, bfloat16 or float64.
        spatial_shapes: (L, 2), int32 or int64: height and width of each level.
        level_start_index: (L,), int32 or int64: first row of each level in ``value``.
        sampling_locations: (B, Q, G, L, K, 2), x and y in [0, 1], any of the float types.
        attention_weights: (B, Q, G, L*K) or (B, Q, G, L, K), any of the float types.

    Returns:
        (B, Q, G*D) of ``value``'s type. A point outside its level, NaN and infinity among them,
        adds nothing.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
    """
    return torch.ops.deform.msda(
        value, spatial_shapes, level_start_index, sampling_locations, attention_weights
    )


def msda_softmax(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_logits: Tensor,
    /,
) -> Tensor:
    """:func:`msda` with weights that are the softmax of ``attention_logits`` over L*K.

    Points outside their level count in the softmax's denominator. Operands, result and errors are
    those of :func:`msda`.
    """
    return torch.ops.deform.msda_softmax(
        value, spatial_shapes, level_start_index, sampling_locations, attention_logits
    )
