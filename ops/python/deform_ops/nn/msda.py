"""Multi-scale deformable attention as a layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from deform_ops.nn.locations import initial_offsets, sampling_locations
from deform_ops.registry import Backend, Method, msda
from deform_ops.registry.backend import check_backend

__all__ = ["MultiScaleDeformAttn2d"]

# Names of the original code's projections, as Deformable DETR checkpoints have them.
_NAMES_BEFORE = {
    "sampling_offsets": "proj_offset",
    "attention_weights": "proj_weights",
    "value_proj": "proj_value",
    "output_proj": "proj_output",
}


class MultiScaleDeformAttn2d(nn.Module):
    """Multi-scale deformable attention (Deformable DETR).

    Each query predicts, for each head, L*K points around its reference and their weights; the
    projected value is read there, summed and projected to the output.

    State dicts of deformops load, and those of version 1, which have the names of Deformable DETR's
    code (``sampling_offsets``, ``attention_weights``, ``value_proj``, ``output_proj``), too.

    Args:
        dim: channels of the queries and of all heads together.
        dim_value: channels of the value; None is ``dim``.
        dim_output: channels of the result; None is ``dim``.
        num_heads: G.
        num_levels: L.
        num_points: K of each level.
        method: "softmax" normalises the predicted weights over L*K, "linear" takes them as they
            are.
        backend: who computes; None takes the policy's choice.

    Raises:
        ValueError: if a size isn't positive, or ``dim`` isn't a multiple of ``num_heads``.
    """

    _version = 2

    def __init__(
        self,
        dim: int,
        dim_value: int | None = None,
        dim_output: int | None = None,
        *,
        num_heads: int,
        num_levels: int,
        num_points: int = 4,
        method: Method | str = Method.SOFTMAX,
        backend: Backend | None = None,
    ) -> None:
        """Makes the layer; see the class."""
        super().__init__()
        sizes = {"dim": dim, "num_heads": num_heads}
        sizes |= {"num_levels": num_levels, "num_points": num_points}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, but is {size}")
        if dim % num_heads:
            raise ValueError(f"dim must be a multiple of num_heads, but is {dim} of {num_heads}")
        check_backend(backend)
        self.dim = dim
        self.num_heads = num_heads
        self.num_levels = num_levels
        self.num_points = num_points
        self.method = Method(method)
        self.backend = backend

        points = num_heads * num_levels * num_points
        self.proj_offset = nn.Linear(dim, points * 2)
        self.proj_weights = nn.Linear(dim, points)
        self.proj_value = nn.Linear(dim if dim_value is None else dim_value, dim)
        self.proj_output = nn.Linear(dim, dim if dim_output is None else dim_output)
        self.register_load_state_dict_pre_hook(_rename_before_version_2)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fixed points around the reference with even weights, and Xavier projections."""
        nn.init.zeros_(self.proj_offset.weight)
        offsets = initial_offsets(self.num_heads, self.num_levels, self.num_points)
        self.proj_offset.bias.data.copy_(offsets)
        nn.init.zeros_(self.proj_weights.weight)
        nn.init.zeros_(self.proj_weights.bias)
        for projection in (self.proj_value, self.proj_output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        reference: Tensor,
        value: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
        padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Reads ``value`` around each query's reference.

        Args:
            query: (B, Q, dim).
            reference: (B, Q, L, 2) as x, y in [0, 1], or (B, Q, L, 4) with width and height.
            value: (B, S, dim_value), all levels one after the other.
            spatial_shapes: (L, 2), integers: height and width of each level.
            level_start_index: (L,), integers: first row of each level in ``value``.
            padding_mask: (B, S), true on rows that count as 0 once projected.

        Returns:
            (B, Q, dim_output).

        Raises:
            ValueError: if ``reference`` ends in another number than 2 or 4.
            RuntimeError: on operands that don't fit together, naming the one at fault.
        """
        heads, levels, points = self.num_heads, self.num_levels, self.num_points
        projected = self.proj_value(value)
        if padding_mask is not None:
            projected = projected.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        offsets = self.proj_offset(query).unflatten(-1, (heads, levels, points, 2))
        attended = msda(
            projected.unflatten(-1, (heads, self.dim // heads)),
            spatial_shapes,
            level_start_index,
            sampling_locations(reference, offsets, spatial_shapes),
            self.proj_weights(query).unflatten(-1, (heads, levels * points)),
            method=self.method,
            backend=self.backend,
        )
        return self.proj_output(attended)

    def extra_repr(self) -> str:
        """The sizes that the submodules don't show."""
        return (
            f"num_heads={self.num_heads}, num_levels={self.num_levels}, "
            f"num_points={self.num_points}, method={self.method}, backend={self.backend}"
        )


def _rename_before_version_2(
    module: nn.Module,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    *_: Any,
) -> None:
    if local_metadata.get("version", 1) >= MultiScaleDeformAttn2d._version:
        return
    for before, now in _NAMES_BEFORE.items():
        for kind in ("weight", "bias"):
            tensor = state_dict.pop(f"{prefix}{before}.{kind}", None)
            if tensor is not None:
                state_dict[f"{prefix}{now}.{kind}"] = tensor
