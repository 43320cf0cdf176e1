"""What only a GPU can show of conv: streams, graphs, devices, atomic sums, sizes past 32 bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from conv_operands import Case, call, direction, draw, exact, exact_gradients, given

# The public operator takes the kernels compiled ahead.
BACKENDS = ["deform", "deform_jit"]
# Of tests that fill the GPU's memory one runs at a time (pytest-xdist, --dist loadgroup).
alone = pytest.mark.xdist_group("gpu_memory")
CASE = Case((16, 12), groups=2, offset_groups=2, channels=24, outputs=20)


def backward(case: Case, backend: str = "deform"):
    return call(case, backend, "conv_backward")


def assert_gradients(results, case: Case, grad, operands) -> None:
    expected = exact_gradients(case, grad, operands)
    results = [r for r, operand in zip(results, operands, strict=True) if operand is not None]
    for ours, theirs, operand in zip(results, expected, given(operands), strict=True):
        assert_accurate(ours, theirs, operand.dtype, gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_on_the_current_stream(backend, cuda):
    """The operands change on the same stream, behind work that is still running."""
    operands = draw(CASE, device=cuda)
    grad = direction(CASE, operands[0])
    late = torch.zeros_like(operands[0])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(operands[0])
        result = call(CASE, backend)(late, *operands[1:])
        gradients = backward(CASE, backend)(grad, late, *operands[1:])
        late.zero_()
    stream.synchronize()
    assert_accurate(result, exact(CASE, *operands), torch.float32)
    assert_gradients(gradients, CASE, grad, operands)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_replays_from_a_graph(backend, dtype, cuda):
    operands = draw(CASE, dtype, cuda)
    grad = direction(CASE, operands[0])
    call(CASE, backend)(*operands)
    backward(CASE, backend)(grad, *operands)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(CASE, backend)(*operands)
        gradients = backward(CASE, backend)(grad, *operands)
    other = draw(CASE, dtype, cuda, seed=5)
    for captured, replayed in zip(operands, other, strict=True):
        captured.copy_(replayed)
    for _ in range(2):  # gradients start from zero each time
        graph.replay()
    torch.cuda.synchronize()
    assert_accurate(result, exact(CASE, *other), dtype)
    assert_gradients(gradients, CASE, grad, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_on_the_device_of_value_and_leaves_the_current_one(backend, cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    operands = draw(CASE, device="cuda:1")
    assert torch.cuda.current_device() == 0
    result = call(CASE, backend)(*operands)
    assert torch.cuda.current_device() == 0
    assert result.device == torch.device("cuda:1")
    assert_accurate(result, exact(CASE, *operands), torch.float32)


@pytest.mark.parametrize("channels, outs", [(1, 1), (3, 65), (16, 64), (65, 3), (130, 130)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_channels_around_the_size_of_a_tile(backend, dtype, channels, outs, cuda):
    case = Case((9, 9), channels=channels, outputs=outs)
    operands = draw(case, dtype, cuda)
    grad = direction(case, operands[0])
    assert_accurate(call(case, backend)(*operands), exact(case, *operands), dtype)
    assert_gradients(backward(case, backend)(grad, *operands), case, grad, operands)


@pytest.mark.parametrize("size", [(9, 8), (48, 40), (132, 140)])
@pytest.mark.parametrize("groups, channels, outs", [(1, 64, 64), (1, 64, 128), (2, 128, 512)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_tiles_of_every_size(backend, dtype, groups, channels, outs, size, cuda):
    """Few outputs take small tiles, many large ones; the last tiles aren't full."""
    case = Case(size, 1, groups=groups, channels=channels, outputs=outs)
    operands = draw(case, dtype, cuda)
    assert_accurate(call(case, backend)(*operands), exact(case, *operands), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float32_is_not_rounded_to_tf32(backend, cuda):
    case = Case((8, 8), channels=256, outputs=64)
    operands = draw(case, device=cuda)
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        result = call(case, backend)(*operands)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert_accurate(result, exact(case, *operands), torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_ten_runs_with_deterministic_algorithms_give_the_same_bits(backend, dtype, cuda):
    case = replace(CASE, reach=4.0)
    operands = draw(case, dtype, cuda)
    grad = direction(case, operands[0])
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        expected = backward(case, backend)(grad, *operands)
        for _ in range(9):
            for ours, theirs in zip(
                backward(case, backend)(grad, *operands), expected, strict=True
            ):
                assert torch.equal(ours, theirs)
    finally:
        torch.use_deterministic_algorithms(False)
    assert_gradients(expected, case, grad, operands)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_buffer_of_samples_is_kept(backend, cuda):
    """Far less than the samples of a 3 x 3 kernel, nine times value, is allocated."""
    case = Case((64, 64), 4, channels=64, outputs=64, bias=False)
    operands = draw(case, device=cuda)
    grad = direction(case, operands[0])
    samples = operands[0].nbytes * case.points
    call(case, backend)(*operands)
    for run in (
        lambda: call(case, backend)(*operands),
        lambda: backward(case, backend)(grad, *operands),
    ):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        kept = run()
        torch.cuda.synchronize()
        assert torch.cuda.max_memory_allocated() - before < samples / 2
        del kept


@pytest.mark.parametrize("backend", BACKENDS)
@alone
def test_value_of_more_than_2_to_the_31_elements(backend, cuda):
    case = Case((32, 32), 33_000, (1, 1), pad=(0, 0), channels=64, outputs=1, mask=False)
    needed = case.batch * 1024 * (64 * 2 + 2 * 2 + 2)
    if torch.cuda.mem_get_info()[0] < 2 * needed:
        pytest.skip(f"less than {2 * needed / 2**30:.0f} GiB of GPU memory free")
    end = replace(case, batch=2)
    last = draw(end, torch.float16, cuda)
    value = torch.zeros(case.batch, 32, 32, 64, dtype=torch.float16, device=cuda)
    assert value.numel() > 2**31
    value[-2:] = last[0]
    offset = torch.zeros(case.batch, 32, 32, 1, 1, 2, dtype=torch.float16, device=cuda)
    offset[-2:] = last[1]
    result = call(case, backend)(value, offset, None, last[3], None)
    assert (result[:-2] == 0).all()
    expected = exact(replace(end, bias=False), *last[:4], None)
    assert_accurate(result[-2:], expected, torch.float16)
