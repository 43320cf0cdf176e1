"""The packaged shapes network against the same checkpoint in Hugging Face eager, without a server.

Both run in this process on the same input; medians in milliseconds. Two eager forms: as published
(grid_sample), and with the op library patched in.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def median_ms(run: Callable[[], object], rounds: int) -> float:
    """Median time of `run` after two warm-ups."""
    for _ in range(2):
        run()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def main() -> None:
    """Prints the table; with --json writes it too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--package", type=Path, default=ROOT / "model_repository/shapes/1")
    arguments = parser.parse_args()

    # A package finds torch's functions in the process, where Python keeps them private.
    ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libtorch_cpu.so"), mode=ctypes.RTLD_GLOBAL)
    import deform_ops  # noqa: F401  (loads the op library, which the package calls)
    from deform_ops.integrations.transformers import patch
    from transformers import Mask2FormerForUniversalSegmentation

    checkpoint = ROOT / "models/deform_models/shapes/weights"
    plain = Mask2FormerForUniversalSegmentation.from_pretrained(checkpoint, dtype=torch.float32)
    plain.eval()
    fused = Mask2FormerForUniversalSegmentation.from_pretrained(checkpoint, dtype=torch.float32)
    patch(fused.eval())
    manifest = json.loads((arguments.package / "package.json").read_text())
    packaged = torch._inductor.aoti_load_package(
        str(arguments.package / manifest["artifacts"][0]["file"])
    )
    rows = []
    print(f"{torch.get_num_threads()} threads of {os.cpu_count()} CPUs, float32")
    names = ["batch", "HF eager ms", "patched ms", "package ms", "speed-up"]
    print("  ".join(f"{name:>12}" for name in names))
    for batch in arguments.batch:
        pixels = torch.randn(batch, 3, 256, 256, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            row = {
                "batch": batch,
                "hugging_face_ms": median_ms(
                    lambda p=pixels: plain(pixel_values=p), arguments.rounds
                ),
                "patched_ms": median_ms(lambda p=pixels: fused(pixel_values=p), arguments.rounds),
                "package_ms": median_ms(lambda p=pixels: packaged(p), arguments.rounds),
            }
        row["speed_up"] = row["hugging_face_ms"] / row["package_ms"]
        rows.append(row)
        cells = [f"{batch}"] + [f"{row[key]:.1f}" for key in list(row)[1:4]]
        print("  ".join(f"{cell:>12}" for cell in [*cells, f"{row['speed_up']:.2f} x"]))
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"threads": torch.get_num_threads(), "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
