"""The names a caller gives: backends, and what becomes of the weights."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Backend", "Method", "check_backend", "wants_softmax"]


class Backend(StrEnum):
    """Who computes. The references aren't among them, so that no call ends up there."""

    CUDA = "cuda"
    """Kernels compiled ahead for the GPU architectures of the build, and PTX for later ones."""
    JIT = "jit"
    """Kernels compiled at run time for the call's sizes and the GPU at hand."""
    CPU = "cpu"
    """Vectorised and threaded kernels."""
    EAGER = "eager"
    """Tensor operations of PyTorch: any device, traceable."""


class Method(StrEnum):
    """How the weights of a query's points are taken."""

    LINEAR = "linear"
    """As they are."""
    SOFTMAX = "softmax"
    """As logits, normalised over all points of a head or group together."""


def wants_softmax(method: Method | str | None, softmax: bool) -> bool:
    """Whether ``method``, or where that is None ``softmax``, asks for normalised weights.

    Raises:
        ValueError: if ``method`` is neither "linear" nor "softmax".
    """
    return softmax if method is None else Method(method) is Method.SOFTMAX


def check_backend(backend: Backend | None) -> None:
    """Raises TypeError unless ``backend`` is None or a member of :class:`Backend`."""
    if backend is not None and not isinstance(backend, Backend):
        raise TypeError(
            f"backend must be a deform_ops.registry.Backend or None, but is {backend!r}"
        )
