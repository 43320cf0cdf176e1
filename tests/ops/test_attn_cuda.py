"""What only a GPU can show of attn: streams, graphs, devices, atomic sums, sizes past 32 bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate, scaled_error
from attn_operands import Case, call, draw, exact, exact_gradients

CASE = Case((16, 12), groups=4, channels=16)
HALVES = [torch.float16, torch.bfloat16]
# The public operator takes the kernels compiled ahead.
BACKENDS = ["deform", "deform_jit"]
# Of tests that fill the GPU's memory one runs at a time (pytest-xdist, --dist loadgroup).
alone = pytest.mark.xdist_group("gpu_memory")
# Those that take fp32acc.
NATIVE = ["deform_cuda", "deform_jit"]


def direction(case: Case, like: torch.Tensor, seed: int = 7) -> torch.Tensor:
    shape = case.batch, *case.output, case.groups * case.channels
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(like)


def backward(case: Case, name: str = "attn_softmax", backend: str = "deform", **options):
    return call(case, f"{name}_backward", backend, **options)


def assert_gradients(results, case: Case, grad, *operands, softmax: bool = True) -> None:
    expected = exact_gradients(case, grad, *operands, softmax=softmax)
    for ours, theirs, operand in zip(results, expected, operands, strict=True):
        assert_accurate(ours, theirs, operand.dtype, gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_on_the_current_stream(backend, cuda):
    """The operands change on the same stream, behind work that is still running."""
    value, offset_mask = draw(CASE, device=cuda)
    grad = direction(CASE, value)
    late = torch.zeros_like(value)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(value)
        result = call(CASE, "attn_softmax", backend)(late, offset_mask)
        gradients = backward(CASE, backend=backend)(grad, late, offset_mask)
        late.zero_()
    stream.synchronize()
    assert_accurate(result, exact(CASE, value, offset_mask, softmax=True), torch.float32)
    assert_gradients(gradients, CASE, grad, value, offset_mask)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_replays_from_a_graph(backend, dtype, cuda):
    operands = draw(CASE, dtype, cuda)
    grad = direction(CASE, operands[0])
    call(CASE, "attn_softmax", backend)(*operands)
    backward(CASE, backend=backend)(grad, *operands)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(CASE, "attn_softmax", backend)(*operands)
        gradients = backward(CASE, backend=backend)(grad, *operands)
    other = draw(CASE, dtype, cuda, seed=5)
    for captured, replayed in zip(operands, other, strict=True):
        captured.copy_(replayed)
    for _ in range(2):  # gradients start from zero each time
        graph.replay()
    torch.cuda.synchronize()
    assert_accurate(result, exact(CASE, *other, softmax=True), dtype)
    assert_gradients(gradients, CASE, grad, *other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_on_the_device_of_value_and_leaves_the_current_one(backend, cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    operands = draw(CASE, device="cuda:1")
    grad = direction(CASE, operands[0])
    assert torch.cuda.current_device() == 0
    result = call(CASE, "attn_softmax", backend)(*operands)
    gradients = backward(CASE, backend=backend)(grad, *operands)
    assert torch.cuda.current_device() == 0
    assert {t.device for t in (result, *gradients)} == {torch.device("cuda:1")}
    assert_accurate(result, exact(CASE, *operands, softmax=True), torch.float32)
    assert_gradients(gradients, CASE, grad, *operands)
    again = call(CASE, "attn_softmax", backend)(*draw(CASE, device="cuda:0"))
    assert torch.equal(again.cpu(), result.cpu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_whose_memory_is_not_aligned_for_vectors(backend, dtype, cuda):
    value, offset_mask = draw(CASE, dtype, cuda)
    grad = direction(CASE, value)

    def shifted(tensor: torch.Tensor) -> torch.Tensor:
        storage = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=cuda)
        return storage[1:].view_as(tensor).copy_(tensor)

    expected = call(CASE, backend=backend)(value, offset_mask)
    torch.testing.assert_close(
        call(CASE, backend=backend)(shifted(value), shifted(offset_mask)), expected
    )
    for which in ((True, False), (False, True)):
        grad_, value_ = (shifted(t) if s else t for t, s in zip((grad, value), which, strict=True))
        assert_gradients(
            backward(CASE, backend=backend)(grad_, value_, offset_mask),
            CASE,
            grad,
            value,
            offset_mask,
        )


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 40, 64, 72, 100, 256, 300])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_number_of_channels_takes_all_threads_of_a_team(backend, dtype, channels, cuda):
    case = Case((5, 4), groups=3, channels=channels)
    operands = draw(case, dtype, cuda)
    grad = direction(case, operands[0])
    assert_accurate(
        call(case, "attn_softmax", backend)(*operands), exact(case, *operands, softmax=True), dtype
    )
    assert_gradients(backward(case, backend=backend)(grad, *operands), case, grad, *operands)


@pytest.mark.parametrize("channels", [1, 4, 6, 16, 33])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("backend", NATIVE)
def test_native_sums_of_halves_are_as_good_as_their_type(backend, dtype, channels, cuda):
    """On GPUs before SM 9.0 the same call sums in float32."""
    case = Case((8, 8), groups=2, channels=channels)
    operands = draw(case, dtype, cuda)
    grad = direction(case, operands[0])
    by_value, by_offset = backward(case, "attn", backend, fp32acc=False)(grad, *operands)
    assert_gradients((by_value, by_offset), case, grad, *operands, softmax=False)
    default = backward(case, "attn", backend)(grad, *operands)
    assert torch.equal(default[1], by_offset)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("backend", NATIVE)
def test_autograd_hands_fp32acc_on(backend, dtype, cuda):
    """Ones on one pixel: natively, bfloat16 stands still at 256 and float16 at 2048."""
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs SM 9.0")
    case = Case((64, 64), 1, (1, 1), pad=(0, 0), groups=1, channels=8)
    offset_mask = torch.ones(1, 64, 64, 3, device=cuda)
    offset_mask[..., 0] = -torch.arange(64.0).view(1, 1, 64)
    offset_mask[..., 1] = -torch.arange(64.0).view(1, 64, 1)
    for fp32acc, expected in ((True, 4096), (False, 256 if dtype == torch.bfloat16 else 2048)):
        value = torch.zeros(1, 64, 64, 8, dtype=dtype, device=cuda, requires_grad=True)
        call(case, "attn", backend, fp32acc=fp32acc)(value, offset_mask).sum().backward()
        assert (value.grad[0, 0, 0] == expected).all()


@pytest.mark.parametrize("name", ["attn", "attn_softmax"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_more_points_than_shared_memory_takes_at_once(backend, dtype, name, cuda):
    for kernel, channels in (((1, 1), 2), ((5, 5), 1), ((13, 13), 2), ((9, 10), 40)):
        pad = kernel[0] // 2, kernel[1] // 2
        case = Case((6, 7), 1, kernel, pad=pad, groups=2, channels=channels)
        operands = draw(case, dtype, cuda, offset_dtype=torch.float32)
        grad = direction(case, operands[0])
        softmax = name == "attn_softmax"
        result = call(case, name, backend)(*operands)
        assert_accurate(result, exact(case, *operands, softmax=softmax), dtype)
        by_value, by_offset = backward(case, name, backend)(grad, *operands)
        expected = exact_gradients(case, grad, *operands, softmax=softmax)
        assert_accurate(by_value, expected[0], dtype, gradient=True)
        assert scaled_error(by_offset, expected[1]) < 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
def test_deterministic_backward_equals_the_other(backend, cuda):
    operands = draw(CASE, device=cuda)
    grad = direction(CASE, operands[0])
    fast = backward(CASE, backend=backend)(grad, *operands)
    torch.use_deterministic_algorithms(True)
    try:
        deterministic = backward(CASE, backend=backend)(grad, *operands)
    finally:
        torch.use_deterministic_algorithms(False)
    for ours, theirs in zip(fast, deterministic, strict=True):
        assert_accurate(ours, theirs, torch.float32, gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_takes_no_memory_beside_its_results(backend, cuda):
    case = Case((64, 64), 4, groups=8, channels=16)
    operands = draw(case, device=cuda)
    grad = direction(case, operands[0])
    backward(case, backend=backend)(grad, *operands)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    results = backward(case, backend=backend)(grad, *operands)
    torch.cuda.synchronize()
    used = torch.cuda.max_memory_allocated() - before
    assert used <= sum(tensor.nbytes for tensor in results) + 4096


@pytest.mark.parametrize("backend", BACKENDS)
@alone
def test_value_of_more_than_2_to_the_31_elements(backend, cuda):
    case = Case((64, 64), 16_500, (1, 1), stride=(63, 63), pad=(0, 0), groups=1, channels=32)
    elements = case.batch * 64 * 64 * case.channels
    assert elements > 2**31
    needed = elements * (2 + 2 + 4)  # value, its gradient, the float32 sums
    if torch.cuda.mem_get_info()[0] < 1.2 * needed:
        pytest.skip(f"less than {1.2 * needed / 2**30:.0f} GiB of GPU memory free")
    last = replace(case, batch=3)
    tail = draw(last, torch.float16, cuda)
    value = torch.zeros(case.batch, 64, 64, 32, dtype=torch.float16, device=cuda)
    value[-3:] = tail[0]
    offset_mask = tail[1][-1:].expand(case.batch, -1, -1, -1).clone()
    offset_mask[-3:] = tail[1]
    result = call(case, backend=backend)(value, offset_mask)
    assert (result[:-3] == 0).all()
    assert_accurate(result[-3:], exact(last, *tail, softmax=False), torch.float16)
    grad = torch.zeros_like(result)
    grad[-3:] = direction(last, value)
    by_value, by_offset = backward(case, "attn", backend)(grad, value, offset_mask)
    assert not by_value[:-3].any()
    assert not by_offset[:-3].any()
    assert_gradients((by_value[-3:], by_offset[-3:]), last, grad[-3:], *tail, softmax=False)


@pytest.mark.parametrize("backend", BACKENDS)
@alone
def test_offset_mask_of_more_than_2_to_the_31_elements(backend, cuda):
    case = Case((1, 1), 1_100_000, (1, 1), pad=(0, 0), groups=1, channels=8, extra=2045)
    needed = case.batch * 2048 * 2  # float16
    if torch.cuda.mem_get_info()[0] < 2.4 * needed:
        pytest.skip(f"less than {2.4 * needed / 2**30:.0f} GiB of GPU memory free")
    offset_mask = torch.zeros(case.batch, 1, 1, 2048, dtype=torch.float16, device=cuda)
    assert offset_mask.numel() > 2**31
    offset_mask[..., 2] = torch.arange(case.batch, device=cuda).remainder(7).view(-1, 1, 1)
    value = torch.ones(case.batch, 1, 1, 8, dtype=torch.float16, device=cuda)
    result = call(case, backend=backend)(value, offset_mask)
    assert torch.equal(result, offset_mask[..., 2:3].expand(-1, -1, -1, 8))
    by_value, by_offset = backward(case, "attn", backend)(value, value, offset_mask)
    assert torch.equal(by_value, result)
    assert (by_offset[..., 2] == 8).all()
    assert not by_offset[..., 3:].any()
