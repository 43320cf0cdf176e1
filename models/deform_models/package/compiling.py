"""Exported program to `.pt2`, and a look at what came out."""

from __future__ import annotations

import json
import tempfile
import time
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from deform_models.errors import PackagingError
from deform_models.package import operators, toolchain
from deform_models.package.exporting import Exported
from deform_models.package.target import Target

INDUCTOR_OPTIONS = {
    # Else the package looks for libtorch.so by name on the server's library path.
    "aot_inductor.link_libtorch": False,
    # Else a batch of 1 is refused when inputs are checked.
    "aot_inductor.check_lowerbound": False,
    # Else the number of threads of this machine is compiled in.
    "cpp.dynamic_threads": True,
}


@dataclass(frozen=True)
class Compiled:
    """An artifact on disk."""

    path: Path
    compile_seconds: float


def compile_program(exported: Exported, target: Target, folder: Path) -> Compiled:
    """Compiles `exported` into `folder` for `target`; minutes on few cores."""
    path = folder / target.file_name
    options = {
        **INDUCTOR_OPTIONS,
        "aot_inductor.metadata": {"DEFORM_OPERATORS": " ".join(exported.operators)},
    }
    began = time.monotonic()
    try:
        with torch.no_grad(), toolchain.instruction_set(target.host_isa):
            torch._inductor.aoti_compile_and_package(
                exported.program, package_path=str(path), inductor_configs=options
            )
    except torch._inductor.exc.CppCompileError as error:
        raise PackagingError(f"compile: {' '.join(str(error).split())[:2000]}") from None
    return Compiled(path, time.monotonic() - began)


def check_artifact(compiled: Path, target: Target, expected_calls: int) -> None:
    """Raises PackagingError unless the artifact is what `target` says and a server can load it."""
    with zipfile.ZipFile(compiled) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        metadata = _metadata(archive, names)
        _check_metadata(metadata, target)
        calls: Counter[str] = Counter()
        for name in names:
            if name.endswith(".wrapper.json"):
                nodes = json.loads(archive.read(name))["nodes"]
                calls.update(node["node"]["target"] for node in nodes)
            elif name.endswith(".so"):
                toolchain.check_shared_object(Path(archive.extract(name, folder)))
            elif name.endswith(".cpp") and target.host_isa is not None:
                if b"-march=native" in archive.read(name):
                    raise PackagingError(
                        "compile: host code was made for this machine's processor alone"
                    )
    operators.check_operator_calls(calls, expected_calls, "compile")


def _metadata(archive: zipfile.ZipFile, names: list[str]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for name in names:
        if name.endswith("wrapper_metadata.json"):
            merged.update(json.loads(archive.read(name)))
    return merged


def _check_metadata(metadata: dict[str, str], target: Target) -> None:
    wanted = {"AOTI_DEVICE_KEY": target.device}
    if target.isa is not None:
        wanted["AOTI_CPU_ISA"] = target.isa.upper()
    if target.sm is not None:
        wanted["AOTI_COMPUTE_CAPABILITY"] = target.sm
    for key, value in wanted.items():
        if metadata.get(key) != value:
            raise PackagingError(f"compile: {key} is {metadata.get(key)}, asked for was {value}")
