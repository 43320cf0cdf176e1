"""Who may include whom in the C++ code: the arrows of docs/architecture.md, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "server"

# A folder may include itself, what stands here, and base.
ALLOWED = {
    "base": set(),
    "engine": set(),
    "engine/aoti": {"engine"},
    "lifecycle": {"engine"},
    "batching": set(),
    "pipeline": {"engine"},
    "serving": {"batching", "lifecycle", "pipeline", "engine"},
    "rpc": {"serving", "lifecycle", "pipeline", "engine"},
    "http": {"serving", "lifecycle"},
    "app": {"rpc", "http", "serving", "lifecycle", "engine", "engine/aoti", "pipeline", "batching"},
}
GRPC_FOLDERS = {"rpc", "app"}  # app wires the services and reads its config message
TORCH_FOLDERS = {"pipeline", "engine/aoti"}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
SOURCES = {".h", ".cc", ".cpp", ".cu", ".cuh"}


def folder_of(path: str) -> str | None:
    """The server folder that an include path or a file's path below server/ belongs to."""
    for folder in sorted(ALLOWED, key=len, reverse=True):
        if path.startswith(folder + "/"):
            return folder
    return None


def includes(path: Path) -> list[str]:
    return INCLUDE.findall(path.read_text())


def sources(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCES)


def violations(relative: str, included: list[str]) -> list[str]:
    """The includes of one file below server/ that no arrow allows."""
    folder = folder_of(relative)
    assert folder is not None, f"{relative} is in no known folder"
    found = []
    for name in included:
        target = folder_of(name)
        if target not in (None, folder, "base") and target not in ALLOWED[folder]:
            found.append(f"{relative} ({folder}) includes {name} ({target})")
        if name.startswith(("grpc", "google/protobuf")) or name.endswith(".pb.h"):
            if folder not in GRPC_FOLDERS:
                found.append(f"{relative} ({folder}) includes {name}: gRPC belongs to rpc")
        if name.startswith(("torch/", "ATen/", "c10/")) and folder not in TORCH_FOLDERS:
            found.append(f"{relative} ({folder}) includes {name}: torch belongs to the engine")
    return found


def test_server_folders_include_only_along_the_arrows():
    found = []
    for path in sources(SERVER):
        relative = path.relative_to(SERVER).as_posix()
        found += violations(relative, includes(path))
    assert not found, "\n".join(found)


def test_server_never_includes_the_op_library():
    found = [
        f"{path}: {name}"
        for path in sources(SERVER)
        for name in includes(path)
        if name.startswith(("ops/", "msda/", "deform_ops"))
    ]
    assert not found, "\n".join(found)


def test_pipeline_and_serving_headers_hold_no_torch():
    found = [
        f"{path}: {name}"
        for path in sources(SERVER)
        if path.suffix == ".h"
        for name in includes(path)
        if name.startswith(("torch/", "ATen/", "c10/"))
    ]
    private = [f for f in found if "/engine/aoti/" not in f and "/pipeline/" not in f]
    assert not private, "\n".join(private)


def test_kernels_know_no_framework():
    found = [
        f"{path}: {name}"
        for path in sources(ROOT / "ops" / "kernels")
        for name in includes(path)
        if name.startswith(("torch/", "ATen/", "c10/"))
    ]
    assert sources(ROOT / "ops" / "kernels"), "no kernel sources found"
    assert not found, "\n".join(found)


def test_ops_include_neither_grpc_nor_the_server():
    found = [
        f"{path}: {name}"
        for path in sources(ROOT / "ops")
        for name in includes(path)
        if name.startswith(("grpc", "google/protobuf")) or folder_of(name)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "included"),
    [
        ("batching/queue.cc", "serving/predictor.h"),
        ("pipeline/decode.cc", "rpc/status.h"),
        ("engine/model.cc", "engine/aoti/aoti_loader.h"),
        ("serving/predictor.cc", "grpcpp/grpcpp.h"),
        ("serving/predictor.cc", "ATen/ATen.h"),
    ],
)
def test_a_forbidden_arrow_is_seen(file: str, included: str):
    assert violations(file, [included])


def test_an_allowed_arrow_is_left_alone():
    assert not violations("serving/predictor.cc", ["pipeline/picture.h", "base/clock.h", "vector"])
