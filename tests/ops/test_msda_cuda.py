"""What only a GPU can show of msda: streams, graphs, devices, atomic sums, sizes past 32 bits."""

from __future__ import annotations

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from msda_operands import (
    Case,
    Operands,
    assert_close,
    call,
    direction,
    draw,
    exact_gradients,
    floats,
    grid_sample_form,
)

CASE = Case(((16, 12), (8, 6)), queries=40, heads=4, channels=32)
HALVES = [torch.float16, torch.bfloat16]
# The public operator takes the kernels compiled ahead.
BACKENDS = ["deform", "deform_jit"]
# Of tests that fill the GPU's memory one runs at a time (pytest-xdist, --dist loadgroup).
alone = pytest.mark.xdist_group("gpu_memory")
# Those that take fp32acc.
NATIVE = ["deform_cuda", "deform_jit"]


def backward(operands: Operands, grad: torch.Tensor, name="msda_softmax", backend="deform", **kw):
    return call(f"{name}_backward", operands, backend, **kw)(grad, *floats(operands))


def assert_gradients(results, operands: Operands, grad: torch.Tensor, *, softmax=True) -> None:
    """Locations are of float32 beside halves, and their gradient is summed in it."""
    expected = exact_gradients(operands, grad, softmax=softmax)
    for ours, theirs, operand in zip(results, expected, floats(operands), strict=True):
        assert_accurate(ours, theirs, operand.dtype, gradient=True)


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose memory is aligned to one element only."""
    storage = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return storage[1:].view_as(tensor).copy_(tensor)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_on_the_current_stream(backend, cuda):
    """The operands change on the same stream, behind work that is still running."""
    operands = draw(CASE, device=cuda)
    grad = direction(operands)
    late = operands.with_(value=torch.zeros_like(operands.value))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.value.copy_(operands.value)
        result = getattr(torch.ops, backend).msda_softmax(*late)
        gradients = backward(late, grad, backend=backend)
        late.value.zero_()
    stream.synchronize()
    assert_close(result, grid_sample_form(operands, softmax=True), torch.float32)
    assert_gradients(gradients, operands, grad)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_replays_from_a_graph(backend, dtype, cuda):
    operands = draw(CASE, dtype, cuda)
    grad = direction(operands)
    getattr(torch.ops, backend).msda_softmax(*operands)
    backward(operands, grad, backend=backend)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = getattr(torch.ops, backend).msda_softmax(*operands)
        gradients = backward(operands, grad, backend=backend)
    other = draw(CASE, dtype, cuda, seed=5)
    for captured, replayed in zip(operands, other, strict=True):
        captured.copy_(replayed)
    for _ in range(2):  # gradients start from zero each time
        graph.replay()
    torch.cuda.synchronize()
    assert_close(result, grid_sample_form(other, softmax=True), dtype)
    assert_gradients(gradients, other, grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_on_the_device_of_value_and_leaves_the_current_one(backend, cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    operands = draw(CASE, device="cuda:1")
    grad = direction(operands)
    assert torch.cuda.current_device() == 0
    result = getattr(torch.ops, backend).msda_softmax(*operands)
    gradients = backward(operands, grad, backend=backend)
    assert {t.device for t in (result, *gradients)} == {torch.device("cuda:1")}
    assert torch.cuda.current_device() == 0
    assert_close(result, grid_sample_form(operands, softmax=True), torch.float32)
    assert_gradients(gradients, operands, grad)
    again = getattr(torch.ops, backend).msda_softmax(*draw(CASE, device="cuda:0"))
    assert torch.equal(again.cpu(), result.cpu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_whose_memory_is_not_aligned_for_vectors(backend, dtype, cuda):
    operands = draw(CASE, dtype, cuda)
    grad = direction(operands)
    moved = operands.with_(value=shifted(operands.value))
    expected = getattr(torch.ops, backend).msda_softmax(*operands)
    assert torch.equal(getattr(torch.ops, backend).msda_softmax(*moved), expected)
    assert_gradients(backward(moved, grad, backend=backend), operands, grad)
    assert_gradients(backward(operands, shifted(grad), backend=backend), operands, grad)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 40, 64, 72, 100, 256, 300])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_number_of_channels_takes_all_threads_of_a_team(backend, dtype, channels, cuda):
    case = Case(((5, 4), (3, 3)), queries=7, heads=3, channels=channels)
    operands = draw(case, dtype, cuda)
    grad = direction(operands)
    result = getattr(torch.ops, backend).msda_softmax(*operands)
    assert_close(result, grid_sample_form(operands, softmax=True), dtype)
    assert_gradients(backward(operands, grad, backend=backend), operands, grad)


@pytest.mark.parametrize("channels", [1, 4, 6, 16, 33])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("backend", NATIVE)
def test_native_sums_of_halves_are_as_good_as_their_type(backend, dtype, channels, cuda):
    """On GPUs before SM 9.0 the same call sums in float32."""
    operands = draw(Case(((8, 8),), queries=50, channels=channels), dtype, cuda)
    grad = direction(operands)
    native = backward(operands, grad, "msda", backend, fp32acc=False)
    assert_gradients(native, operands, grad, softmax=False)
    default = backward(operands, grad, "msda", backend)
    assert all(torch.equal(a, b) for a, b in zip(default[1:], native[1:], strict=True))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("backend", NATIVE)
def test_autograd_hands_fp32acc_on(backend, dtype, cuda):
    """Ones on one pixel: natively, bfloat16 stands still at 256 and float16 at 2048."""
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs SM 9.0")
    locations = torch.full((1, 4096, 1, 1, 1, 2), 0.5, device=cuda)
    weights = torch.ones(1, 4096, 1, 1, device=cuda)
    table = torch.tensor([[1, 1]], device=cuda), torch.tensor([0], device=cuda)
    for fp32acc, expected in ((True, 4096), (False, 256 if dtype == torch.bfloat16 else 2048)):
        value = torch.zeros(1, 1, 1, 8, dtype=dtype, device=cuda, requires_grad=True)
        getattr(torch.ops, backend).msda(
            value, *table, locations, weights, fp32acc
        ).sum().backward()
        assert (value.grad == expected).all()


@pytest.mark.parametrize("name", ["msda", "msda_softmax"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_more_points_or_levels_than_shared_memory_takes_at_once(backend, dtype, name, cuda):
    softmax = name == "msda_softmax"
    for levels, points, channels in (
        (((3, 4),), 1, 2),
        (((6, 7), (3, 3)), 45, 1),
        (((4, 6),), 1600, 40),
        (((2, 3),) * 70, 2, 12),
        (((2, 1),) * 130, 5, 1),
    ):
        operands = draw(Case(levels, 1, 5, 2, channels, points), dtype, cuda)
        grad = direction(operands)
        result = call(name, operands, backend)(*floats(operands))
        assert_accurate(result, grid_sample_form(operands, softmax=softmax), dtype)
        assert_gradients(backward(operands, grad, name, backend), operands, grad, softmax=softmax)


@pytest.mark.parametrize("backend", BACKENDS)
def test_deterministic_backward_equals_the_other(backend, cuda):
    operands = draw(CASE, device=cuda)
    grad = direction(operands)
    fast = backward(operands, grad, backend=backend)
    torch.use_deterministic_algorithms(True)
    try:
        deterministic = backward(operands, grad, backend=backend)
    finally:
        torch.use_deterministic_algorithms(False)
    for ours, theirs in zip(fast, deterministic, strict=True):
        assert_accurate(ours, theirs, torch.float32, gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_takes_no_memory_beside_its_results(backend, cuda):
    operands = draw(Case(((64, 64), (32, 32)), 2, 3000, 8, 32), device=cuda)
    grad = direction(operands)
    backward(operands, grad, backend=backend)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    results = backward(operands, grad, backend=backend)
    torch.cuda.synchronize()
    used = torch.cuda.max_memory_allocated() - before
    assert used <= sum(tensor.nbytes for tensor in results) + 4096


@pytest.mark.parametrize("backend", BACKENDS)
@alone
def test_value_of_more_than_2_to_the_31_elements(backend, cuda):
    case = Case(((32, 32),), batch=66_000, queries=1, heads=1, channels=32, points=2)
    elements = case.batch * 1024 * case.channels
    assert elements > 2**31
    needed = elements * (2 + 2 + 4)  # value, its gradient, the float32 sums
    if torch.cuda.mem_get_info()[0] < 1.2 * needed:
        pytest.skip(f"less than {1.2 * needed / 2**30:.0f} GiB of GPU memory free")
    end = Case(case.levels, 3, case.queries, case.heads, case.channels, case.points)
    last = draw(end, torch.float16, cuda)
    value = torch.zeros(case.batch, 1024, 1, case.channels, dtype=torch.float16, device=cuda)
    value[-3:] = last.value
    locations = last.sampling_locations[-1:].expand(case.batch, -1, -1, -1, -1, -1).clone()
    locations[-3:] = last.sampling_locations
    logits = last.attention_weights[-1:].expand(case.batch, -1, -1, -1).clone()
    logits[-3:] = last.attention_weights
    table = last.spatial_shapes, last.level_start_index
    result = getattr(torch.ops, backend).msda_softmax(value, *table, locations, logits)
    assert (result[:-3] == 0).all()
    assert_close(result[-3:], grid_sample_form(last, softmax=True), torch.float16)

    grad = torch.zeros_like(result)
    grad[-3:] = direction(last)
    operands = Operands(value, *table, locations, logits, case.levels)
    results = backward(operands, grad, backend=backend)
    assert not any(tensor[:-3].any() for tensor in results)
    assert_gradients([tensor[-3:] for tensor in results], last, grad[-3:])


@pytest.mark.parametrize("backend", BACKENDS)
@alone
def test_locations_of_more_than_2_to_the_31_elements(backend, cuda):
    """One pixel, so that each query's result is the sum of its weights."""
    queries, points = 550_000, 2048
    needed = queries * points * (4 + 4 + 2 + 2 + 2)  # locations, weights, their gradients
    if torch.cuda.mem_get_info()[0] < 1.3 * needed:
        pytest.skip(f"less than {1.3 * needed / 2**30:.0f} GiB of GPU memory free")
    locations = torch.full((1, queries, 1, 1, points, 2), 0.5, dtype=torch.float16, device=cuda)
    assert locations.numel() > 2**31
    weights = torch.zeros(1, queries, 1, points, dtype=torch.float16, device=cuda)
    weights[..., -1] = torch.arange(queries, device=cuda).remainder(7).view(1, -1, 1)
    value = torch.ones(1, 1, 1, 8, device=cuda)
    table = torch.tensor([[1, 1]], device=cuda), torch.tensor([0], device=cuda)
    result = getattr(torch.ops, backend).msda(value, *table, locations, weights)
    assert torch.equal(result, weights[:, :, 0, -1:].float().expand(-1, -1, 8))
    del result
    grad = torch.ones(1, queries, 8, device=cuda)
    results = getattr(torch.ops, backend).msda_backward(grad, value, *table, locations, weights)
    total = weights[..., -1].double().sum()
    torch.testing.assert_close(results[0].double(), total.expand(1, 1, 1, 8), rtol=1e-4, atol=0)
    assert (results[2] == 8).all()
