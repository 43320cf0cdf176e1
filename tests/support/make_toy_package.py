"""Compiles a small network with one custom operator for tests of the engine, once.

    make_toy_package.py --ops libtoy_ops.so --out FOLDER

FOLDER gets `toy.pt2`, damaged copies of it under `damaged/`, and raw little-endian float32 files:
`pixel_values` [8, 3, 8, 8], and for each batch b of 1 to 8 `classes_b` [b, 4, 3] and `masks_b`
[b, 4, 2, 2] as Python's AOTInductor computes them, `eager_classes` and `eager_masks` as the
uncompiled network does for batch 8. Nothing is done when FOLDER was made by this script, from
this version of torch and this operator library's source.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

MAX_BATCH = 8
METADATA = "_metadata.json"


def stamp_of(script: Path) -> str:
    """What the package is made from; told without importing torch, which takes seconds."""
    sources = script.read_bytes() + (script.parent / "toy_ops.cc").read_bytes()
    return f"{version('torch')} {hashlib.sha256(sources).hexdigest()}"


def compile_toy(ops: Path, out: Path) -> None:
    """Writes `toy.pt2` and the values to compare with."""
    import torch
    from torch import nn

    class Toy(nn.Module):
        """pixel_values [B, 3, 8, 8] → classes [B, 4, 3], masks [B, 4, 2, 2]."""

        def __init__(self) -> None:
            super().__init__()
            self.to_masks = nn.Conv2d(3, 4, kernel_size=4, stride=4)
            self.to_classes = nn.Linear(3, 12)

        def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scaled = torch.ops.toy.scale(pixel_values, 0.5)
            classes = self.to_classes(scaled.mean(dim=(2, 3))).reshape(-1, 4, 3)
            return classes, self.to_masks(scaled).relu()

    def save(name: str, tensor: torch.Tensor) -> None:
        (out / name).write_bytes(tensor.contiguous().numpy().tobytes())

    torch.ops.load_library(str(ops))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # The package names no torch library: it finds torch's functions among those of the program.
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)

    toy = Toy().eval()
    pixel_values = torch.randn(MAX_BATCH, 3, 8, 8)
    with torch.no_grad():
        exported = torch.export.export(
            toy,
            (pixel_values[:2],),
            dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=MAX_BATCH)},),
        )
        path = torch._inductor.aoti_compile_and_package(
            exported,
            package_path=str(out / "toy.pt2"),
            inductor_configs={
                "aot_inductor.link_libtorch": False,
                "aot_inductor.check_lowerbound": False,
                "cpp.dynamic_threads": True,
            },
        )
        loaded = torch._inductor.aoti_load_package(path)
        save("pixel_values", pixel_values)
        for batch in range(1, MAX_BATCH + 1):
            classes, masks = loaded(pixel_values[:batch].clone())
            save(f"classes_{batch}", classes)
            save(f"masks_{batch}", masks)
        classes, masks = toy(pixel_values)
        save("eager_classes", classes)
        save("eager_masks", masks)


def copy_archive(source: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Copies an archive; `change(name, bytes)` gives the new bytes, or None to leave one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            data = change(entry.filename, old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)


def with_metadata(source: Path, target: Path, **values: str) -> None:
    def change(name: str, data: bytes) -> bytes:
        if not name.endswith(METADATA):
            return data
        return json.dumps(json.loads(data) | values).encode()

    copy_archive(source, target, change)


def damage(toy: Path, out: Path) -> None:
    """Writes what a package may hold in place of a network that runs here."""
    out.mkdir()
    data = toy.read_bytes()
    noise = random.Random(0).randbytes
    (out / "empty_file.pt2").write_bytes(b"")
    (out / "half.pt2").write_bytes(data[: len(data) // 2])
    (out / "random.pt2").write_bytes(noise(100_000))
    zipfile.ZipFile(out / "empty_archive.pt2", "w").close()
    with zipfile.ZipFile(out / "other_archive.pt2", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with zipfile.ZipFile(out / "other_archive_of_two.pt2", "w") as archive:
        archive.writestr("a/readme.txt", "hello")
        archive.writestr("a/b/c.txt", "hello")
    copy_archive(toy, out / "no_network.pt2", lambda n, d: None if "aotinductor" in n else d)
    copy_archive(toy, out / "source_only.pt2", lambda n, d: None if n.endswith(".so") else d)
    copy_archive(toy, out / "no_metadata.pt2", lambda n, d: None if n.endswith(METADATA) else d)
    copy_archive(
        toy, out / "text_metadata.pt2", lambda n, d: b"text" if n.endswith(METADATA) else d
    )
    copy_archive(
        toy, out / "random_library.pt2", lambda n, d: noise(50_000) if n.endswith(".so") else d
    )
    copy_archive(
        toy, out / "half_library.pt2", lambda n, d: d[: len(d) // 2] if n.endswith(".so") else d
    )
    other_library = Path("/lib/x86_64-linux-gnu/libz.so.1").read_bytes()  # whole, but no network
    copy_archive(
        toy, out / "other_library.pt2", lambda n, d: other_library if n.endswith(".so") else d
    )
    with_metadata(toy, out / "isa_lacked.pt2", AOTI_CPU_ISA="AVX1024")
    with_metadata(toy, out / "isa_unnamed.pt2", AOTI_CPU_ISA="")
    with_metadata(toy, out / "device_cuda.pt2", AOTI_DEVICE_KEY="cuda")
    with_metadata(toy, out / "machine_arm.pt2", AOTI_MACHINE="aarch64")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    stamp = stamp_of(Path(__file__))
    stamp_file = arguments.out / "stamp"
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        print("the toy package is up to date")
        return
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    # A compiler that links libstdc++ statically makes packages that crash when loaded.
    os.environ.setdefault("CXX", "/usr/bin/g++")
    os.environ.setdefault("CC", "/usr/bin/gcc")
    compile_toy(arguments.ops, arguments.out)
    damage(arguments.out / "toy.pt2", arguments.out / "damaged")
    stamp_file.write_text(stamp)


if __name__ == "__main__":
    main()
