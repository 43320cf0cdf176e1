"""conv, forward and backward, beside torchvision's deform_conv2d.

The backward's peer is autograd's backward of torchvision's, without its forward. On the CPU:
medians on one thread and on all, how many times as fast the operator is, and the most memory that
each holds beside its operands. On CUDA: also cuDNN's plain convolution of the same shape, a bound,
and the floor with the share of it reached:

    pts    = corners inside the map / 4
    T_hbm  = (bytes read at least once + written) / measured copy bandwidth
    T_l1   = 4 * pts * channels * bytes / (128 B * SMs * clock)
    T_tc   = FLOP / measured rate of a large matrix product of the same type
    floor  = max(T_hbm, T_l1, T_tc, launch of an empty kernel)

torchvision has no bfloat16: there it runs in float32.
"""

from __future__ import annotations

import os

import torch
import torch.nn.functional as F
from conv_cases import CPU_CASES, CUDA_CASES, Case, Operands, draw, to_nchw, torchvision_call
from peak_memory import cpu_peak_bytes, cuda_peak_bytes
from timing import CudaLimits, Run, cpu_times_us, cuda_limits, cuda_time_us
from torch import Tensor

OPS = ("conv", "conv_backward")


def implementations(op: str, case: Case, operands: Operands) -> dict[str, Run]:
    """The operator, torchvision's, and the operator's eager form, by name."""
    tensors = operands.inputs
    if op == "conv_backward":
        tensors = (operands.grad, *tensors)

    def run(namespace: str) -> Run:
        return lambda: getattr(getattr(torch.ops, namespace), op)(*tensors, *case.parameters)

    forward, inputs, grad = torchvision_call(case, operands)
    peer: Run = lambda: forward(*inputs)  # noqa: E731
    if op == "conv_backward":
        peer = backward_of(forward, inputs, grad)
    return {"deform": run("deform"), "torchvision": peer, "eager": run("deform_eager")}


def backward_of(forward, inputs: list[Tensor], grad: Tensor) -> Run:
    """Autograd's backward, from a graph that the first call records."""
    graph: list[Tensor] = []

    def run() -> tuple[Tensor, ...]:
        if not graph:
            leaves = [tensor.detach().requires_grad_() for tensor in inputs]
            with torch.enable_grad():
                graph.extend([forward(*leaves), *leaves])
        return torch.autograd.grad(graph[0], graph[1:], grad, retain_graph=True)

    return run


def plain_convolution(op: str, case: Case, operands: Operands) -> Run:
    """cuDNN's convolution of the same shape, channels last; of a backward, its two gradients."""
    value = to_nchw(operands.value).contiguous(memory_format=torch.channels_last)
    weight = operands.weight.contiguous(memory_format=torch.channels_last)
    grad = to_nchw(operands.grad).contiguous(memory_format=torch.channels_last)
    stride, pad = (case.stride,) * 2, (case.kernel // 2,) * 2
    if op == "conv":
        return lambda: F.conv2d(value, weight, operands.bias, stride, pad, 1, case.groups)
    settings = ([case.out_channels], stride, pad, (1, 1), False, (0, 0), case.groups)
    mask = [True, True, True]
    return lambda: torch.ops.aten.convolution_backward(grad, value, weight, *settings, mask)


def largest_difference(op: str, case: Case, operands: Operands) -> float:
    """From torchvision's in float64 of the same operands, as a share of its largest.

    Of a backward, value's gradient: that of a point at a pixel's centre jumps, and two ways to
    round such a place give two derivatives.
    """
    wide = Case(**{**vars(case), "dtype": torch.float64})
    exact = implementations(op, wide, operands.to(torch.float64))["torchvision"]()
    result = implementations(op, case, operands)["deform"]()
    if op == "conv_backward":
        result, exact = result[0], exact[0]
    exact = exact.permute(0, 2, 3, 1)
    return ((result - exact).abs().max() / exact.abs().max()).item()


def describe(op: str, case: Case, operands: Operands) -> dict[str, object]:
    """What a row of figures is about, and how far the results are from float64's."""
    sizes = {name: getattr(case, name) for name in ("batch", "channels", "out_channels", "kernel")}
    return {
        "op": op,
        "case": case.name,
        **sizes,
        "outputs": case.outputs,
        "dtype": str(case.dtype).removeprefix("torch."),
        "largest_difference": largest_difference(op, case, operands),
    }


def traffic(op: str, case: Case, operands: Operands) -> tuple[float, float]:
    """Bytes that have to cross HBM once, and bytes that the corners read through L1."""
    device, (height, width) = operands.value.device, case.output
    rows = torch.arange(height, device=device) * case.stride - case.kernel // 2
    columns = torch.arange(width, device=device) * case.stride - case.kernel // 2
    lines = torch.arange(case.kernel, device=device)
    y = (rows.view(-1, 1, 1, 1) + lines.repeat_interleave(case.kernel)) + operands.offset[..., 0]
    x = (columns.view(-1, 1, 1) + lines.repeat(case.kernel)) + operands.offset[..., 1]
    top, left = y.float().floor().long(), x.float().floor().long()
    cells = case.batch, case.offset_groups, case.height * case.width
    touched = torch.zeros(cells, dtype=torch.bool, device=device)
    picture = torch.arange(case.batch, device=device).view(-1, 1, 1, 1, 1)
    group = torch.arange(case.offset_groups, device=device).view(1, 1, 1, -1, 1)
    corners = 0
    for right in (0, 1):
        for below in (0, 1):
            column, line = left + right, top + below
            inside = (column >= 0) & (column < case.width) & (line >= 0) & (line < case.height)
            corners += int(inside.sum())
            places = torch.broadcast_tensors(picture, group, line * case.width + column)
            touched[tuple(place[inside] for place in places)] = True
    cell = case.channels // case.offset_groups * operands.value.element_size()
    others = operands.offset.nbytes + operands.mask.nbytes + operands.weight.nbytes
    moved = int(touched.sum()) * cell + others + operands.grad.nbytes  # the last: the result
    if op == "conv_backward":  # the gradient is read, and gradients like the operands are written
        moved += operands.value.nbytes + others
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
    header = f"{'op':<15}{'case':<15}{'dtype':<10}{'outputs':>8}{'threads':>8}"
    columns = f"{'deform':>9}{'eager':>9}{'torchvision':>13}{'times':>8}{'difference':>12}"
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
                    del runs["eager"]  # many small steps: nobody's reason to use threads
                times = cpu_times_us(runs, seconds)
                peaks = {name: cpu_peak_bytes(runs[name]) for name in ("deform", "torchvision")}
                times_as_fast = times["torchvision"] / times["deform"]
                us = {f"{name}_us": round(time, 1) for name, time in times.items()}
                memory = {f"{name}_peak_bytes": peak for name, peak in peaks.items()}
                figures = {"threads": threads, **us, "times_as_fast": times_as_fast, **memory}
                rows.append(row | figures)
                eager = f"{times['eager'] / 1e3:.1f}" if "eager" in times else "-"
                print(
                    f"{op:<15}{case.name:<15}{row['dtype']:<10}{case.outputs:>8}{threads:>8}"
                    f"{times['deform'] / 1e3:>9.2f}{eager:>9}"
                    f"{times['torchvision'] / 1e3:>13.1f}{times_as_fast:>7.1f}x"
                    f"{row['largest_difference']:>12.1e}"
                    f"{mebibytes(peaks['deform']):>8}{mebibytes(peaks['torchvision']):>9}",
                    flush=True,
                )
    load = {"load_before": before, "load_after": os.getloadavg()[0]}
    return {"device": "cpu", "capability": capability, "cpus": cores, **load, "rows": rows}


def matrix_flops_per_us(dtype: torch.dtype) -> float:
    """Of torch's product of two large matrices; float32 without TF32."""
    size = 8192 if dtype.itemsize == 2 else 4096
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    return 2 * size**3 / cuda_time_us(lambda: torch.mm(a, b), repeats=10, inner=2)


def bench_cuda() -> dict[str, object]:
    """Prints a line for each case; returns them."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    limits: CudaLimits = cuda_limits()
    rates = {dtype: matrix_flops_per_us(dtype) for dtype in {case.dtype for case in CUDA_CASES}}
    products = ", ".join(
        f"{str(dtype).removeprefix('torch.')} {rate / 1e6:.0f} TFLOP/s"
        for dtype, rate in rates.items()
    )
    print(
        f"{limits.name}: copies {limits.copy_bytes_per_us / 1e6:.2f} TB/s, L1 "
        f"{limits.l1_bytes_per_us / 1e6:.1f} TB/s, launch {limits.launch_us:.1f} us, products "
        f"{products}; medians in microseconds, from CUDA graphs"
    )
    header = f"{'op':<15}{'case':<15}{'dtype':<10}{'batch':>6}{'outputs':>8}"
    columns = (
        f"{'deform':>9}{'floor':>8}{'share':>7}{'cuDNN':>9}{'torchvision':>13}{'times':>8}"
        f"{'difference':>12}{'MiB':>8}{'its MiB':>9}"
    )
    print(header + columns)
    rows = []
    for case in CUDA_CASES:
        operands = draw(case, torch.device("cuda"))
        for op in OPS:
            flops = case.flops * (2 if op == "conv_backward" else 1)
            floor = max(limits.floor_us(*traffic(op, case, operands)), flops / rates[case.dtype])
            row = describe(op, case, operands)
            runs = implementations(op, case, operands)
            del runs["eager"]
            peaks = {name: cuda_peak_bytes(run) for name, run in runs.items()}
            runs["plain"] = plain_convolution(op, case, operands)
            times = {
                name: cuda_time_us(
                    run, captured=not (name == "torchvision" and op.endswith("_backward"))
                )
                for name, run in runs.items()
            }
            share = floor / times["deform"]
            times_as_fast = times["torchvision"] / times["deform"]
            us = {f"{name}_us": round(time, 2) for name, time in times.items()}
            memory = {f"{name}_peak_bytes": peak for name, peak in peaks.items()}
            figures = {"floor_us": floor, "share": share, "times_as_fast": times_as_fast}
            rows.append(row | us | figures | memory)
            print(
                f"{op:<15}{case.name:<15}{row['dtype']:<10}{case.batch:>6}{case.outputs:>8}"
                f"{times['deform']:>9.1f}{floor:>8.1f}{share:>7.0%}{times['plain']:>9.1f}"
                f"{times['torchvision']:>13.1f}{times_as_fast:>7.1f}x"
                f"{row['largest_difference']:>12.1e}"
                f"{mebibytes(peaks['deform']):>8}{mebibytes(peaks['torchvision']):>9}",
                flush=True,
            )
    named = {str(dtype).removeprefix("torch."): rate for dtype, rate in rates.items()}
    return {
        "device": "cuda",
        "limits": limits.as_row() | {"flops_per_us": named},
        "rows": rows,
    }
