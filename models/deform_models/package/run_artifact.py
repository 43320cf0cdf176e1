"""Runs a compiled artifact in a process of its own: `python -m … ARTIFACT INPUTS OUTPUTS BATCH…`.

A package that is wrong can bring its process down; here that is the answer, not the end of the
build. INPUTS is a safetensors file with the network's inputs, called by their place; each BATCH
takes the first so many pictures of it. OUTPUTS gets tensors called `BATCH.PLACE`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# The package checks its inputs itself in this mode.
os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"

import torch
from safetensors.torch import load_file, save_file

from deform_models.package import toolchain
from deform_models.package.operators import load_operators


def main(artifact: str, inputs_file: str, outputs_file: str, *batches: str) -> None:
    """Runs the batches in the order given."""
    _make_torch_symbols_global()
    load_operators()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    metadata = torch._C._aoti.AOTIModelPackageLoader.load_metadata_from_package(artifact, "model")
    device, isa = metadata["AOTI_DEVICE_KEY"], metadata["AOTI_CPU_ISA"].lower()
    # Python's loader would compile probes to learn this machine's instruction set.
    with toolchain.instruction_set(isa if isa in toolchain.MARCH else None):
        network = torch._inductor.aoti_load_package(artifact)
    inputs = [tensor.to(device) for _, tensor in sorted(load_file(inputs_file).items())]
    outputs = {}
    for batch in map(int, batches):
        print(f"batch {batch}", flush=True)
        with torch.inference_mode():
            results = network(*(tensor[:batch] for tensor in inputs))
        for place, tensor in enumerate(results):
            outputs[f"{batch}.{place}"] = tensor.cpu().contiguous()
    save_file(outputs, outputs_file)


def _make_torch_symbols_global() -> None:
    """Lets a package find torch, as it does in a server that is linked to it."""
    folder = Path(torch.__file__).parent / "lib"
    for name in ("libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so"):
        if (folder / name).exists() and ("cuda" not in name or torch.cuda.is_available()):
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)


if __name__ == "__main__":
    main(*sys.argv[1:])
