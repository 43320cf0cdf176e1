"""Finds and loads the operator library, once a process."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_NAME = "libdeform_ops.so"
_VARIABLE = "DEFORM_OPS_LIBRARY"
# What the install leaves where it couldn't build the library.
_REASON = "not_built.txt"


class LibraryNotFoundError(ImportError):
    """There is no operator library; the message lists where it was looked for."""


def find_library() -> Path:
    """Returns the operator library's path.

    The first that exists of: the file that ``DEFORM_OPS_LIBRARY`` names, the copy installed with
    this package, and ``build/lib`` of the source tree that this package lies in.

    Raises:
        LibraryNotFoundError: if none exists, or ``DEFORM_OPS_LIBRARY`` names no file.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        if Path(named).is_file():
            return Path(named)
        raise LibraryNotFoundError(f"{_VARIABLE}={named} is not a file")
    package = Path(__file__).resolve().parent
    candidates = [package / "lib" / _NAME]
    # <source tree>/ops/python/deform_ops
    if package.parts[-3:-1] == ("ops", "python"):
        candidates.append(package.parents[2] / "build" / "lib" / _NAME)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(candidate) for candidate in candidates)
    reason = package / "lib" / _REASON
    why = f"; the install built none: {reason.read_text().strip()}" if reason.is_file() else ""
    raise LibraryNotFoundError(
        f"{_NAME} not found: set {_VARIABLE} to it, or build the target deform_ops "
        f"(looked for {looked}){why}"
    )


def is_named() -> bool:
    """Whether ``DEFORM_OPS_LIBRARY`` says which library to load."""
    return bool(os.environ.get(_VARIABLE))


def has_library() -> bool:
    """Whether the operators of this process are the library's, not the tensor-operation forms."""
    return hasattr(torch.ops.deform_cpu, "msda")


def load_library() -> None:
    """Registers the operators with PyTorch; does nothing where a loaded library already has.

    Raises:
        LibraryNotFoundError: if there is no library to load.
        OSError: if it doesn't load, for example because it was built for another torch.
    """
    if not hasattr(torch.ops.deform, "msda"):
        torch.ops.load_library(str(find_library()))
