"""The wheel: what it holds, and what it says of itself."""

from __future__ import annotations

import ast
import email
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("setuptools")

SOURCE = Path(__file__).resolve().parents[2] / "ops" / "python"
PACKAGE = SOURCE / "deform_ops"


def copy_of_the_package(folder: Path) -> Path:
    """So that a build leaves the source tree as it is."""
    ignored = shutil.ignore_patterns("lib", "__pycache__", "build", "*.egg-info")
    return Path(shutil.copytree(SOURCE, folder, ignore=ignored))


def build_wheel(source: Path, into: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--disable-pip-version-check", "-w", str(into), str(source)]
    asked = ("DEFORM_EXTENSIONS", "FORCE_CUDA", "TORCH_CUDA_ARCH_LIST")
    inherited = {name: value for name, value in os.environ.items() if name not in asked}
    return subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True)


@pytest.fixture(scope="module", params=[True, False], ids=["with_library", "without_library"])
def wheel(request, tmp_path_factory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    copy_of_the_package(folder / "source")
    if request.param:
        library = folder / "source" / "deform_ops" / "lib" / "libdeform_ops.so"
        library.parent.mkdir()
        library.write_bytes(b"stands for the library")
    done = build_wheel(folder / "source", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("deform_ops-*.whl")
    with zipfile.ZipFile(built) as opened:
        opened.has_library = request.param
        yield opened


def test_wheel_holds_every_module_and_the_type_marker(wheel):
    wanted = {str(path.relative_to(SOURCE)) for path in PACKAGE.rglob("*.py")}
    wanted.add("deform_ops/py.typed")
    if wheel.has_library:
        wanted.add("deform_ops/lib/libdeform_ops.so")
    else:
        wanted.add("deform_ops/lib/not_built.txt")
    held = {name for name in wheel.namelist() if not name.startswith("deform_ops-")}
    assert held == wanted


def test_wheel_with_a_library_is_for_one_platform(wheel):
    tag = Path(wheel.filename).stem.split("-", 2)[2]
    if wheel.has_library:
        assert tag.startswith("py3-none-") and not tag.endswith("-any")
    else:
        assert tag == "py3-none-any"


def test_metadata_names_version_pythons_and_extras(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == version()
    assert metadata["Requires-Python"].replace(" ", "") in ("<3.14,>=3.11", ">=3.11,<3.14")
    extras = {"transformers", "mask2former", "deformable-detr", "mmcv", "torchvision"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert metadata.get_payload().startswith("# deform-ops")


def version() -> str:
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__version__":
            return ast.literal_eval(node.value)
    raise AssertionError("no __version__")


def test_package_imports_nothing_optional_on_its_own(library):
    program = (
        "import sys, deform_ops, deform_ops.nn, deform_ops.registry, deform_ops.models; "
        "import deform_ops.integrations, deform_ops.integrations.torchvision; "
        "print([n for n in ('transformers', 'mmcv', 'torchvision') if n in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "DEFORM_OPS_LIBRARY": str(library)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_readmes_example_runs():
    import torch

    torch.manual_seed(0)
    (block,) = [
        part.split("```")[0] for part in (SOURCE / "README.md").read_text().split("```python\n")[1:]
    ]
    names: dict[str, object] = {}
    exec(block, names)
    assert names["out"].shape == (1, 100, 64)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("deform_ops_setup", SOURCE / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "environment, wanted",
    [
        ({}, ("all", False)),
        ({"FORCE_CUDA": "1"}, ("all", True)),
        ({"FORCE_CUDA": "0"}, ("all", False)),
        ({"DEFORM_EXTENSIONS": "cpu"}, ("cpu", True)),
        ({"DEFORM_EXTENSIONS": "none"}, ("none", True)),
        ({"DEFORM_EXTENSIONS": "msda, conv"}, ("msda, conv", True)),
    ],
    ids=str,
)
def test_variables_say_what_to_build_and_whether_it_must_be(script, environment, wanted):
    assert script.requested_extensions(environment) == wanted


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"DEFORM_EXTENSIONS": "msdb"}, "must be all, cpu, cuda, none, or some of .* names 'msdb'"),
        ({"DEFORM_EXTENSIONS": "msda,"}, "some of msda,attn,conv, but names ''"),
        ({"DEFORM_EXTENSIONS": "msda,cpu"}, "names 'cpu'"),
        ({"DEFORM_EXTENSIONS": "none", "FORCE_CUDA": "1"}, "contradict each other"),
    ],
    ids=str,
)
def test_impossible_requests_are_refused(script, environment, message):
    with pytest.raises(SystemExit, match=message):
        script.requested_extensions(environment)


def test_architectures_are_translated_for_cmake(script):
    translated = script.cmake_architectures("8.0 9.0a;10.0+PTX")
    assert translated == "80-real;90a-real;100-real;100-virtual"
    with pytest.raises(script.CannotBuildError, match="Hopper is not like 9.0"):
        script.cmake_architectures("Hopper")


def test_install_that_was_asked_for_a_library_fails_without_one(tmp_path):
    done = build_wheel(copy_of_the_package(tmp_path / "source"), tmp_path, FORCE_CUDA="1")
    assert done.returncode != 0
    assert (
        "the operator library can't be built: the library's source isn't part"
        in done.stdout + done.stderr
    )


def test_package_repeats_why_its_install_built_no_library(tmp_path):
    source = copy_of_the_package(tmp_path / "source")
    done = build_wheel(source, tmp_path, DEFORM_EXTENSIONS="none")
    assert done.returncode == 0, done.stderr
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        opened.extractall(tmp_path / "site")
    program = (
        "from deform_ops.registry import msda, Backend\n"
        "try: msda.load(Backend.CPU)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "DEFORM_OPS_LIBRARY": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.startswith("KernelNotProvidedError"), done.stderr
    assert done.stdout.strip().endswith("the install built none: DEFORM_EXTENSIONS=none")


def configure(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """CMake's first step for the op library alone, where nothing else can be found."""
    command = ["cmake", "-S", str(SOURCE.parents[1]), "-B", str(folder)]
    command += [f"-DDEFORM_PYTHON={sys.executable}"]
    command += [f"-DDEFORM_BUILD_{part}=OFF" for part in ("SERVER", "CLIENT", "TESTS")]
    absent = ("gRPC", "Protobuf", "GTest", "OpenSSL", "prometheus-cpp")
    command += [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in absent]
    return subprocess.run([*command, *options], capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_library_alone_needs_nothing_of_the_servers(tmp_path):
    done = configure(tmp_path, "-DDEFORM_CUDA=OFF")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cuda_kernels_of_an_unknown_operator_are_refused(tmp_path):
    done = configure(tmp_path, "-DDEFORM_CUDA=OFF", "-DDEFORM_CUDA_OPS=msda;msdb")
    assert done.returncode != 0
    assert "DEFORM_CUDA_OPS: msdb is none of msda;attn;conv" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_wheel_compiles_its_library_from_the_source_tree(tmp_path):
    tree = tmp_path / "tree"
    root = SOURCE.parents[1]
    ignored = shutil.ignore_patterns("lib", "__pycache__", "build", "*.egg-info")
    for name in ("cmake", "ops"):
        shutil.copytree(root / name, tree / name, ignore=ignored)
    shutil.copy(root / "CMakeLists.txt", tree)
    done = build_wheel(tree / "ops" / "python", tmp_path, DEFORM_EXTENSIONS="cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        opened.extractall(tmp_path / "site")
    program = "from deform_ops.registry import msda, Backend; print(msda.load(Backend.CPU).source)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "DEFORM_OPS_LIBRARY": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    library = tmp_path / "site" / "deform_ops" / "lib" / "libdeform_ops.so"
    assert done.stdout.strip() == f"compiled into {library}", done.stderr
