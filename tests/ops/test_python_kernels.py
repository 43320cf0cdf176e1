"""Run-time kernels without a GPU: compiled for any, cached, packed into an index, found there."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accuracy import DTYPES
from deform_ops.kernel_index import digest_of
from deform_ops.kernels import PackedKernel, pack

# What an operator's kernels are made for beside types: its sizes, smallest and odd ones too.
SIZES = {
    "msda": [(32, 4, 4), (1, 1, 1), (33, 6, 3), (300, 1, 100), (2, 200, 2)],
    "attn": [(3, 3, 16, False), (1, 1, 1, False), (5, 4, 33, True), (40, 41, 40, False)],
}
OTHER_TYPES = {"msda": 2, "attn": 1}
CONV_SIZES = [
    (3, 3, 256, 256, 1, 1, 4096),
    (1, 1, 1, 1, 1, 1, 1),
    (3, 3, 64, 64, 4, 2, 100_000),
    (5, 4, 33, 66, 3, 11, 700),
]


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``python -m deform_ops.kernels`` with a cache of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DEFORM_OPS_")}
    environment["DEFORM_OPS_LIBRARY"] = os.environ.get("DEFORM_OPS_LIBRARY", "")
    environment["DEFORM_OPS_CACHE_DIR"] = str(folder / "cache")
    command = [sys.executable, "-m", "deform_ops.kernels", *words]
    return subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=False
    )


MSDA = "msda --channels 8 --levels 2 --points 4 --dtype bfloat16 --sm 90".split()


def skip_without_compiler(error: str) -> None:
    if "neither on the loader's path" in error or "launches no CUDA kernels" in error:
        pytest.skip(error.strip())


@pytest.fixture
def compiler(tmp_path) -> None:
    """Skips by name where nothing compiles. Leaves the kernel of ``MSDA`` in the cache."""
    result = run(tmp_path, "pack", str(tmp_path / "probe"), *MSDA)
    skip_without_compiler(result.stderr)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def nvrtc() -> None:
    try:
        torch.ops.deform_jit.msda_kernels(*SIZES["msda"][0], *3 * [torch.half], *3 * [False], 90)
    except RuntimeError as error:
        skip_without_compiler(str(error))
        raise


@pytest.mark.parametrize("op", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_of_any_size_compile_for_every_gpu(op, dtype, nvrtc):
    operator = getattr(torch.ops.deform_jit, f"{op}_kernels")
    choices = itertools.product((75, 80, 90, 100, 120), (False, True), (False, True))
    for (sm, softmax, backward), sizes in zip(choices, itertools.cycle(SIZES[op])):
        others = OTHER_TYPES[op] * [torch.float32 if dtype.itemsize == 2 else dtype]
        keys, origins, cubins = operator(*sizes, dtype, *others, softmax, backward, False, sm)
        assert len(keys) == len(origins) == len(cubins) == 1
        assert re.match(rf"{op}{'_backward' if backward else '(_warp)?'}-sm{sm}-", keys[0])
        assert bytes(cubins[0][:4].tolist()) == b"\x7fELF"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_of_conv_compile_for_every_gpu(dtype, nvrtc):
    gpus = itertools.product((75, 80, 90, 100, 120), (False, True))
    masks = itertools.cycle((None, torch.float32, dtype))
    for (sm, backward), sizes, mask in zip(gpus, itertools.cycle(CONV_SIZES), masks, strict=False):
        types = dtype, torch.float32 if dtype.itemsize == 2 else dtype, mask
        keys, _, cubins = torch.ops.deform_jit.conv_kernels(*sizes, *types, backward, sm, 132)
        assert len(keys) == len(cubins) == len(set(keys)) >= 1 + backward
        assert all(key.startswith("conv") and f"-sm{sm}-" in key for key in keys)
        assert all(bytes(cubin[:4].tolist()) == b"\x7fELF" for cubin in cubins)


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((3, 3, 8, 0, 1, 1, 1), "out_channels must be at least 1, but is 0"),
        ((3, 3, 8, 8, 3, 1, 1), "channels and out_channels must be multiples of groups"),
        ((3, 3, 8, 8, 1, 3, 1), "channels must be a multiple of offset_groups"),
    ],
)
def test_wrong_size_of_conv_is_named(sizes, message):
    types = torch.half, torch.half, None
    with pytest.raises(RuntimeError, match=message):
        torch.ops.deform_jit.conv_kernels(*sizes, *types, False, 90, 132)


@pytest.mark.parametrize("op", SIZES)
def test_wrong_size_type_or_gpu_is_named(op):
    operator = getattr(torch.ops.deform_jit, f"{op}_kernels")
    types = (1 + OTHER_TYPES[op]) * [torch.float32]
    flags = False, False, True
    with pytest.raises(RuntimeError, match="must be at least 1, but is 0"):
        operator(*(0 for _ in SIZES[op][0]), *types, *flags, 90)
    with pytest.raises(RuntimeError, match="value must be float32, .*but is Int"):
        operator(*SIZES[op][0], torch.int32, *types[1:], *flags, 90)


def test_sm_that_is_no_compute_capability_is_refused(nvrtc):
    types = 3 * [torch.float32]
    with pytest.raises(RuntimeError, match="sm must be a compute capability times 10.*but is 9"):
        torch.ops.deform_jit.msda_kernels(8, 1, 1, *types, False, False, True, 9)


def test_pack_writes_kernels_and_a_manifest_that_sha256sum_takes(compiler, tmp_path):
    folder = tmp_path / "index"
    for words in (MSDA, "attn --kernel 3x3 --channels 8 --dtype float32 --sm 80 90".split()):
        result = run(tmp_path, "pack", str(folder), *words, "--training")
        assert result.returncode == 0, result.stderr
    names = sorted(path.name for path in folder.glob("*.cubin"))
    assert [name.rsplit("-", 1)[0] for name in names] == [
        "attn-sm80",
        "attn-sm90",
        "attn_backward-sm80",
        "attn_backward-sm90",
        "msda-sm90",
        "msda_backward-sm90",
    ]
    assert result.stdout.splitlines()[-1] == f"{folder}: 6 kernels in SHA256SUMS"
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert checked.stdout.count(": OK") == 6


def test_packed_kernels_serve_where_nothing_may_be_compiled(compiler, tmp_path):
    run(tmp_path, "pack", str(tmp_path / "index"), *MSDA)
    other = tmp_path / "other"
    without_compiler = {"DEFORM_OPS_COMPILE": "0"}
    result = run(other, "pack", str(other / "copy"), *MSDA, **without_compiler)
    assert result.returncode == 1
    assert "KernelNotProvidedError: msda for SM 9.0 is neither in the cache" in result.stderr
    index = {"DEFORM_OPS_INDEX": str(tmp_path / "index")}
    result = run(other, "pack", str(other / "copy"), *MSDA, **without_compiler, **index)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].endswith(": index")
    copies = [{path.name: path.read_bytes() for path in folder.glob("*.cubin")}
              for folder in (tmp_path / "index", other / "copy")]  # fmt: skip
    assert copies[0] == copies[1]


def test_kernel_that_the_index_lists_otherwise_is_refused(compiler, tmp_path):
    run(tmp_path, "pack", str(tmp_path / "index"), *MSDA)
    (kernel,) = (tmp_path / "index").glob("*.cubin")
    kernel.write_bytes(kernel.read_bytes() + b"more")
    other = tmp_path / "other"
    index = {"DEFORM_OPS_INDEX": str(tmp_path / "index")}
    result = run(other, "pack", str(other / "copy"), *MSDA, **index)
    assert result.returncode == 1
    assert f"KernelDownloadError: {kernel.name}" in result.stderr
    assert "unset DEFORM_OPS_INDEX" in result.stderr


def test_processes_that_start_at_once_compile_once(compiler, tmp_path):
    shared = {"DEFORM_OPS_CACHE_DIR": str(tmp_path / "shared")}
    environment = {**os.environ, **shared}
    command = [sys.executable, "-m", "deform_ops.kernels", "pack"]
    started = [
        subprocess.Popen(
            [*command, str(tmp_path / str(i)), *MSDA],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    lines = [process.communicate()[0].splitlines()[0] for process in started]
    origins = sorted(line.split(": ")[1] for line in lines)
    assert origins == ["cache", "cache", "cache", "compiled"]


def test_cache_entry_that_was_damaged_is_compiled_again(compiler, tmp_path):
    first = run(tmp_path, "pack", str(tmp_path / "a"), *MSDA)
    assert first.stdout.splitlines()[0].endswith(": cache")  # by the fixture
    (entry,) = (tmp_path / "cache").glob("*.kernel")
    entry.write_bytes(entry.read_bytes()[:-1])
    again = run(tmp_path, "pack", str(tmp_path / "b"), *MSDA)
    assert again.stdout.splitlines()[0].endswith(": compiled")


def test_cache_folder_that_cannot_be_written_costs_a_warning(compiler, tmp_path):
    result = run(tmp_path, "pack", str(tmp_path / "a"), *MSDA, DEFORM_OPS_CACHE_DIR="/proc/kernels")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].endswith(": compiled")
    assert "the kernel cache /proc/kernels can't be written" in result.stderr


@pytest.mark.parametrize(
    "variable, value", [("DEFORM_OPS_COMPILE", "yes"), ("DEFORM_OPS_OPT_LEVEL", "9")]
)
def test_variable_with_a_value_it_cannot_have_is_named(variable, value, compiler, tmp_path):
    result = run(tmp_path, "pack", str(tmp_path / "a"), *MSDA, **{variable: value})
    assert result.returncode == 1
    assert f"{variable} must be" in result.stderr and f"but is {value}" in result.stderr


def test_policy_says_why_nothing_comes_at_run_time(tmp_path):
    """A GPU that nothing was compiled for, no compiler, no kernels."""
    script = """
import torch
from deform_ops.registry import CallContext, select_backend
print(select_backend(CallContext("msda", torch.device("cuda"), torch.float32, 32, 4, 4, sm=75)))
"""
    environment = {
        **os.environ,
        "DEFORM_OPS_COMPILE": "0",
        "DEFORM_OPS_CACHE_DIR": str(tmp_path / "none"),
    }
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-2:]
    assert last[0].startswith("  cuda: ")
    assert "jit: DEFORM_OPS_COMPILE=0" in last[1] or "launches no CUDA kernels" in last[1]


def test_manifest_keeps_what_it_listed(tmp_path):
    first = PackedKernel("msda-sm90-00", "compiled", b"first")
    assert pack(tmp_path, [first]) == 1
    assert pack(tmp_path, [first, PackedKernel("attn-sm80-00", "cache", b"second")]) == 2
    assert (tmp_path / "SHA256SUMS").read_text().splitlines() == [
        f"{digest_of(b'second')}  attn-sm80-00.cubin",
        f"{digest_of(b'first')}  msda-sm90-00.cubin",
    ]
