"""Finds and loads the operator library, once a process."""

from __future__ import annotations

import os
from pathlib import Path

import torch

_NAME = "libdeform_ops.so"
_VARIABLE = "DEFORM_OPS_LIBRARY"


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
    raise LibraryNotFoundError(
        f"{_NAME} not found: set {_VARIABLE} to it, or build the target deform_ops "
        f"(looked for {looked})"
    )


def load_library() -> None:
    """Registers the operators with PyTorch; does nothing where a loaded library already has.

    Raises:
        LibraryNotFoundError: if there is no library to load.
        OSError: if it doesn't load, for example because it was built for another torch.
    """
    if not hasattr(torch.ops.deform, "msda"):
        torch.ops.load_library(str(find_library()))
