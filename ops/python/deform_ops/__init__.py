"""Deformable operators for PyTorch.

Importing the package loads ``libdeform_ops.so``, which registers ``torch.ops.deform`` and its
backends; see :func:`deform_ops.library.find_library` for where the file is looked for. Where there
is none, the operators are registered in their tensor-operation form alone.
"""

from __future__ import annotations

from deform_ops.library import LibraryNotFoundError, find_library, is_named, load_library

__version__ = "0.1.0"

try:
    load_library()
except LibraryNotFoundError:
    # A library that was named and isn't there is a mistake; none at all is an install without one.
    if is_named():
        raise
    from deform_ops.eager.register import register

    register()

from deform_ops.functional import msda, msda_softmax  # noqa: E402  (needs the operators)

__all__ = [
    "LibraryNotFoundError",
    "__version__",
    "find_library",
    "load_library",
    "msda",
    "msda_softmax",
]
