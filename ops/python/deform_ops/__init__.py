"""Deformable operators for PyTorch.

Importing the package loads ``libdeform_ops.so``, which registers ``torch.ops.deform`` and its
backends; see :func:`deform_ops.library.find_library` for where the file is looked for.
"""

from __future__ import annotations

from deform_ops.library import LibraryNotFoundError, find_library, load_library

load_library()

from deform_ops.functional import msda, msda_softmax  # noqa: E402  (needs the loaded library)

__all__ = ["LibraryNotFoundError", "find_library", "load_library", "msda", "msda_softmax"]
