"""msda and msda_softmax beside the grid_sample form that Hugging Face runs, in the same process.

On the CPU: medians on one thread and on all, and how many times as fast the operator is. On CUDA:
also the floor, the least time in which the operands can be moved, and the share of it reached:

    pts    = corners inside their map / 4
    T_hbm  = (bytes read at least once + written) / measured copy bandwidth
    T_l1   = 4 * pts * channels * bytes / (128 B * SMs * clock)
    floor  = max(T_hbm, T_l1, launch of an empty kernel)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import torch
from msda_cases import CPU_CASES, CUDA_CASES, Case, Operands, draw, grid_sample_form
from timing import CudaLimits, Run, cpu_times_us, cuda_limits, cuda_time_us

ROOT = Path(__file__).resolve().parents[2]
OPS = ("msda", "msda_softmax")


def implementations(op: str, case: Case, operands: Operands) -> dict[str, Run]:
    """The operator, the grid_sample form, and the operator's eager form, by name."""
    weights = operands.logits if op == "msda_softmax" else operands.weights
    table = operands.spatial_shapes, operands.level_start_index
    call = operands.value, *table, operands.locations, weights

    def peer() -> torch.Tensor:
        shares = weights.softmax(-1) if op == "msda_softmax" else weights
        return grid_sample_form(case.levels, operands, shares)

    return {
        "deform": lambda: getattr(torch.ops.deform, op)(*call),
        "grid_sample": peer,
        "eager": lambda: getattr(torch.ops.deform_eager, op)(*call),
    }


def largest_difference(op: str, case: Case, operands: Operands) -> float:
    """Between the operator and the grid_sample form in float64 of the same operands."""
    exact = Operands(**{name: tensor for name, tensor in vars(operands).items()})
    for name in ("value", "locations", "logits", "weights"):
        setattr(exact, name, getattr(exact, name).double())
    expected = implementations(op, case, exact)["grid_sample"]()
    return (implementations(op, case, operands)["deform"]() - expected).abs().max().item()


def describe(op: str, case: Case, operands: Operands) -> dict[str, object]:
    """What a row of figures is about, and how far the results are from float64's."""
    return {
        "op": op,
        "case": case.name,
        "batch": case.batch,
        "queries": operands.locations.shape[1],
        "levels": len(case.levels),
        "dtype": str(case.dtype).removeprefix("torch."),
        "largest_difference": largest_difference(op, case, operands),
    }


def traffic(case: Case, operands: Operands) -> tuple[float, float]:
    """Bytes that have to cross HBM once, and bytes that the corners read through L1."""
    locations = operands.locations
    batch, queries, heads, _, _, _ = locations.shape
    corners, first = 0, 0
    rows = operands.value.shape[1]
    touched = torch.zeros(batch, heads, rows, dtype=torch.bool, device=locations.device)
    picture = torch.arange(batch, device=locations.device).view(-1, 1, 1, 1)
    head = torch.arange(heads, device=locations.device).view(1, 1, -1, 1)
    for level, (height, width) in enumerate(case.levels):
        size = torch.tensor([width, height], device=locations.device)
        pixel = (locations[:, :, :, level] * size - 0.5).floor().long()
        for right in (0, 1):
            for below in (0, 1):
                x, y = pixel[..., 0] + right, pixel[..., 1] + below
                inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
                corners += int(inside.sum())
                places = torch.broadcast_tensors(picture, head, first + y * width + x)
                touched[tuple(place[inside] for place in places)] = True
        first += height * width
    element = operands.value.element_size()
    cell = case.channels * element
    read = int(touched.sum()) * cell + locations.numel() * locations.element_size()
    read += operands.logits.numel() * operands.logits.element_size()
    written = batch * queries * heads * cell
    return read + written, corners * cell


def bench_cpu(seconds: float) -> dict[str, object]:
    """Prints a line for each case and number of threads; returns them."""
    cores = os.cpu_count() or 1
    capability = torch.backends.cpu.get_cpu_capability()
    before = os.getloadavg()[0]
    print(f"CPU, {capability}, {cores} CPUs, load before {before:.1f}; medians in milliseconds")
    header = f"{'op':<13}{'case':<17}{'dtype':<10}{'queries':>8}{'threads':>8}"
    print(f"{header}{'deform':>9}{'eager':>9}{'grid_sample':>13}{'times':>8}{'difference':>12}")
    rows = []
    for case in CPU_CASES:
        operands = draw(case, torch.device("cpu"))
        for op in OPS:
            row = describe(op, case, operands)
            for threads in dict.fromkeys((1, cores)):
                torch.set_num_threads(threads)
                runs = implementations(op, case, operands)
                if threads > 1:
                    del runs["eager"]  # hundreds of small steps: nobody's reason to use threads
                times = cpu_times_us(runs, seconds)
                times_as_fast = times["grid_sample"] / times["deform"]
                us = {f"{name}_us": round(time, 1) for name, time in times.items()}
                rows.append(row | {"threads": threads, **us, "times_as_fast": times_as_fast})
                eager = f"{times['eager'] / 1e3:.1f}" if "eager" in times else "-"
                print(
                    f"{op:<13}{case.name:<17}{row['dtype']:<10}{row['queries']:>8}{threads:>8}"
                    f"{times['deform'] / 1e3:>9.2f}{eager:>9}"
                    f"{times['grid_sample'] / 1e3:>13.1f}{times_as_fast:>7.1f}x"
                    f"{row['largest_difference']:>12.1e}",
                    flush=True,
                )
    load = {"load_before": before, "load_after": os.getloadavg()[0]}
    return {"device": "cpu", "capability": capability, "cpus": cores, **load, "rows": rows}


def bench_cuda() -> dict[str, object]:
    """Prints a line for each case; returns them."""
    limits: CudaLimits = cuda_limits()
    print(
        f"{limits.name}: copies {limits.copy_bytes_per_us / 1e6:.2f} TB/s, L1 "
        f"{limits.l1_bytes_per_us / 1e6:.1f} TB/s, launch {limits.launch_us:.1f} us; medians in "
        "microseconds, from CUDA graphs"
    )
    header = f"{'op':<13}{'case':<17}{'dtype':<10}{'batch':>6}{'queries':>8}"
    columns = (
        f"{'deform':>9}{'floor':>8}{'share':>7}{'grid_sample':>13}{'times':>8}{'difference':>12}"
    )
    print(header + columns)
    rows = []
    for case in CUDA_CASES:
        operands = draw(case, torch.device("cuda"))
        floor = limits.floor_us(*traffic(case, operands))
        for op in OPS:
            row = describe(op, case, operands)
            runs = implementations(op, case, operands)
            times = {name: cuda_time_us(runs[name]) for name in ("deform", "grid_sample")}
            share = floor / times["deform"]
            times_as_fast = times["grid_sample"] / times["deform"]
            us = {f"{name}_us": round(time, 2) for name, time in times.items()}
            rows.append(
                row | us | {"floor_us": floor, "share": share, "times_as_fast": times_as_fast}
            )
            print(
                f"{op:<13}{case.name:<17}{row['dtype']:<10}{case.batch:>6}{row['queries']:>8}"
                f"{times['deform']:>9.1f}{floor:>8.1f}{share:>7.0%}{times['grid_sample']:>13.1f}"
                f"{times_as_fast:>7.1f}x{row['largest_difference']:>12.1e}",
                flush=True,
            )
    return {"device": "cuda", "limits": limits.as_row(), "rows": rows}


def main() -> int:
    """Runs the table of the wanted device."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each CPU figure")
    arguments = parser.parse_args()
    library = os.environ.get("DEFORM_OPS_LIBRARY") or ROOT / "build/lib/libdeform_ops.so"
    torch.ops.load_library(str(library))
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no GPU", file=sys.stderr)
        return 1
    with torch.inference_mode():
        result = bench_cuda() if arguments.device == "cuda" else bench_cpu(arguments.seconds)
    if arguments.json:
        result |= {"torch": torch.__version__}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
