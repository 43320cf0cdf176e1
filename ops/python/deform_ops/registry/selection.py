"""Which backend a call takes. The policy itself is in the library; here are its questions."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from deform_ops.errors import BackendFallbackWarning, KernelNotProvidedError, NoBackendError
from deform_ops.kernel_index import use_index
from deform_ops.library import LibraryNotFoundError, find_library, has_library
from deform_ops.registry.backend import Backend

__all__ = ["CallContext", "Resolution", "enable_backend", "select_backend"]

_DEVICE_OF = {Backend.CUDA: "cuda", Backend.JIT: "cuda", Backend.CPU: "cpu"}
_SILENT = "DEFORM_FALLBACK_WARNINGS"
# More than the models of one process have different calls.
_REMEMBERED_CALLS = 4096


@dataclass(frozen=True)
class CallContext:
    """All that the policy looks at in a call."""

    op: str
    """"msda", "attn" or "conv"."""
    device: torch.device
    dtype: torch.dtype
    """Of the value."""
    channels: int
    """Of one head; for conv, of one offset group."""
    levels: int
    """1 but for msda."""
    points: int
    """Of one level, or of the kernel."""
    training: bool = False
    """Whether a gradient is wanted."""
    sm: int | None = None
    """Compute capability times 10, as in 90; None asks the device."""


@dataclass(frozen=True, repr=False)
class Resolution:
    """The backend of a call, and what speaks for and against it."""

    op: str
    backend: Backend
    skipped: tuple[tuple[Backend, str], ...] = ()
    """Each candidate that came before ``backend``, and why it can't run the call."""
    fp32acc: bool = True
    """Whether value gradients are summed in float32 (float64 for float64)."""
    notes: tuple[str, ...] = ()
    """What the policy knew and used."""

    def __repr__(self) -> str:
        """One line for the backend, and one for each thing to know about it."""
        lines = [f"{self.op}: {self.backend}"]
        lines += [f"passed over {backend}: {reason}" for backend, reason in self.skipped]
        if not self.fp32acc:
            lines.append("value gradients are summed in the value's own type")
        return "\n  ".join([*lines, *self.notes])


def select_backend(context: CallContext, *, fp32acc: bool | None = None) -> Resolution:
    """What a call takes that names no backend. Runs nothing, warns of nothing, remembers nothing.

    With ``context.sm`` it also answers for a GPU that isn't there. ``fp32acc=False`` asks for value
    gradients summed in half precision, which not every GPU and call gets.

    Raises:
        NoBackendError: if no candidate can run the call.
    """
    answer = _ask(context)
    if answer.backend is None:
        raise NoBackendError(_describe_failure(context, answer.skipped))
    in_float32 = answer.only_float32 or fp32acc is not False
    return Resolution(context.op, answer.backend, answer.skipped, in_float32, answer.notes)


def enable_backend(backend: Backend, enabled: bool) -> None:
    """Takes ``backend`` out of the choice in this process, or puts it back in.

    Raises:
        KernelNotProvidedError: if there is no operator library, and so no choice.
    """
    if not has_library():
        raise KernelNotProvidedError(f"{backend} can't be switched: {_no_library()}")
    torch.ops.deform.enable_backend(backend.value, enabled)
    selected.cache_clear()
    _ask.cache_clear()


@functools.lru_cache(maxsize=_REMEMBERED_CALLS)
def selected(
    op: str,
    device: torch.device,
    dtype: torch.dtype,
    channels: int,
    levels: int,
    points: int,
    training: bool,
) -> Resolution:
    """:func:`select_backend` for a call that is about to run: remembers, and warns of a fallback.

    The warning points at the caller of the operator, three Python frames up.
    """
    resolution = select_backend(CallContext(op, device, dtype, channels, levels, points, training))
    new = [entry for entry in resolution.skipped if (op, *entry) not in _warned]
    if new and os.environ.get(_SILENT) != "0":
        _warned.update((op, *entry) for entry in new)
        warnings.warn(
            f"{op} runs on {resolution.backend}; "
            + "; ".join(f"{backend}: {reason}" for backend, reason in resolution.skipped)
            + f" ({_SILENT}=0 silences this)",
            BackendFallbackWarning,
            stacklevel=4,
        )
    return resolution


_warned: set[tuple[str, Backend, str]] = set()


def check_runs(backend: Backend, context: CallContext) -> None:
    """Raises unless ``backend``, asked for by name, can run the call.

    Raises:
        KernelNotProvidedError: if the library has no kernels for the GPU.
        NoBackendError: if the backend is disabled or made for another kind of device.
    """
    device = _DEVICE_OF.get(backend)
    if device is not None and context.device.type != device:
        raise NoBackendError(
            f"{context.op}: {backend} takes tensors on {device}, but value is on {context.device}"
        )
    reason = dict(_ask(context).skipped).get(backend)
    if reason is None and not hasattr(getattr(torch.ops, f"deform_{backend}"), context.op):
        reason = "this build of the operator library has no such backend"
    if reason is not None:
        kind = NoBackendError if reason == "disabled" else KernelNotProvidedError
        raise kind(f"{context.op}: {backend} can't run on {context.device}: {reason}")


class _Answer(NamedTuple):
    backend: Backend | None
    skipped: tuple[tuple[Backend, str], ...]
    only_float32: bool
    notes: tuple[str, ...]


@functools.lru_cache(maxsize=_REMEMBERED_CALLS)
def _ask(context: CallContext) -> _Answer:
    if not has_library():
        return _answer_without_library(context.device.type)
    if context.device.type == "cuda":
        use_index()
    # A tracer at work would try to record the question, whose answer is text.
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        backend, skipped, reasons, only_float32, notes = torch.ops.deform.resolve(
            context.op,
            context.device,
            context.dtype,
            context.channels,
            context.levels,
            context.points,
            context.training,
            context.sm,
        )
    pairs = tuple((Backend(name), why) for name, why in zip(skipped, reasons, strict=True))
    return _Answer(Backend(backend) if backend else None, pairs, only_float32, tuple(notes))


def _answer_without_library(device: str) -> _Answer:
    """The policy where only the tensor-operation forms exist: never on a GPU without a word."""
    backends = {"cpu": (Backend.CPU,), "cuda": (Backend.CUDA, Backend.JIT)}.get(device, ())
    skipped = tuple((backend, _no_library()) for backend in backends)
    return _Answer(None if device == "cuda" else Backend.EAGER, skipped, True, ())


def _no_library() -> str:
    try:
        return f"{find_library()} wasn't there when deform_ops was imported"
    except LibraryNotFoundError as error:
        return str(error)


def _describe_failure(context: CallContext, skipped: tuple[tuple[Backend, str], ...]) -> str:
    lines = [f"{context.op}: no backend can run a call on {context.device} in {context.dtype}:"]
    return "\n  ".join(lines + [f"{backend}: {reason}" for backend, reason in skipped])
