"""Builds the wheel, with the operator library in it wherever that can be compiled.

Reads, at build time: ``DEFORM_EXTENSIONS`` (``all``; ``cpu``, which leaves the GPU's kernels out;
``cuda``, the same as ``all``; ``none``; or operators, as in ``msda,conv``, for which alone kernels
for GPUs are compiled), ``TORCH_CUDA_ARCH_LIST`` (as in ``8.0;9.0+PTX``) and ``FORCE_CUDA``. Where
nothing asks for the library by name and it can't be built, the wheel is one of Python alone, and
says why.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
LIBRARY = Path("deform_ops") / "lib" / "libdeform_ops.so"
REASON = Path("deform_ops") / "lib" / "not_built.txt"
EXTENSIONS = ("all", "cpu", "cuda", "none")
OPERATORS = ("msda", "attn", "conv")


class CannotBuildError(Exception):
    """Why there will be no library, or none with GPU kernels."""


def requested_extensions(environment: dict[str, str]) -> tuple[str, bool]:
    """What to build, one of EXTENSIONS or some of OPERATORS, and whether failing to is an error.

    Raises:
        SystemExit: if ``DEFORM_EXTENSIONS`` is something else.
    """
    forced = environment.get("FORCE_CUDA") == "1"
    named = environment.get("DEFORM_EXTENSIONS", "").strip()
    if named and named not in EXTENSIONS:
        wrong = [name for name in operators_of(named) if name not in OPERATORS]
        if wrong:
            raise SystemExit(
                f"DEFORM_EXTENSIONS must be {', '.join(EXTENSIONS)}, or some of "
                f"{','.join(OPERATORS)}, but names {wrong[0]!r}"
            )
    if forced and named in ("cpu", "none"):
        raise SystemExit(f"FORCE_CUDA=1 and DEFORM_EXTENSIONS={named} contradict each other")
    return named or "all", forced or bool(named)


def operators_of(extensions: str) -> list[str]:
    """The operators that ``DEFORM_EXTENSIONS`` lists."""
    return [name.strip() for name in extensions.split(",")]


def cmake_architectures(arch_list: str) -> str:
    """``TORCH_CUDA_ARCH_LIST`` for CMake: ``9.0a;8.0+PTX`` is ``90a-real;80-real;80-virtual``.

    Raises:
        CannotBuildError: on an entry that isn't a compute capability.
    """
    architectures = []
    for entry in re.split(r"[;,\s]+", arch_list.strip()):
        match = re.fullmatch(r"(\d+)\.(\d)(a?)(\+PTX)?", entry)
        if match is None:
            raise CannotBuildError(f"TORCH_CUDA_ARCH_LIST: {entry} is not like 9.0 or 9.0+PTX")
        name = match[1] + match[2] + match[3]
        architectures.append(f"{name}-real")
        if match[4]:
            architectures.append(f"{name}-virtual")
    return ";".join(architectures)


def build_library(extensions: str, gpu_required: bool, folder: Path) -> Path:
    """Compiles the library from the source tree that this file lies in; returns its file.

    Raises:
        CannotBuildError: if something is missing, or the compile fails.
    """
    source = HERE.parent.parent
    if not (source / "ops" / "CMakeLists.txt").is_file():
        raise CannotBuildError("the library's source isn't part of this copy of the package")
    if importlib.util.find_spec("torch") is None:
        raise CannotBuildError(
            "torch isn't visible to the build: install it first, and build with "
            "--no-build-isolation"
        )
    cmake = shutil.which("cmake")
    if cmake is None:
        raise CannotBuildError("cmake isn't on the path")
    configure = [cmake, "-S", str(source), "-B", str(folder), f"-DDEFORM_PYTHON={sys.executable}"]
    configure += [f"-DDEFORM_BUILD_{part}=OFF" for part in ("SERVER", "CLIENT", "TESTS")]
    configure += ["-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DDEFORM_CUDA={'OFF' if extensions == 'cpu' else 'ON'}"]
    if extensions not in EXTENSIONS:
        configure += [f"-DDEFORM_CUDA_OPS={';'.join(operators_of(extensions))}"]
    if os.environ.get("TORCH_CUDA_ARCH_LIST") and extensions != "cpu":
        architectures = cmake_architectures(os.environ["TORCH_CUDA_ARCH_LIST"])
        configure += [f"-DDEFORM_CUDA_ARCHITECTURES={architectures}"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    run(configure)
    cache = (folder / "CMakeCache.txt").read_text()
    has_gpu = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(?!.*NOTFOUND$).+$", cache, re.MULTILINE)
    if gpu_required and not has_gpu:
        raise CannotBuildError("there is no CUDA compiler: put nvcc on the path, or set CUDACXX")
    run([cmake, "--build", str(folder), "--target", "deform_ops", "--parallel"])
    return folder / "lib" / LIBRARY.name


def run(command: list[str]) -> None:
    """Runs a command.

    Raises:
        CannotBuildError: with the end of what it printed, if it fails.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise CannotBuildError(f"{' '.join(command[:3])} … failed:\n{done.stdout[-2000:]}")


class BuildWithLibrary(build_py):
    """Adds the library, or the reason why there is none, to the built package."""

    def run(self) -> None:
        """Runs the command."""
        super().run()
        # One that was put there by hand is a package's data already.
        if self.editable_mode or (HERE / LIBRARY).is_file():
            return
        target = Path(self.build_lib)
        (target / LIBRARY).parent.mkdir(parents=True, exist_ok=True)
        extensions, must = requested_extensions(dict(os.environ))
        try:
            if extensions == "none":
                raise CannotBuildError("DEFORM_EXTENSIONS=none")
            folder = target.resolve().parent / "deform_ops_cmake"
            built = build_library(extensions, must and extensions != "cpu", folder)
            shutil.copyfile(built, target / LIBRARY)
        except CannotBuildError as error:
            if must and extensions != "none":
                raise SystemExit(f"the operator library can't be built: {error}") from None
            print(f"deform-ops without its operator library: {error}", file=sys.stderr)
            (target / REASON).write_text(f"{error}\n")


class WheelForItsPlatform(bdist_wheel):
    """A wheel with the library runs on one platform, on every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, ABI and platform."""
        if not (Path(self.bdist_dir) / LIBRARY).is_file():
            return "py3", "none", "any"
        return "py3", "none", re.sub(r"[-.]", "_", sysconfig.get_platform())


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForItsPlatform})
