"""Single-scale deformable sampling as a callable."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.geometry import Pair, pair
from deform_ops.registry.backend import Backend, Method, wants_softmax
from deform_ops.registry.operator import Call, LoadedBackend, Operator, run_reference
from deform_ops.registry.selection import CallContext, Resolution, select_backend

__all__ = [
    "Attn",
    "Backend",
    "CallContext",
    "LoadedBackend",
    "Method",
    "Resolution",
    "attn",
    "select_backend",
]


class Attn(Operator):
    """Single-scale deformable sampling: a kernel's points, moved by offsets and weighted.

    ``B`` batch, ``G`` groups, ``D`` channels of a group, ``K`` points of the kernel. All methods
    take the same operands:

    Args:
        value: (B, H, W, G*D), channels last; float32, float16, bfloat16 or float64.
        offset_mask: (B, Ho, Wo, at least G*K*3): for each group and point dx, dy (in pixels of
            ``value``) and weight. The kernel's columns are the outer loop. Further channels are
            ignored.
        kernel_size: points in height and width.
        stride: pixels between two outputs.
        padding: pixels of zeros around ``value``.
        dilation: pixels between two points.
        groups: G.
        group_dims: D.
        spread: factor on grid and offset alike, about the kernel's centre.
        method: "linear" takes the weights as they are, "softmax" as logits over K; None leaves
            it to ``softmax``.
        softmax: whether the weights are logits, where ``method`` is None.
        drop_center: leaves out the point in the kernel's middle.
        backend: who computes; None takes the policy's first candidate that can.
        fp32acc: False allows CUDA to sum half-precision value gradients in half precision.

    Returns:
        (B, Ho, Wo, G*D) of ``value``'s type.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
        NoBackendError: if no candidate, or not the ``backend`` asked for, can run the call.
    """

    name = "attn"
    _takes_fp32acc = True

    def __call__(
        self,
        value: Tensor,
        offset_mask: Tensor,
        /,
        kernel_size: Pair = 3,
        stride: Pair = 1,
        padding: Pair = 1,
        dilation: Pair = 1,
        groups: int = 4,
        group_dims: int = 16,
        spread: float = 1.0,
        method: Method | str | None = None,
        softmax: bool = False,
        drop_center: bool = False,
        *,
        backend: Backend | None = None,
        fp32acc: bool | None = None,
    ) -> Tensor:
        """Runs the operator; see the class."""
        softmax = wants_softmax(method, softmax)
        geometry = (kernel_size, stride, padding, dilation)
        call = _bind(value, offset_mask, geometry, groups, group_dims, spread, softmax, drop_center)
        return self._run(call, backend, fp32acc)

    def resolve(
        self,
        value: Tensor,
        offset_mask: Tensor,
        /,
        kernel_size: Pair = 3,
        stride: Pair = 1,
        padding: Pair = 1,
        dilation: Pair = 1,
        groups: int = 4,
        group_dims: int = 16,
        spread: float = 1.0,
        method: Method | str | None = None,
        softmax: bool = False,
        drop_center: bool = False,
        *,
        backend: Backend | None = None,
        fp32acc: bool | None = None,
    ) -> Resolution:
        """Which backend the same call would take, without running it."""
        softmax = wants_softmax(method, softmax)
        geometry = (kernel_size, stride, padding, dilation)
        call = _bind(value, offset_mask, geometry, groups, group_dims, spread, softmax, drop_center)
        return self._resolve(call, backend, fp32acc)

    def reference(
        self,
        value: Tensor,
        offset_mask: Tensor,
        /,
        kernel_size: Pair = 3,
        stride: Pair = 1,
        padding: Pair = 1,
        dilation: Pair = 1,
        groups: int = 4,
        group_dims: int = 16,
        spread: float = 1.0,
        method: Method | str | None = None,
        softmax: bool = False,
        drop_center: bool = False,
    ) -> Tensor:
        """The result by plain loops in double precision, for tests."""
        softmax = wants_softmax(method, softmax)
        geometry = (kernel_size, stride, padding, dilation)
        return run_reference(
            _bind(value, offset_mask, geometry, groups, group_dims, spread, softmax, drop_center)
        )

    def _call_of(
        self,
        value: Tensor,
        offset_mask: Tensor,
        /,
        kernel_size: Pair = 3,
        stride: Pair = 1,
        padding: Pair = 1,
        dilation: Pair = 1,
        groups: int = 4,
        group_dims: int = 16,
        spread: float = 1.0,
        method: Method | str | None = None,
        softmax: bool = False,
        drop_center: bool = False,
    ) -> Call:
        softmax = wants_softmax(method, softmax)
        geometry = (kernel_size, stride, padding, dilation)
        return _bind(value, offset_mask, geometry, groups, group_dims, spread, softmax, drop_center)

    def _common_call(self, device: torch.device) -> Call:
        value = torch.zeros(1, 1, 1, 16, device=device)
        offset_mask = torch.zeros(1, 1, 1, 27, device=device)
        return self._call_of(value, offset_mask, groups=1)

    def _kernels(
        self, call: Call, backward: bool, fp32acc: bool, sm: int
    ) -> tuple[list[str], list[str], list[Tensor]]:
        kernel_h, kernel_w = call.arguments[2:4]
        group_dims, _, drop_center = call.arguments[-3:]
        dtypes = [tensor.dtype for tensor in call.floats]
        softmax = call.name == "attn_softmax"
        found: tuple[list[str], list[str], list[Tensor]] = torch.ops.deform_jit.attn_kernels(
            kernel_h, kernel_w, group_dims, drop_center, *dtypes, softmax, backward, fp32acc, sm
        )
        return found


def _bind(
    value: Tensor,
    offset_mask: Tensor,
    geometry: tuple[Pair, Pair, Pair, Pair],
    groups: int,
    group_dims: int,
    spread: float,
    softmax: bool,
    drop_center: bool,
) -> Call:
    kernel = pair("kernel_size", geometry[0])
    stride = pair("stride", geometry[1])
    padding = pair("padding", geometry[2])
    dilation = pair("dilation", geometry[3])
    points = kernel[0] * kernel[1] - int(drop_center)
    arguments = (value, offset_mask, *kernel, *stride, *padding, *dilation)
    return Call(
        "attn_softmax" if softmax else "attn",
        (*arguments, groups, group_dims, float(spread), bool(drop_center)),
        (value, offset_mask),
        (group_dims, 1, points) if value.dim() == 4 else None,
    )


attn = Attn()
