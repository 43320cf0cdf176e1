"""Multi-scale deformable attention as a callable."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.registry.backend import Backend, Method, wants_softmax
from deform_ops.registry.operator import Call, LoadedBackend, Operator, run_reference
from deform_ops.registry.selection import CallContext, Resolution, select_backend

__all__ = [
    "Backend",
    "CallContext",
    "LoadedBackend",
    "Method",
    "Msda",
    "Resolution",
    "msda",
    "select_backend",
]


class Msda(Operator):
    """Multi-scale deformable attention.

    ``B`` batch, ``S`` rows of all levels together, ``G`` heads, ``D`` channels of a head, ``Q``
    queries, ``L`` levels, ``K`` points of a level. All methods take the same operands:

    Args:
        value: (B, S, G, D), float32, float16, bfloat16 or float64.
        spatial_shapes: (L, 2), integers: height and width of each level.
        level_start_index: (L,), integers: first row of each level in ``value``.
        sampling_locations: (B, Q, G, L, K, 2), x and y in [0, 1], any of the float types.
        attention_weights: (B, Q, G, L*K) or (B, Q, G, L, K), any of the float types.
        method: "linear" takes the weights as they are, "softmax" as logits over L*K; None
            leaves it to ``softmax``.
        softmax: whether the weights are logits, where ``method`` is None.
        backend: who computes; None takes the policy's first candidate that can.
        fp32acc: False allows CUDA to sum half-precision value gradients in half precision. While
            tracing, a call that says True or False records the chosen backend's operator instead
            of the public one.

    Returns:
        (B, Q, G*D) of ``value``'s type. A point outside its level adds nothing.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
        NoBackendError: if no candidate, or not the ``backend`` asked for, can run the call.
    """

    name = "msda"
    _takes_fp32acc = True

    def __call__(
        self,
        value: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        /,
        *,
        method: Method | str | None = None,
        softmax: bool = False,
        backend: Backend | None = None,
        fp32acc: bool | None = None,
    ) -> Tensor:
        """Runs the operator; see the class."""
        call = _bind(
            value,
            spatial_shapes,
            level_start_index,
            sampling_locations,
            attention_weights,
            wants_softmax(method, softmax),
        )
        return self._run(call, backend, fp32acc)

    def resolve(
        self,
        value: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        /,
        *,
        method: Method | str | None = None,
        softmax: bool = False,
        backend: Backend | None = None,
        fp32acc: bool | None = None,
    ) -> Resolution:
        """Which backend the same call would take, without running it."""
        call = _bind(
            value,
            spatial_shapes,
            level_start_index,
            sampling_locations,
            attention_weights,
            wants_softmax(method, softmax),
        )
        return self._resolve(call, backend, fp32acc)

    def reference(
        self,
        value: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        /,
        *,
        method: Method | str | None = None,
        softmax: bool = False,
    ) -> Tensor:
        """The result by plain loops in double precision, for tests."""
        call = _bind(
            value,
            spatial_shapes,
            level_start_index,
            sampling_locations,
            attention_weights,
            wants_softmax(method, softmax),
        )
        return run_reference(call)

    def _call_of(
        self, *operands: Tensor, method: Method | str | None = None, softmax: bool = False
    ) -> Call:
        return _bind(*operands, wants_softmax(method, softmax))

    def _common_call(self, device: torch.device) -> Call:
        table = torch.tensor([[1, 1]], device=device), torch.tensor([0], device=device)
        points = torch.zeros(1, 1, 1, 1, 4, 2, device=device)
        weights = torch.zeros(1, 1, 1, 4, device=device)
        value = torch.zeros(1, 1, 1, 32, device=device)
        return _bind(value, *table, points, weights, False)

    def _kernels(
        self, call: Call, backward: bool, fp32acc: bool, sm: int
    ) -> tuple[list[str], list[str], list[Tensor]]:
        dtypes = [tensor.dtype for tensor in call.floats]
        softmax = call.name == "msda_softmax"
        found: tuple[list[str], list[str], list[Tensor]] = torch.ops.deform_jit.msda_kernels(
            *call.sizes, *dtypes, softmax, backward, fp32acc, sm
        )
        return found


def _bind(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    softmax: bool,
) -> Call:
    sizes = None
    if value.dim() == 4 and sampling_locations.dim() == 6:
        sizes = (value.shape[3], sampling_locations.shape[3], sampling_locations.shape[4])
    return Call(
        "msda_softmax" if softmax else "msda",
        (value, spatial_shapes, level_start_index, sampling_locations, attention_weights),
        (value, sampling_locations, attention_weights),
        sizes,
    )


msda = Msda()
