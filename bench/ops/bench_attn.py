"""attn and attn_softmax, forward and backward, beside the same with grid_sample.

The backward's peer is autograd's backward of that form, without its forward. On the CPU: medians on
one thread and on all, how many times as fast the operator is, and the most memory that each holds
beside its operands. On CUDA: also the floor, the least time in which the operands can be moved, and
the share of it reached:

    pts    = corners inside the map / 4
    T_hbm  = (bytes read at least once + written) / measured copy bandwidth
    T_l1   = 4 * pts * channels * bytes / (128 B * SMs * clock)
    floor  = max(T_hbm, T_l1, launch of an empty kernel)
"""

from __future__ import annotations

import os

import torch
from attn_cases import CPU_CASES, CUDA_CASES, Case, draw, grid_sample_form, places
from peak_memory import cpu_peak_bytes, cuda_peak_bytes
from timing import CudaLimits, Run, cpu_times_us, cuda_limits, cuda_time_us
from torch import Tensor

OPS = ("attn", "attn_softmax", "attn_backward", "attn_softmax_backward")


def implementations(op: str, case: Case, value: Tensor, offset_mask: Tensor) -> dict[str, Run]:
    """The operator, the grid_sample form, and the operator's eager form, by name."""
    softmax = op.startswith("attn_softmax")
    tensors: tuple[Tensor, ...] = (value, offset_mask)
    peer: Run = lambda: grid_sample_form(case, value, offset_mask, softmax)  # noqa: E731
    if op.endswith("_backward"):
        generator = torch.Generator().manual_seed(1)
        grad = torch.randn(value.shape, generator=generator).to(value)
        tensors = grad, value, offset_mask
        peer = backward_of_grid_sample(case, *tensors, softmax)

    def run(namespace: str, **options: bool) -> Run:
        return lambda: getattr(getattr(torch.ops, namespace), op)(
            *tensors, *case.parameters, **options
        )

    runs: dict[str, Run] = {
        "deform": run("deform"),
        "grid_sample": peer,
        "eager": run("deform_eager"),
    }
    if op.endswith("_backward") and value.is_cuda and case.dtype.itemsize == 2:
        runs["native"] = run("deform_cuda", fp32acc=False)
    return runs


def backward_of_grid_sample(
    case: Case, grad: Tensor, value: Tensor, offset_mask: Tensor, softmax: bool
) -> Run:
    """Autograd's backward, from a graph that the first call records."""
    graph: list[Tensor] = []

    def run() -> tuple[Tensor, ...]:
        if not graph:
            leaves = [tensor.detach().requires_grad_() for tensor in (value, offset_mask)]
            with torch.enable_grad():
                graph.extend([grid_sample_form(case, *leaves, softmax), *leaves])
        return torch.autograd.grad(graph[0], graph[1:], grad, retain_graph=True)

    return run


def largest_difference(op: str, case: Case, value: Tensor, offset_mask: Tensor) -> float:
    """From the grid_sample form in float64 of the same operands, as a share of its largest.

    Of a backward, value's gradient: that of a point at a pixel's centre jumps, and two ways to
    round such a place give two derivatives.
    """
    exact = implementations(op, case, value.double(), offset_mask.double())["grid_sample"]()
    result = implementations(op, case, value, offset_mask)["deform"]()
    if not isinstance(result, Tensor):
        result, exact = result[0], exact[0]
    return ((result - exact).abs().max() / exact.abs().max()).item()


def describe(op: str, case: Case, value: Tensor, offset_mask: Tensor) -> dict[str, object]:
    """What a row of figures is about, and how far the results are from float64's."""
    return {
        "op": op,
        "case": case.name,
        "batch": case.batch,
        "outputs": case.height * case.width,
        "groups": case.groups,
        "channels": case.channels,
        "points": case.points,
        "dtype": str(case.dtype).removeprefix("torch."),
        "largest_difference": largest_difference(op, case, value, offset_mask),
    }


def traffic(op: str, case: Case, value: Tensor, offset_mask: Tensor) -> tuple[float, float]:
    """Bytes that have to cross HBM once, and bytes that the corners read through L1."""
    corner = places(case, offset_mask.float()).floor().long()
    batch, height, width = case.batch, case.height, case.width
    touched = torch.zeros(batch, case.groups, height * width, dtype=torch.bool, device=value.device)
    picture = torch.arange(batch, device=value.device).view(-1, 1, 1, 1, 1)
    group = torch.arange(case.groups, device=value.device).view(1, 1, 1, -1, 1)
    corners = 0
    for right in (0, 1):
        for below in (0, 1):
            x, y = corner[..., 0] + right, corner[..., 1] + below
            inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
            corners += int(inside.sum())
            cells = torch.broadcast_tensors(picture, group, y * width + x)
            touched[tuple(cell[inside] for cell in cells)] = True
    cell = case.channels * value.element_size()
    moved = int(touched.sum()) * cell + offset_mask.nbytes + value.nbytes  # the last: the result
    if op.endswith("_backward"):  # whose gradient is read; what is written is like the operands
        moved += value.nbytes + offset_mask.nbytes
    return moved, corners * cell


def mebibytes(count: int | None) -> str:
    """For a column of figures."""
    return "-" if count is None else f"{count / 2**20:.1f}"


def bench_cpu(seconds: float) -> dict[str, object]:
    """Prints a line for each case and number of threads; returns them."""
    cores = os.cpu_count() or 1
    capability = torch.backends.cpu.get_cpu_capability()
    before = os.getloadavg()[0]
    print(f"CPU, {capability}, {cores} CPUs, load before {before:.1f}; medians in milliseconds")
    header = f"{'op':<22}{'case':<17}{'dtype':<10}{'outputs':>8}{'threads':>8}"
    columns = f"{'deform':>9}{'eager':>9}{'grid_sample':>13}{'times':>8}{'difference':>12}"
    print(f"{header}{columns}{'MiB':>8}{'its MiB':>9}")
    rows = []
    for case in CPU_CASES:
        operands = draw(case, torch.device("cpu"))
        for op in OPS:
            row = describe(op, case, *operands)
            for threads in dict.fromkeys((1, cores)):
                torch.set_num_threads(threads)
                runs = implementations(op, case, *operands)
                if threads > 1:
                    del runs["eager"]  # many small steps: nobody's reason to use threads
                times = cpu_times_us(runs, seconds)
                peaks = {name: cpu_peak_bytes(runs[name]) for name in ("deform", "grid_sample")}
                times_as_fast = times["grid_sample"] / times["deform"]
                us = {f"{name}_us": round(time, 1) for name, time in times.items()}
                memory = {f"{name}_peak_bytes": peak for name, peak in peaks.items()}
                figures = {"threads": threads, **us, "times_as_fast": times_as_fast, **memory}
                rows.append(row | figures)
                eager = f"{times['eager'] / 1e3:.1f}" if "eager" in times else "-"
                print(
                    f"{op:<22}{case.name:<17}{row['dtype']:<10}{row['outputs']:>8}{threads:>8}"
                    f"{times['deform'] / 1e3:>9.2f}{eager:>9}"
                    f"{times['grid_sample'] / 1e3:>13.1f}{times_as_fast:>7.1f}x"
                    f"{row['largest_difference']:>12.1e}"
                    f"{mebibytes(peaks['deform']):>8}{mebibytes(peaks['grid_sample']):>9}",
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
        "microseconds, from CUDA graphs; native: fp32acc=False"
    )
    header = f"{'op':<22}{'case':<17}{'dtype':<10}{'batch':>6}{'outputs':>8}"
    columns = (
        f"{'deform':>9}{'native':>9}{'floor':>8}{'share':>7}{'grid_sample':>13}{'times':>8}"
        f"{'difference':>12}{'MiB':>8}{'its MiB':>9}"
    )
    print(header + columns)
    rows = []
    for case in CUDA_CASES:
        operands = draw(case, torch.device("cuda"))
        for op in OPS:
            floor = limits.floor_us(*traffic(op, case, *operands))
            row = describe(op, case, *operands)
            runs = implementations(op, case, *operands)
            del runs["eager"]
            peaks = {name: cuda_peak_bytes(runs[name]) for name in ("deform", "grid_sample")}
            times = {
                name: cuda_time_us(
                    run, captured=not (name == "grid_sample" and op.endswith("_backward"))
                )
                for name, run in runs.items()
            }
            share = floor / times["deform"]
            times_as_fast = times["grid_sample"] / times["deform"]
            us = {f"{name}_us": round(time, 2) for name, time in times.items()}
            memory = {f"{name}_peak_bytes": peak for name, peak in peaks.items()}
            figures = {"floor_us": floor, "share": share, "times_as_fast": times_as_fast}
            rows.append(row | us | figures | memory)
            native = f"{times['native']:.1f}" if "native" in times else "-"
            print(
                f"{op:<22}{case.name:<17}{row['dtype']:<10}{case.batch:>6}{row['outputs']:>8}"
                f"{times['deform']:>9.1f}{native:>9}{floor:>8.1f}{share:>7.0%}"
                f"{times['grid_sample']:>13.1f}{times_as_fast:>7.1f}x"
                f"{row['largest_difference']:>12.1e}"
                f"{mebibytes(peaks['deform']):>8}{mebibytes(peaks['grid_sample']):>9}",
                flush=True,
            )
    return {"device": "cuda", "limits": limits.as_row(), "rows": rows}
