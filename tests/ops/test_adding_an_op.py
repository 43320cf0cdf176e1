"""docs/adding_an_op.md, done: in a copy of the tree, which builds and passes its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "docs" / "adding_an_op.md"
BUILD = Path(os.environ.get("DEFORM_BUILD_DIR") or ROOT / "build")
_BLOCK = re.compile(
    r"(?:^`(?P<path>[\w./]+)`\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


def steps(recipe: str) -> list[tuple[str, str, str]]:
    """Path, kind and text of each file and change; a block without a path goes on with the last."""
    found, path = [], ""
    for block in _BLOCK.finditer(recipe):
        path = block["path"] or path
        found.append((path, block["kind"], block["text"]))
    return found


def change(text: str, diff: str) -> str:
    """``text`` with the lines of ``diff`` that start with - replaced by those that start with +."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if not line.startswith("+"))
    new = "".join(line[1:] for line in lines if not line.startswith("-"))
    assert text.count(old) == 1, f"{old!r} isn't there once"
    return text.replace(old, new)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of what the recipe touches, with its steps done."""
    copy = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("lib", "__pycache__", "build", "*.egg-info")
    for folder in ("cmake", "ops", "tests/ops"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for file in ("CMakeLists.txt", "pytest.ini", "docs/adding_an_op.md"):
        (copy / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, copy / file)
    for path, kind, text in steps(RECIPE.read_text()):
        file = copy / path
        if kind == "diff":
            file.write_text(change(file.read_text(), text))
        else:
            assert not file.exists(), f"{path} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return copy


def cached(name: str, default: str = "") -> str:
    """A setting of the build that these tests run against."""
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else default


def test_every_block_has_a_path_inside_the_tree():
    paths = {path for path, _, _ in steps(RECIPE.read_text())}
    assert "" not in paths and len(paths) == 12
    assert all(path.split("/")[0] in ("ops", "tests") for path in paths)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
@pytest.mark.skipif(not (BUILD / "CMakeCache.txt").is_file(), reason="no build folder to follow")
def test_recipe_builds_and_passes_its_tests(tree):
    build = tree / "build"
    # As the build at hand, so that a compiler cache has what the recipe leaves alone.
    kept = ("CMAKE_BUILD_TYPE", "CMAKE_GENERATOR", "DEFORM_CUDA", "DEFORM_CUDA_ARCHITECTURES")
    options = [f"-D{name}={cached(name)}" for name in kept if cached(name)]
    options += [f"-DDEFORM_BUILD_{part}=OFF" for part in ("SERVER", "CLIENT", "TESTS")]
    options += [f"-DDEFORM_PYTHON={sys.executable}"]
    cache = {
        "CCACHE_BASEDIR": str(tree),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
    }
    generator = cached("CMAKE_GENERATOR", "Unix Makefiles")
    run("cmake", "-G", generator, "-S", tree, "-B", build, *options, cwd=tree, **cache)
    run("cmake", "--build", build, "--target", "deform_ops", "--parallel", "2", cwd=tree, **cache)
    library = build / "lib" / "libdeform_ops.so"
    environment = {
        "DEFORM_OPS_LIBRARY": str(library),
        "PYTHONPATH": str(tree / "ops" / "python"),
        "DEFORM_MATRIX_EXAMPLES": "20",
    }
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    tests = tree / "tests" / "ops"
    assert "passed" in run(*pytest_, "test_points.py", cwd=tests, **environment)
    assert "passed" in run(*pytest_, "test_msda_matrix.py", cwd=tests, **environment)
