"""The operators as callables that select a backend, or take one by name.

``msda``, ``attn`` and ``conv`` here are the callables; the modules of the same names hold their
classes and ``select_backend``.
"""

from __future__ import annotations

from deform_ops.registry.attn import Attn, attn
from deform_ops.registry.backend import Backend, Method
from deform_ops.registry.conv import Conv, conv
from deform_ops.registry.msda import Msda, msda
from deform_ops.registry.operator import LoadedBackend
from deform_ops.registry.selection import (
    CallContext,
    Resolution,
    enable_backend,
    select_backend,
)

__all__ = [
    "Attn",
    "Backend",
    "CallContext",
    "Conv",
    "LoadedBackend",
    "Method",
    "Msda",
    "Resolution",
    "attn",
    "conv",
    "enable_backend",
    "msda",
    "select_backend",
]
