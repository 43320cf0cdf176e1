"""Packs run-time kernels into a folder, for machines that can't or shouldn't compile them.

::

    python -m deform_ops.kernels pack kernels/ msda --channels 32 --levels 4 --points 4 \\
        --method softmax --dtype bfloat16 --sm 80 90

writes a file ``NAME-smNN-DIGEST.cubin`` for each kernel and lists it, with its digest, in
``SHA256SUMS``. ``DEFORM_OPS_INDEX`` names the folder, or a URL that serves it. Needs NVRTC but no
GPU. What is packed fits the operator library that packed it, and no other build.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from deform_ops.errors import typed_error
from deform_ops.kernel_index import SUMS, digest_of, write_whole

__all__ = ["PackedKernel", "pack"]

_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}


class PackedKernel(NamedTuple):
    """A kernel, ready to be loaded."""

    key: str
    """NAME-smNN-DIGEST."""
    origin: str
    """"cache", "index" or "compiled"."""
    cubin: bytes


def pack(folder: Path, kernels: Iterable[PackedKernel]) -> int:
    """Writes kernels to a folder and lists them in its ``SHA256SUMS``, beside those it lists.

    Args:
        folder: made if need be.
        kernels: those that are there already are written again.

    Returns:
        How many files the folder lists.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = {}
    if (folder / SUMS).is_file():
        for line in (folder / SUMS).read_text().splitlines():
            digest, _, name = line.partition(" ")
            listed[name.strip().removeprefix("*")] = digest
    for kernel in kernels:
        name = f"{kernel.key}.cubin"
        write_whole(folder / name, kernel.cubin)
        listed[name] = digest_of(kernel.cubin)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(listed.items())]
    write_whole(folder / SUMS, "".join(lines).encode())
    return len(listed)


def _msda_calls(a: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    for dtype, method, backward, sm in itertools.product(a.dtype, a.method, a.directions, a.sm):
        others = a.locations_dtype or dtype
        types = _DTYPES[dtype], _DTYPES[others], _DTYPES[others]
        sizes = a.channels, a.levels, a.points
        yield (*sizes, *types, method == "softmax", backward, not a.native_sums, sm)


def _attn_calls(a: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    for dtype, method, backward, sm in itertools.product(a.dtype, a.method, a.directions, a.sm):
        types = _DTYPES[dtype], _DTYPES[a.offset_dtype or dtype]
        sizes = *a.kernel, a.channels, a.drop_center
        yield (*sizes, *types, method == "softmax", backward, not a.native_sums, sm)


def _conv_calls(a: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    for dtype, backward, sm in itertools.product(a.dtype, a.directions, a.sm):
        offset = _DTYPES[a.offset_dtype or dtype]
        types = _DTYPES[dtype], offset, None if a.no_mask else _DTYPES[a.mask_dtype or dtype]
        sizes = *a.kernel, a.channels, a.out_channels, a.groups, a.offset_groups, a.outputs
        multiprocessors = a.multiprocessors or _MULTIPROCESSORS.get(sm)
        if multiprocessors is None:
            raise ValueError(f"--multiprocessors is needed for SM {sm / 10}")
        yield (*sizes, *types, backward, sm, multiprocessors)


_CALLS = {"msda": _msda_calls, "attn": _attn_calls, "conv": _conv_calls}

# Of the largest data centre GPU, or else graphics card, of each capability.
_MULTIPROCESSORS = {75: 40, 80: 108, 86: 84, 89: 142, 90: 132, 100: 148, 103: 160, 120: 188}


def _compile(op: str, calls: Iterable[tuple[object, ...]]) -> Iterator[PackedKernel]:
    operator = getattr(torch.ops.deform_jit, f"{op}_kernels")
    for call in calls:
        try:
            found: tuple[list[str], list[str], list[Tensor]] = operator(*call)
        except RuntimeError as error:
            raise typed_error(error) from None
        for key, origin, cubin in zip(*found, strict=True):
            print(f"{key}: {origin}", flush=True)
            yield PackedKernel(key, origin, cubin.numpy().tobytes())


def _kernel_size(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    if not (height + width).isdecimal():
        raise argparse.ArgumentTypeError(f"must be like 3x3, but is {text}")
    return int(height), int(width or height)


def _arguments() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dtype", nargs="+", choices=_DTYPES, required=True, help="of the value")
    common.add_argument(
        "--sm", nargs="+", type=int, required=True, help="compute capabilities times 10, as in 90"
    )
    common.add_argument("--training", action="store_true", help="the backward kernels as well")
    weighted = argparse.ArgumentParser(add_help=False)
    weighted.add_argument("--method", nargs="+", choices=["linear", "softmax"], default=["softmax"])
    weighted.add_argument("--channels", type=int, required=True, help="of a head or group")
    weighted.add_argument(
        "--native-sums", action="store_true", help="backward kernels for fp32acc=False"
    )

    parser = argparse.ArgumentParser(prog="python -m deform_ops.kernels")
    commands = parser.add_subparsers(required=True, metavar="pack")
    packing = commands.add_parser("pack", help="run-time kernels into a folder, with its manifest")
    packing.add_argument("folder", type=Path)
    ops = packing.add_subparsers(required=True, dest="op", metavar="msda|attn|conv")
    msda = ops.add_parser("msda", parents=[weighted, common])
    msda.add_argument("--levels", type=int, required=True)
    msda.add_argument("--points", type=int, required=True, help="of a level")
    msda.add_argument("--locations-dtype", choices=_DTYPES, help="and weights'; else the value's")
    attn = ops.add_parser("attn", parents=[weighted, common])
    attn.add_argument("--kernel", type=_kernel_size, required=True, help="points, as in 3x3")
    attn.add_argument("--drop-center", action="store_true")
    attn.add_argument("--offset-dtype", choices=_DTYPES, help="of offset_mask; else the value's")
    conv = ops.add_parser("conv", parents=[common])
    conv.add_argument("--kernel", type=_kernel_size, required=True, help="points, as in 3x3")
    conv.add_argument("--channels", type=int, required=True)
    conv.add_argument("--out-channels", type=int, required=True)
    conv.add_argument("--groups", type=int, default=1)
    conv.add_argument("--offset-groups", type=int, default=1)
    conv.add_argument(
        "--outputs", type=int, required=True, help="B*Ho*Wo: small and large ones take other tiles"
    )
    conv.add_argument("--no-mask", action="store_true", help="deformable convolution v1")
    conv.add_argument("--mask-dtype", choices=_DTYPES, help="else the value's")
    conv.add_argument("--offset-dtype", choices=_DTYPES, help="else the value's")
    conv.add_argument("--multiprocessors", type=int, help="of the GPU; else a common one's")
    return parser


def _main(words: list[str]) -> int:
    arguments = _arguments().parse_args(words)
    arguments.directions = (False, True) if arguments.training else (False,)
    try:
        kernels = _compile(arguments.op, _CALLS[arguments.op](arguments))
        listed = pack(arguments.folder, kernels)
    except (RuntimeError, ValueError, OSError) as error:
        print(f"deform_ops.kernels: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.folder}: {listed} kernels in {SUMS}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
