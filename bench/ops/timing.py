"""Medians of runs on the CPU and on CUDA, and what a CUDA device can do at best."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import torch

Run = Callable[[], object]


def cpu_times_us(runs: Mapping[str, Run], seconds: float) -> dict[str, float]:
    """Median time of each run, in turns, so that another process's load falls on all alike.

    Each takes at least 3 turns, and further ones until ``seconds`` have passed for it.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    spent = dict.fromkeys(runs, 0.0)
    for run in runs.values():
        run()
    while waiting := [n for n in runs if len(times[n]) < 3 or spent[n] < seconds]:
        for name in waiting:
            began = time.perf_counter()
            runs[name]()
            took = time.perf_counter() - began
            times[name].append(took)
            spent[name] += took
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def cuda_time_us(run: Run, repeats: int = 20, inner: int = 5, *, captured: bool = True) -> float:
    """Median time of ``run`` replayed from a CUDA graph: Python's own time doesn't count.

    With ``captured`` False it is launched each time, as autograd's backward has to be: what it
    runs on is the stream of its forward. That suits what takes milliseconds.
    """
    if not captured:
        return _launched_time_us(run, repeats)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            run()
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(repeats):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / inner)
    return statistics.median(times)


def _launched_time_us(run: Run, repeats: int) -> float:
    for _ in range(3):
        run()
    times = []
    for _ in range(repeats):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times)


@dataclass(frozen=True)
class CudaLimits:
    """Measured copy bandwidth and launch time; L1 bandwidth from the data sheet's clock."""

    name: str
    copy_bytes_per_us: float  # read plus written
    l1_bytes_per_us: float
    launch_us: float

    def floor_us(self, hbm_bytes: float, l1_bytes: float) -> float:
        """The least time that a kernel moving this much can take."""
        memory = hbm_bytes / self.copy_bytes_per_us
        return max(memory, l1_bytes / self.l1_bytes_per_us, self.launch_us)

    def as_row(self) -> dict[str, object]:
        """For a JSON file."""
        return asdict(self)


def cuda_limits() -> CudaLimits:
    """Measures the current device: the faster of a memory copy and a kernel that moves as much."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    source = torch.randn(1 << 30, device="cuda")  # 4 GiB: many times the L2
    target = torch.empty_like(source)
    copy_us = min(
        cuda_time_us(lambda: target.copy_(source), repeats=10, inner=1),
        cuda_time_us(lambda: torch.neg(source, out=target), repeats=10, inner=1),
    )
    single = torch.zeros(1, device="cuda")
    return CudaLimits(
        properties.name,
        2 * source.nbytes / copy_us,
        128 * properties.multi_processor_count * properties.clock_rate * 1e-3,  # kHz to 1/us
        cuda_time_us(lambda: single.zero_(), inner=50),
    )
