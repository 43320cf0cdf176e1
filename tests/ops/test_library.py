"""The built library: what it needs to load, how Python finds it, and what its objects hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "ops" / "python"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_library_needs_no_cuda_library(library):
    """It also loads beside the CPU half of torch alone, as the server does on a CPU machine."""
    listing = run("readelf", "-d", str(library), LC_ALL="C")
    assert listing.returncode == 0, listing.stderr
    needed = re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", listing.stdout)
    assert "libtorch_cpu.so" in needed
    assert not [name for name in needed if re.search("cuda|cudart|nvrtc|torch_python", name)]


def test_kernel_objects_share_no_function_among_instruction_sets():
    """A function with external linkage could be merged into code for lesser processors."""
    build = os.environ.get("DEFORM_BUILD_DIR")
    if not build:
        pytest.skip("DEFORM_BUILD_DIR names no build folder")
    objects = sorted(Path(build).glob("ops/**/kernels/**/*_avx*.cpp.o"))
    assert len(objects) >= 2
    for path in objects:
        listing = run("nm", "--defined-only", "--demangle", str(path))
        assert listing.returncode == 0, listing.stderr
        symbols = re.findall(r"^[0-9a-f]+ (\w) (.+)$", listing.stdout, re.MULTILINE)
        shared = [name for kind, name in symbols if kind.isupper()]
        instructions = path.name.removesuffix(".cpp.o").rpartition("_")[2]
        entry = re.compile(rf"deform::kernels::\w+_cpu_{instructions}")
        assert shared
        assert [name for name in shared if not entry.fullmatch(name.partition("(")[0])] == []


def import_package(**environment: str) -> subprocess.CompletedProcess[str]:
    program = "import deform_ops; print(deform_ops.find_library())"
    return run(sys.executable, "-c", program, PYTHONPATH=str(PACKAGE), **environment)


def test_package_loads_the_library_that_the_environment_names(library):
    done = import_package(DEFORM_OPS_LIBRARY=str(library))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == library


def test_package_says_which_variable_names_a_missing_library(tmp_path):
    done = import_package(DEFORM_OPS_LIBRARY=str(tmp_path / "nothing.so"))
    assert done.returncode != 0
    assert "LibraryNotFoundError: DEFORM_OPS_LIBRARY=" in done.stderr
    assert "is not a file" in done.stderr


def test_package_without_a_library_says_where_it_looked(tmp_path):
    (tmp_path / "deform_ops").mkdir()
    for name in ("__init__", "library", "functional"):
        source = PACKAGE / "deform_ops" / f"{name}.py"
        (tmp_path / "deform_ops" / f"{name}.py").write_text(source.read_text())
    done = run(
        sys.executable, "-c", "import deform_ops", PYTHONPATH=str(tmp_path), DEFORM_OPS_LIBRARY=""
    )
    assert done.returncode != 0
    assert "libdeform_ops.so not found: set DEFORM_OPS_LIBRARY" in done.stderr
    assert str(tmp_path / "deform_ops" / "lib") in done.stderr


def test_typed_functions_call_the_operators(library):
    program = """
import torch, deform_ops
value, table = torch.ones(1, 4, 1, 2), (torch.tensor([[2, 2]]), torch.tensor([0]))
centre, weight = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.full((1, 1, 1, 1), 3.0)
print(deform_ops.msda(value, *table, centre, weight).tolist())
print(deform_ops.msda_softmax(value, *table, centre, weight).tolist())
"""
    done = run(
        sys.executable, "-c", program, PYTHONPATH=str(PACKAGE), DEFORM_OPS_LIBRARY=str(library)
    )
    assert done.stdout.splitlines() == ["[[[3.0, 3.0]]]", "[[[1.0, 1.0]]]"], done.stderr
