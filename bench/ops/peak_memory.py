"""The most memory that a run holds at once beyond what was held before: its results included."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")


def _status_bytes(key: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def cpu_peak_bytes(run: Callable[[], object]) -> int | None:
    """Growth of this process's resident memory; None where the kernel doesn't keep its peak."""
    run()  # what is only set up once, code included
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # hand back what earlier runs have freed
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _status_bytes("VmRSS")
        run()
        return max(0, _status_bytes("VmHWM") - before)
    except (OSError, AttributeError, StopIteration):
        return None


def cuda_peak_bytes(run: Callable[[], object]) -> int:
    """Growth of what torch has allocated on the current device."""
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
