"""What is raised, or warned of, when a call can't run, or not as it should."""

from __future__ import annotations

__all__ = [
    "BackendFallbackWarning",
    "KernelBuildError",
    "KernelDownloadError",
    "KernelNotProvidedError",
    "KernelUnavailableError",
    "NoBackendError",
    "NothingPatchedError",
]


class NoBackendError(RuntimeError):
    """No backend can run a call; the message lists each candidate and its reason."""


class KernelUnavailableError(RuntimeError):
    """A backend's compiled kernels can't be had; the subclasses say why."""


class KernelNotProvidedError(KernelUnavailableError, NoBackendError):
    """The installed library holds no such kernels, and nothing else may provide them.

    Only a backend asked for by name raises it: a call that leaves the choice open moves on.
    """


class KernelDownloadError(KernelUnavailableError):
    """Ready kernels couldn't be fetched; the message names the variable that skips the download."""


class KernelBuildError(KernelUnavailableError):
    """Kernels couldn't be compiled; the message names what is missing."""


class BackendFallbackWarning(UserWarning):
    """A call runs on another backend than the policy's first choice.

    Issued once for each reason. ``DEFORM_FALLBACK_WARNINGS=0`` silences it.
    """


class NothingPatchedError(RuntimeError, ValueError):
    """A model to be patched holds no module that the integration replaces."""


_BY_NAME: dict[str, type[RuntimeError]] = {
    kind.__name__: kind
    for kind in (NoBackendError, KernelNotProvidedError, KernelDownloadError, KernelBuildError)
}


def typed_error(error: RuntimeError) -> RuntimeError:
    """``error`` as the class of this module that its text starts with, or as it is.

    The library can raise only what C++ knows, and puts the class in front: ``NoBackendError: …``.
    """
    name, _, text = str(error).partition(": ")
    kind = _BY_NAME.get(name)
    return error if kind is None else kind(text)
