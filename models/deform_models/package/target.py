"""What an artifact is made for: device, instruction set, dtype."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch

from deform_models.errors import PackagingError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_X86 = ("x86_64", "AMD64")


@dataclass(frozen=True)
class Target:
    """The machine that an artifact runs on."""

    device: str
    """"cpu" or "cuda"."""

    dtype: str
    """What the network computes in; its inputs and outputs are float32 whatever this is."""

    isa: str | None
    """"avx2" or "avx512" for the CPU, else None."""

    sm: str | None
    """GPU architecture such as "90", else None."""

    @property
    def file_name(self) -> str:
        """Name of the artifact in the package."""
        machine = f"cpu-{self.isa}" if self.device == "cpu" else f"cuda-sm{self.sm}"
        return f"model.{machine}.{self.dtype}.pt2"

    @property
    def torch_dtype(self) -> torch.dtype:
        """`dtype` as torch has it."""
        return DTYPES[self.dtype]

    @property
    def host_isa(self) -> str | None:
        """Instruction set that the artifact's host code may use; None leaves it to the compiler."""
        if self.device == "cpu":
            return self.isa
        return "avx2" if platform.machine() in _X86 else None


def choose_target(device: str, dtype: str, cpu_isa: str) -> Target:
    """The target that the options name, on this machine.

    `cpu_isa` is "native" (the best of this machine), "avx2" or "avx512". Raises PackagingError
    for what this machine can't compile or check.
    """
    if device == "cuda":
        if cpu_isa != "native":
            raise PackagingError(f"--cpu-isa: {cpu_isa} means something for --device cpu only")
        if not torch.cuda.is_available():
            raise PackagingError("--device: cuda, and this machine has no usable CUDA GPU")
        major, minor = torch.cuda.get_device_capability()
        return Target("cuda", dtype, None, f"{major}{minor}")
    if dtype != "float32":
        raise PackagingError(f"--dtype: {dtype} is for --device cuda; on the CPU it is float32")
    if platform.machine() not in _X86:
        raise PackagingError(f"--device: cpu packages are made on x86-64, not {platform.machine()}")
    best = torch.backends.cpu.get_cpu_capability()
    own = {"AVX512": ("avx512", "avx2"), "AVX2": ("avx2",)}.get(best, ())
    if not own:
        raise PackagingError("--device: cpu, and this machine's processor has no AVX2")
    if cpu_isa == "native":
        return Target("cpu", dtype, own[0], None)
    if cpu_isa not in own:
        raise PackagingError(f"--cpu-isa: {cpu_isa}, and this machine's processor has {own[0]}")
    return Target("cpu", dtype, cpu_isa, None)
