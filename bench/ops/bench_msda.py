"""msda and msda_softmax, forward and backward, beside the grid_sample form that Hugging Face runs.

The backward's peer is autograd's backward of that form, without its forward. On the CPU: medians on
one thread and on all, how many times as fast the operator is, and the most memory that each holds
beside its operands. On CUDA: also the floor, the least time in which the operands can be moved, and
the share of it reached:

    pts    = corners inside their map / 4
    T_hbm  = (bytes read at least once + written) / measured copy bandwidth
    T_l1   = 4 * pts * channels * bytes / (128 B * SMs * clock)
    floor  = max(T_hbm, T_l1, launch of an empty kernel)
"""

from __future__ import annotations

import os

import torch
from msda_cases import CPU_CASES, CUDA_CASES, Case, Operands, draw, grid_sample_form
from peak_memory import cpu_peak_bytes, cuda_peak_bytes
from timing import CudaLimits, Run, cpu_times_us, cuda_limits, cuda_time_us

OPS = ("msda", "msda_softmax", "msda_backward", "msda_softmax_backward")


def implementations(op: str, case: Case, operands: Operands) -> dict[str, Run]:
    """The operator, the grid_sample form, and the operator's eager form, by name."""
    softmax = op.startswith("msda_softmax")
    weights = operands.logits if softmax else operands.weights
    table = operands.spatial_shapes, operands.level_start_index
    call: tuple[torch.Tensor, ...] = (operands.value, *table, operands.locations, weights)

    def forward() -> torch.Tensor:
        shares = weights.softmax(-1) if softmax else weights
        return grid_sample_form(case.levels, operands, shares)

    peer: Run = forward
    if op.endswith("_backward"):
        grad = torch.randn(
            forward().shape, generator=torch.Generator().manual_seed(1), dtype=torch.float32
        ).to(operands.value)
        call = grad, *call
        peer = backward_of_grid_sample(case, operands, weights, softmax, grad)
    runs: dict[str, Run] = {
        "deform": lambda: getattr(torch.ops.deform, op)(*call),
        "grid_sample": peer,
        "eager": lambda: getattr(torch.ops.deform_eager, op)(*call),
    }
    if op.endswith("_backward") and call[0].is_cuda and case.dtype.itemsize == 2:
        runs["native"] = lambda: getattr(torch.ops.deform_cuda, op)(*call, fp32acc=False)
    return runs


def backward_of_grid_sample(
    case: Case, operands: Operands, weights: torch.Tensor, softmax: bool, grad: torch.Tensor
) -> Run:
    """Autograd's backward, from a graph that the first call records."""
    graph: list[torch.Tensor] = []

    def run() -> tuple[torch.Tensor, ...]:
        if not graph:
            wanted = (operands.value, operands.locations, weights)
            leaves = [tensor.detach().requires_grad_() for tensor in wanted]
            with torch.enable_grad():
                shares = leaves[2].softmax(-1) if softmax else leaves[2]
                copies = Operands(**{**vars(operands), "value": leaves[0], "locations": leaves[1]})
                graph.extend([grid_sample_form(case.levels, copies, shares), *leaves])
        return torch.autograd.grad(graph[0], graph[1:], grad, retain_graph=True)

    return run


def largest_difference(op: str, case: Case, operands: Operands) -> float:
    """From the grid_sample form in float64 of the same operands, as a share of its largest."""
    exact = Operands(**vars(operands))
    for name in ("value", "locations", "logits", "weights"):
        setattr(exact, name, getattr(exact, name).double())
    expected = implementations(op, case, exact)["grid_sample"]()
    result = implementations(op, case, operands)["deform"]()
    if isinstance(result, torch.Tensor):
        result, expected = (result,), (expected,)
    pairs = zip(result, expected, strict=True)
    return max(((ours - theirs).abs().max() / theirs.abs().max()).item() for ours, theirs in pairs)


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


def traffic(op: str, case: Case, operands: Operands) -> tuple[float, float]:
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
    result = batch * queries * heads * cell
    if not op.endswith("_backward"):
        return read + result, corners * cell
    # The result's gradient is read; what is written is as large as the operands.
    written = operands.value.nbytes + locations.nbytes + operands.logits.nbytes
    return read + result + written, corners * cell


def mebibytes(count: int | None) -> str:
    """For a column of figures."""
    """For a column of a table."""
    return "-" if count is None else f"{count / 2**20:.1f}"


def bench_cpu(seconds: float) -> dict[str, object]:
    """Prints a line for each case and number of threads; returns them."""
    cores = os.cpu_count() or 1
    capability = torch.backends.cpu.get_cpu_capability()
    before = os.getloadavg()[0]
    print(f"CPU, {capability}, {cores} CPUs, load before {before:.1f}; medians in milliseconds")
    header = f"{'op':<22}{'case':<17}{'dtype':<10}{'queries':>8}{'threads':>8}"
    columns = f"{'deform':>9}{'eager':>9}{'grid_sample':>13}{'times':>8}{'difference':>12}"
    print(f"{header}{columns}{'MiB':>8}{'its MiB':>9}")
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
                peaks = {name: cpu_peak_bytes(runs[name]) for name in ("deform", "grid_sample")}
                times_as_fast = times["grid_sample"] / times["deform"]
                us = {f"{name}_us": round(time, 1) for name, time in times.items()}
                memory = {f"{name}_peak_bytes": peak for name, peak in peaks.items()}
                figures = {"threads": threads, **us, "times_as_fast": times_as_fast, **memory}
                rows.append(row | figures)
                eager = f"{times['eager'] / 1e3:.1f}" if "eager" in times else "-"
                print(
                    f"{op:<22}{case.name:<17}{row['dtype']:<10}{row['queries']:>8}{threads:>8}"
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
    header = f"{'op':<22}{'case':<17}{'dtype':<10}{'batch':>6}{'queries':>8}"
    columns = (
        f"{'deform':>9}{'native':>9}{'floor':>8}{'share':>7}{'grid_sample':>13}{'times':>8}"
        f"{'difference':>12}{'MiB':>8}{'its MiB':>9}"
    )
    print(header + columns)
    rows = []
    for case in CUDA_CASES:
        operands = draw(case, torch.device("cuda"))
        for op in OPS:
            floor = limits.floor_us(*traffic(op, case, operands))
            row = describe(op, case, operands)
            runs = implementations(op, case, operands)
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
                f"{op:<22}{case.name:<17}{row['dtype']:<10}{case.batch:>6}{row['queries']:>8}"
                f"{times['deform']:>9.1f}{native:>9}{floor:>8.1f}{share:>7.0%}"
                f"{times['grid_sample']:>13.1f}{times_as_fast:>7.1f}x"
                f"{row['largest_difference']:>12.1e}"
                f"{mebibytes(peaks['deform']):>8}{mebibytes(peaks['grid_sample']):>9}",
                flush=True,
            )
    return {"device": "cuda", "limits": limits.as_row(), "rows": rows}
