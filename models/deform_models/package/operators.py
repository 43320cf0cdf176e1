"""The deformable operators that a package calls: loading them, putting them in, counting them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from deform_models.errors import PackagingError

_LIBRARY = "libdeform_ops.so"
_PUBLIC = "deform::"


def load_operators() -> Path:
    """Registers the `deform::` operators in this process; the library's file."""
    try:
        import deform_ops  # noqa: F401 (loading it registers the operators)
    except (ImportError, OSError) as error:
        raise PackagingError(
            f"deform_ops: can't be loaded ({error}); build {_LIBRARY} and put ops/python on the "
            f"Python path, or name the library in DEFORM_OPS_LIBRARY"
        ) from None
    loaded = [Path(p) for p in torch.ops.loaded_libraries if Path(p).name == _LIBRARY]
    if not loaded or not hasattr(torch.ops.deform, "msda"):
        raise PackagingError(f"deform_ops: {_LIBRARY} didn't register deform::msda")
    return loaded[0]


def put_in_operators(model: nn.Module) -> None:
    """Replaces the model's own deformable attention by the public operator, in place."""
    from deform_ops.integrations.transformers import patch

    patch(model)


def operator_calls(program: torch.export.ExportedProgram) -> Counter[str]:
    """How often an exported program calls each custom operator, by its qualified name."""
    return Counter(
        node.target._schema.name
        for node in program.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace not in ("aten", "prims", "prim", "_operator")
    )


def check_operator_calls(calls: Counter[str], expected: int, where: str) -> list[str]:
    """The names of the public operators in `calls`, which have to be called `expected` times.

    Raises PackagingError otherwise, and for an operator that no server is known to have.
    """
    foreign = sorted(name for name in calls if not name.startswith(_PUBLIC))
    if foreign:
        raise PackagingError(f"{where}: calls {', '.join(foreign)}, which a server doesn't have")
    found = sum(calls.values())
    if found != expected:
        raise PackagingError(
            f"{where}: calls deformable attention {found} times where the network has {expected}"
        )
    return sorted(calls)


def refuse_grid_sampler(program: torch.export.ExportedProgram) -> None:
    """Raises PackagingError if the slow form of deformable attention is still in the program."""
    left = [str(n.target) for n in program.graph.nodes if "grid_sampler" in str(n.target)]
    if left:
        raise PackagingError(f"exported program: {left[0]} is there {len(left)} times")


@contextmanager
def no_public_operators() -> Iterator[None]:
    """A context in which calling a `deform::` operator is a defect: where references are made."""

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
        ) -> Any:
            assert not str(func).startswith("deform"), f"the reference called {func}"
            return func(*args, **(kwargs or {}))

    with Watch():
        yield
