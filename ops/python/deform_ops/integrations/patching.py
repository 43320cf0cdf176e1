"""What the integrations share: replacing modules by class, and the level table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deform_ops.errors import NothingPatchedError
from deform_ops.registry import Backend
from deform_ops.registry.backend import check_backend

__all__ = ["level_starts", "patch_classes"]


def patch_classes(
    model: nn.Module,
    replacement_of: Callable[[nn.Module], type[nn.Module] | None],
    *,
    backend: Backend | None,
    strict: bool,
    wanted: str,
) -> int:
    """Gives modules of ``model`` another class, in place.

    A replacement adds a forward and the attribute ``backend``, no other state, so that parameters,
    hooks and the state dict stay as they are.

    Args:
        model: itself one of its modules.
        replacement_of: the new class of a module; its own where it is patched already; None to
            leave it alone.
        backend: what the replaced modules compute with.
        strict: whether replacing nothing is an error.
        wanted: names what is looked for, in that error.

    Returns:
        How many modules are of a new class now.

    Raises:
        NothingPatchedError: if ``strict`` and there is nothing to replace.
    """
    check_backend(backend)
    patched = 0
    for module in model.modules():
        replacement = replacement_of(module)
        if replacement is not None:
            changed: Any = module
            changed.__class__ = replacement
            changed.backend = backend
            patched += 1
    if strict and patched == 0:
        raise NothingPatchedError(
            f"{type(model).__name__} has no deformable attention of {wanted} to replace; the "
            f"installed version may name it otherwise (strict=False accepts such a model)"
        )
    return patched


def level_starts(spatial_shapes: Tensor) -> Tensor:
    """(L,): first row of each level, where levels of (L, 2) sizes lie one after the other."""
    sizes = spatial_shapes.prod(1)
    return torch.cumsum(sizes, 0) - sizes
