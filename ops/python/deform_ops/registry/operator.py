"""What the callable operators share: from a bound call to the operator that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deform_ops.errors import KernelNotProvidedError, NoBackendError, typed_error
from deform_ops.library import find_library, has_library
from deform_ops.registry.backend import Backend, check_backend
from deform_ops.registry.selection import (
    CallContext,
    Resolution,
    check_runs,
    select_backend,
    selected,
)

__all__ = ["Call", "LoadedBackend", "Operator"]


class Call(NamedTuple):
    """One call with its arguments as the dispatcher's operators take them."""

    name: str
    """Of the dispatcher's operator: "msda", "msda_softmax", …"""
    arguments: tuple[Any, ...]
    floats: tuple[Tensor, ...]
    """Those that may want a gradient; the value comes first."""
    sizes: tuple[int, int, int] | None
    """Channels of a head, levels, points; None where the operands' ranks are wrong."""


@dataclass(frozen=True)
class LoadedBackend:
    """A backend that is ready to run an operator."""

    operator: str
    backend: Backend
    source: str
    """Where its kernels come from."""


class Operator:
    """A callable of :mod:`deform_ops.registry`; subclasses bind the arguments."""

    name: str
    # Whether the operators of deform_cuda and deform_jit end in `bool fp32acc`.
    _takes_fp32acc = False
    # Whether autocast changes the operands' types, which the public operator alone does.
    _autocasts = False

    def __repr__(self) -> str:
        """The operator's name."""
        return f"<deform_ops operator {self.name}>"

    def load(self, backend: Backend, /, *operands: Any, **options: Any) -> LoadedBackend:
        """Makes sure, before a first call, that ``backend`` can run on this machine.

        Importing this package has registered the operators already, so that an exported program
        loads; this says with which kernels it will run. For :attr:`Backend.JIT` it finds or
        compiles them: those of one call, given as to :meth:`resolve`, or else of a common one,
        which shows that all it takes is there.

        Args:
            backend: to make ready.
            operands: of a call, on the backend's device; those that require gradients make the
                backward kernels ready as well.
            options: of that call.

        Raises:
            TypeError: if ``backend`` is no :class:`Backend`.
            NoBackendError: if the machine lacks the device, or the backend is disabled.
            KernelNotProvidedError: if there are no kernels for the GPU at hand.
            KernelDownloadError: if an index's kernel isn't what its sums say.
            KernelBuildError: if a kernel can't be compiled.
        """
        if not isinstance(backend, Backend):
            raise TypeError(f"backend must be a deform_ops.registry.Backend, but is {backend!r}")
        if backend is Backend.EAGER:
            return LoadedBackend(self.name, backend, "tensor operations of PyTorch")
        device = torch.device("cpu")
        if backend is not Backend.CPU:
            if not torch.cuda.is_available():
                raise NoBackendError(f"{self.name}: {backend} needs a GPU, but CUDA finds none")
            device = torch.device("cuda", torch.cuda.current_device())
        check_runs(backend, CallContext(self.name, device, torch.float32, 32, 1, 4))
        if backend is not Backend.JIT:
            return LoadedBackend(self.name, backend, f"compiled into {find_library()}")
        fp32acc = options.pop("fp32acc", None) is not False
        call = self._call_of(*operands, **options) if operands else self._common_call(device)
        if call.sizes is None:
            _context_of(self.name, call)
        sources = []
        major, minor = torch.cuda.get_device_capability(call.floats[0].device)
        for backward in (False, True) if _wants_gradient(call.floats) else (False,):
            try:
                found = self._kernels(call, backward, fp32acc, 10 * major + minor)
            except RuntimeError as error:
                raise typed_error(error) from None
            sources += [f"{origin}: {key}" for key, origin in zip(*found[:2], strict=True)]
        return LoadedBackend(self.name, backend, ", ".join(sources))

    def _call_of(self, *operands: Any, **options: Any) -> Call:
        raise NotImplementedError

    def _common_call(self, device: torch.device) -> Call:
        raise NotImplementedError

    def _kernels(
        self, call: Call, backward: bool, fp32acc: bool, sm: int
    ) -> tuple[list[str], list[str], list[Tensor]]:
        """Keys, origins and machine code of the run-time kernels that ``call`` launches."""
        raise NotImplementedError

    def _resolve(self, call: Call, backend: Backend | None, fp32acc: bool | None) -> Resolution:
        check_backend(backend)
        context = _context_of(self.name, call)
        if backend is None:
            return select_backend(context, fp32acc=fp32acc)
        check_runs(backend, context)
        return Resolution(self.name, backend)

    def _run(self, call: Call, backend: Backend | None, fp32acc: bool | None) -> Tensor:
        check_backend(backend)
        public = _is_traced(call.floats) or (
            self._autocasts and torch.is_autocast_enabled(call.floats[0].device.type)
        )
        if call.sizes is None or (backend is None and fp32acc is None and public):
            # One node, which selects where its graph runs. Wrong operands come here too: the
            # operator names what is wrong with them.
            return getattr(torch.ops.deform, call.name)(*call.arguments)
        if torch.compiler.is_compiling():
            return self._run_on(backend or _selected_now(self.name, call), call, fp32acc)
        if backend is None:
            value, training = call.floats[0], _wants_gradient(call.floats)
            resolution = selected(self.name, value.device, value.dtype, *call.sizes, training)
            backend = resolution.backend
        else:
            check_runs(backend, _context_of(self.name, call))
        try:
            return self._run_on(backend, call, fp32acc)
        except RuntimeError as error:
            typed = typed_error(error)
            if typed is error:
                raise
            raise typed from None

    def _run_on(self, backend: Backend, call: Call, fp32acc: bool | None) -> Tensor:
        operator = getattr(getattr(torch.ops, "deform_" + backend.value), call.name)
        if backend in (Backend.CUDA, Backend.JIT) and self._takes_fp32acc:
            return operator(*call.arguments, fp32acc is not False)
        return operator(*call.arguments)


def run_reference(call: Call) -> Tensor:
    """The call by plain loops in double precision on the host.

    Raises:
        KernelNotProvidedError: if there is no operator library.
    """
    if not has_library():
        raise KernelNotProvidedError(f"{call.name}: the reference is in the operator library")
    return getattr(torch.ops.deform_reference, call.name)(*call.arguments)


def _wants_gradient(tensors: tuple[Tensor, ...]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _is_traced(tensors: tuple[Tensor, ...]) -> bool:
    """Whether the call becomes part of a graph, or its tensors hold no numbers of their own."""
    if torch.compiler.is_compiling():
        return True
    if torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.maybe_current_level():
        return True
    return any(type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta for tensor in tensors)


def _context_of(op: str, call: Call) -> CallContext:
    if call.sizes is None:
        shapes = (a.to("meta") if isinstance(a, Tensor) else a for a in call.arguments)
        getattr(torch.ops.deform, call.name)(*shapes)
        raise ValueError(f"{op}: operands of the wrong rank")
    value = call.floats[0]
    training = _wants_gradient(call.floats)
    return CallContext(op, value.device, value.dtype, *call.sizes, training)


@torch.compiler.assume_constant_result
def _choice(
    op: str, device: torch.device, dtype: torch.dtype, sizes: tuple[int, ...], training: bool
) -> Backend:
    channels, levels, points = sizes
    return selected(op, device, dtype, channels, levels, points, training).backend


def _selected_now(op: str, call: Call) -> Backend:
    """The choice of a call that is being traced, for a graph with a backend's own operator."""
    assert call.sizes is not None
    value, sizes = call.floats[0], tuple(int(size) for size in call.sizes)
    return _choice(op, value.device, value.dtype, sizes, _wants_gradient(call.floats))
