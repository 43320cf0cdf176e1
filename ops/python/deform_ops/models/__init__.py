"""Whole models of transformers that run their deformable attention through the operators.

A model is imported when it is first asked for, so that one family's modules come alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deform_ops.models.deformable_detr import DeformableDETR
    from deform_ops.models.mask2former import Mask2Former

__all__ = ["DeformableDETR", "Mask2Former"]

_MODULE_OF = {"DeformableDETR": "deformable_detr", "Mask2Former": "mask2former"}


def __getattr__(name: str) -> Any:
    """The model of that name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
