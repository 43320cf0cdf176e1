"""Loads the operator library, and the devices that tests run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

_BUILD = Path(__file__).resolve().parents[2] / "build"
LIBRARY = Path(os.environ.get("DEFORM_OPS_LIBRARY") or _BUILD / "lib" / "libdeform_ops.so")

torch.ops.load_library(str(LIBRARY))

# Generated cases: the same ones on every run, and as many as the environment asks for.
settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=int(os.environ.get("DEFORM_MATRIX_EXAMPLES") or 200),
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
settings.load_profile("deterministic")

_CUDA = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")],
)


_DEVICE_OF = {"deform_cpu": "cpu", "deform_cuda": "cuda", "deform_jit": "cuda"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests of a backend on a device that it isn't made for."""

    def misplaced(item: pytest.Item) -> bool:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        wanted = _DEVICE_OF.get(given.get("backend"))
        return wanted is not None and given.get("device", wanted) != wanted

    left_out = [item for item in items if misplaced(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not misplaced(item)]


@pytest.fixture(params=["cpu", _CUDA])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture(params=[_CUDA])
def cuda(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def library() -> Path:
    return LIBRARY
