"""The C++ compiler behind a package, and the instruction set that it may use."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch._inductor import cpp_builder, cpu_vec_isa

from deform_models.errors import PackagingError

_DISTRIBUTION = {"CXX": "/usr/bin/g++", "CC": "/usr/bin/gcc"}
# The psABI levels hold what torch means by these two names, and nothing that only some have.
MARCH = {"avx2": "march=x86-64-v3", "avx512": "march=x86-64-v4"}


def choose_compiler() -> str | None:
    """Points CXX and CC at the distribution's compiler where they are unset; a warning or None.

    A compiler that links libstdc++ into what it builds makes packages that crash when they are
    loaded; others than the distribution's often do. Raises PackagingError if there is none.
    """
    if platform.system() != "Linux":
        return None
    for variable, path in _DISTRIBUTION.items():
        if not os.environ.get(variable) and Path(path).exists():
            os.environ[variable] = path
    compiler = os.environ.get("CXX") or "g++"
    found = shutil.which(compiler)
    if found is None:
        raise PackagingError(f"CXX: there is no compiler {compiler}; install g++")
    if Path(found).resolve() != Path(_DISTRIBUTION["CXX"]).resolve():
        return (
            f"CXX is {compiler}, not the distribution's {_DISTRIBUTION['CXX']}: "
            "the package is refused if that links libstdc++ statically"
        )
    return None


def compiler_version() -> str:
    """First line of the compiler's version text."""
    command = [os.environ.get("CXX") or "g++", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]


@contextmanager
def instruction_set(isa: str | None) -> Iterator[None]:
    """A context in which generated host code uses `isa` ("avx2", "avx512") and no more.

    Left alone, inductor compiles for the very processor that it runs on; and it finds no vector
    instructions at all where generated code isn't linked to libtorch, as its probe then fails to
    load. None leaves it alone.
    """
    if isa is None:
        yield
        return
    flags = cpp_builder._get_optimization_cflags
    listed = cpu_vec_isa.valid_vec_isa_list

    def portable_flags(*args: object, **kwargs: object) -> tuple[list[str], list[str]]:
        compile_flags, link_flags = flags(*args, **kwargs)
        return [MARCH[isa] if f == "march=native" else f for f in compile_flags], link_flags

    cpp_builder._get_optimization_cflags = portable_flags
    cpu_vec_isa.valid_vec_isa_list = lambda: [_plain(isa)]
    try:
        yield
    finally:
        cpp_builder._get_optimization_cflags = flags
        cpu_vec_isa.valid_vec_isa_list = listed


def _plain(isa: str) -> cpu_vec_isa.VecISA:
    """Inductor's class for `isa`, without its probe and without extensions of this processor."""
    base = {"avx2": cpu_vec_isa.VecAVX2, "avx512": cpu_vec_isa.VecAVX512}[isa]

    class Plain(base):
        __hash__ = cpu_vec_isa.VecISA.__hash__

        def __bool__(self) -> bool:
            return True

        def build_arch_flags(self) -> str:
            return self._arch_flags

    return Plain()


def check_shared_object(path: Path) -> None:
    """Raises PackagingError if a package's library couldn't be loaded by a server.

    It has to take libstdc++ from the system, and must not ask for libtorch by name: the server
    has that one loaded already, wherever it is.
    """
    if sys.platform != "linux":
        return
    command = ["readelf", "--dynamic", "--wide", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[-1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]
    if not any(name.startswith("libstdc++.so") for name in needed):
        raise PackagingError(
            f"CXX: {os.environ.get('CXX')} linked libstdc++ statically, and such a package crashes "
            f"when it is loaded; set CXX={_DISTRIBUTION['CXX']} and CC={_DISTRIBUTION['CC']}"
        )
    torch_libraries = [name for name in needed if name.startswith(("libtorch", "libc10"))]
    if torch_libraries:
        raise PackagingError(f"compile: the package asks for {', '.join(torch_libraries)} by name")
