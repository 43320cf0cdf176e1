"""What only a GPU can show: streams, graphs, several devices, sizes past 32 bits."""

from __future__ import annotations

import pytest
import torch
from accuracy import DTYPES
from msda_operands import Case, assert_close, draw, grid_sample_form

CASE = Case(((16, 12), (8, 6)), queries=40, heads=4, channels=32)


def test_runs_on_the_current_stream(cuda):
    """The operands change on the same stream, behind work that is still running."""
    operands = draw(CASE, device=cuda)
    value = operands.value.clone()
    operands.value.zero_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        operands.value.copy_(value)
        result = torch.ops.deform.msda_softmax(*operands)
        operands.value.zero_()
    stream.synchronize()
    expected = grid_sample_form(operands.with_(value=value), softmax=True)
    assert_close(result, expected, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_replays_from_a_graph(dtype, cuda):
    operands = draw(CASE, dtype, cuda)
    torch.ops.deform.msda_softmax(*operands)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = torch.ops.deform.msda_softmax(*operands)
    other = draw(CASE, dtype, cuda, seed=5)
    for captured, replayed in zip(operands, other, strict=True):
        captured.copy_(replayed)
    graph.replay()
    torch.cuda.synchronize()
    assert_close(result, grid_sample_form(other, softmax=True), dtype)


def test_runs_on_the_device_of_value_and_leaves_the_current_one(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    operands = draw(CASE, device="cuda:1")
    assert torch.cuda.current_device() == 0
    result = torch.ops.deform.msda_softmax(*operands)
    assert result.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    assert_close(result, grid_sample_form(operands, softmax=True), torch.float32)
    again = torch.ops.deform.msda_softmax(*draw(CASE, device="cuda:0"))
    assert torch.equal(again.cpu(), result.cpu())


def test_value_whose_memory_is_not_aligned_for_vectors(cuda):
    for dtype in DTYPES:
        operands = draw(CASE, dtype, cuda)
        storage = torch.empty(operands.value.numel() + 1, dtype=dtype, device=cuda)
        shifted = storage[1:].view_as(operands.value).copy_(operands.value)
        result = torch.ops.deform.msda_softmax(*operands.with_(value=shifted))
        assert torch.equal(result, torch.ops.deform.msda_softmax(*operands))


def test_value_of_more_than_2_to_the_31_elements(cuda):
    case = Case(((32, 32),), batch=66_000, queries=1, heads=1, channels=32, points=2)
    needed = case.batch * 1024 * case.channels * 2
    if torch.cuda.mem_get_info()[0] < 2 * needed:
        pytest.skip(f"less than {2 * needed / 2**30:.0f} GiB of GPU memory free")
    value = torch.zeros(case.batch, 1024, 1, case.channels, dtype=torch.float16, device=cuda)
    assert value.numel() > 2**31
    end = Case(case.levels, 3, case.queries, case.heads, case.channels, case.points)
    last = draw(end, torch.float16, cuda)
    value[-3:] = last.value
    locations = last.sampling_locations[-1:].expand(case.batch, -1, -1, -1, -1, -1).clone()
    locations[-3:] = last.sampling_locations
    logits = last.attention_weights[-1:].expand(case.batch, -1, -1, -1).clone()
    logits[-3:] = last.attention_weights
    table = last.spatial_shapes, last.level_start_index
    result = torch.ops.deform.msda_softmax(value, *table, locations, logits)
    assert (result[:-3] == 0).all()
    assert_close(result[-3:], grid_sample_form(last, softmax=True), torch.float16)
