"""Deformable convolution as a callable."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_ops.errors import KernelNotProvidedError
from deform_ops.geometry import Pair, pair
from deform_ops.library import has_library
from deform_ops.registry.backend import Backend, check_backend
from deform_ops.registry.operator import Call, LoadedBackend, Operator, run_reference
from deform_ops.registry.selection import CallContext, Resolution, select_backend

__all__ = [
    "Backend",
    "CallContext",
    "Conv",
    "LoadedBackend",
    "Resolution",
    "conv",
    "select_backend",
]


class Conv(Operator):
    """Deformable convolution over channels-last operands; v2 with a mask, v1 without.

    ``B`` batch, ``K`` = kH*kW points of the kernel. All methods take the same operands:

    Args:
        value: (B, H, W, Cin); float32, float16, bfloat16 or float64.
        offset: (B, Ho, Wo, offset_groups, K, 2), dy and dx in pixels of ``value``, the kernel's
            rows first; any of the float types.
        weight: (Cout, Cin/groups, kH, kW), of ``value``'s type.
        bias: (Cout,) of ``value``'s type, or None.
        mask: (B, Ho, Wo, offset_groups, K), a factor on each sample, or None.
        stride: pixels between two outputs.
        padding: pixels of zeros around ``value``.
        dilation: pixels between two points.
        groups: of the convolution.
        offset_groups: parts of the input channels with offsets of their own.
        backend: who computes; None takes the policy's first candidate that can.

    A call may ask for the form in tensor operations that bounds its memory, which is
    :attr:`Backend.EAGER`'s alone:

    Args:
        max_bytes: what all scratch together, the result aside, stays within: outputs are computed
            in tiles of rows, and of columns where one row is too much. None: all at once.
        row0: ``offset`` and ``mask`` hold only the output's rows from this one on, as many as they
            are high, and so does the result: a caller streams a large output.
        lean: only minimum and maximum arithmetic and look-ups in embeddings, which converters for
            mobile runtimes lower; H*W*offset_groups at most 2**24.

    Returns:
        (B, Ho, Wo, Cout) of ``value``'s type.

    Raises:
        RuntimeError: on operands that don't fit together, naming the one at fault.
        ValueError: if ``max_bytes``, ``row0`` or ``lean`` is given and another ``backend`` named.
        NoBackendError: if no candidate, or not the ``backend`` asked for, can run the call.
    """

    name = "conv"
    _autocasts = True

    def __call__(
        self,
        value: Tensor,
        offset: Tensor,
        weight: Tensor,
        /,
        bias: Tensor | None = None,
        mask: Tensor | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        *,
        groups: int = 1,
        offset_groups: int = 1,
        backend: Backend | None = None,
        max_bytes: int | None = None,
        row0: int | None = None,
        lean: bool = False,
    ) -> Tensor:
        """Runs the operator; see the class."""
        geometry = (stride, padding, dilation)
        if max_bytes is not None or row0 is not None or lean:
            call = _bind(value, offset, weight, bias, mask, geometry, groups, offset_groups)
            return _run_bounded(call, backend, max_bytes, row0, lean)
        if backend is not None and torch.is_autocast_enabled(value.device.type):
            # A backend's own operator takes its operands as they are.
            dtype = torch.get_autocast_dtype(value.device.type)
            value, weight = value.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
            mask = None if mask is None else mask.to(dtype)
        call = _bind(value, offset, weight, bias, mask, geometry, groups, offset_groups)
        return self._run(call, backend, None)

    def resolve(
        self,
        value: Tensor,
        offset: Tensor,
        weight: Tensor,
        /,
        bias: Tensor | None = None,
        mask: Tensor | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        *,
        groups: int = 1,
        offset_groups: int = 1,
        backend: Backend | None = None,
    ) -> Resolution:
        """Which backend the same call would take, without running it."""
        geometry = (stride, padding, dilation)
        call = _bind(value, offset, weight, bias, mask, geometry, groups, offset_groups)
        return self._resolve(call, backend, None)

    def reference(
        self,
        value: Tensor,
        offset: Tensor,
        weight: Tensor,
        /,
        bias: Tensor | None = None,
        mask: Tensor | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        *,
        groups: int = 1,
        offset_groups: int = 1,
    ) -> Tensor:
        """The result by plain loops in double precision, for tests."""
        geometry = (stride, padding, dilation)
        return run_reference(
            _bind(value, offset, weight, bias, mask, geometry, groups, offset_groups)
        )

    def _call_of(
        self,
        value: Tensor,
        offset: Tensor,
        weight: Tensor,
        /,
        bias: Tensor | None = None,
        mask: Tensor | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        *,
        groups: int = 1,
        offset_groups: int = 1,
    ) -> Call:
        geometry = (stride, padding, dilation)
        return _bind(value, offset, weight, bias, mask, geometry, groups, offset_groups)

    def _common_call(self, device: torch.device) -> Call:
        value = torch.zeros(1, 64, 64, 64, device=device)
        offset = torch.zeros(1, 64, 64, 1, 9, 2, device=device)
        weight = torch.zeros(64, 64, 3, 3, device=device)
        return self._call_of(value, offset, weight, padding=1)

    def _kernels(
        self, call: Call, backward: bool, fp32acc: bool, sm: int
    ) -> tuple[list[str], list[str], list[Tensor]]:
        value, offset, mask, weight = call.arguments[:4]
        groups, offset_groups = call.arguments[-2:]
        out_channels, _, kernel_h, kernel_w = weight.shape
        sizes = kernel_h, kernel_w, value.shape[3], out_channels, groups, offset_groups
        outputs = value.shape[0] * offset.shape[1] * offset.shape[2]
        types = value.dtype, offset.dtype, None if mask is None else mask.dtype
        gpu = torch.cuda.get_device_properties(value.device)
        found: tuple[list[str], list[str], list[Tensor]] = torch.ops.deform_jit.conv_kernels(
            *sizes, outputs, *types, backward, sm, gpu.multi_processor_count
        )
        return found


def _run_bounded(
    call: Call, backend: Backend | None, max_bytes: int | None, row0: int | None, lean: bool
) -> Tensor:
    check_backend(backend)
    given = {"max_bytes": max_bytes is not None, "row0": row0 is not None, "lean": lean}
    names = ", ".join(name for name, is_given in given.items() if is_given)
    if backend not in (None, Backend.EAGER):
        raise ValueError(f"conv: {names}: only {Backend.EAGER!r} takes it, not {backend!r}")
    if not has_library():
        raise KernelNotProvidedError(f"conv: {names}: the form is in the operator library")
    result: Tensor = torch.ops.deform_eager.conv(*call.arguments, max_bytes, row0 or 0, lean)
    return result


def _bind(
    value: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    geometry: tuple[Pair, Pair, Pair],
    groups: int,
    offset_groups: int,
) -> Call:
    stride = pair("stride", geometry[0])
    padding = pair("padding", geometry[1])
    dilation = pair("dilation", geometry[2])
    sizes = None
    if value.dim() == 4 and weight.dim() == 4 and offset_groups >= 1:
        sizes = (value.shape[3] // offset_groups, 1, weight.shape[2] * weight.shape[3])
    floats = tuple(tensor for tensor in (value, offset, mask, weight, bias) if tensor is not None)
    arguments = (value, offset, mask, weight, bias, *stride, *padding, *dilation)
    return Call("conv", (*arguments, groups, offset_groups), floats, sizes)


conv = Conv()
