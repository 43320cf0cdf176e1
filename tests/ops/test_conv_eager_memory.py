"""The memory-bounded form of conv: tiles, row0 and lean give the untiled results, within bounds."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate, scaled_error
from conv_operands import CASES, Case, call, draw, exact, given
from torchvision.ops import deform_conv2d

WIDE = Case((12, 16), batch=1, channels=16, outputs=12)


def peak_bytes(run) -> int:
    """Peak CPU memory of allocations while ``run`` runs, its result included."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    gc.collect()
    now = most = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiles_give_the_untiled_result(case, lean, device):
    operands = draw(case, torch.float64, device)
    expected = call(case, backend="deform_eager")(*operands)
    least = least_bytes(case, operands, lean)
    for max_bytes in (least, 3 * least, 1 << 30):
        result = call(case, backend="deform_eager", max_bytes=max_bytes, lean=lean)(*operands)
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


def least_bytes(case: Case, operands, lean: bool = False) -> int:
    """What the form says that it needs at least."""
    with pytest.raises(RuntimeError, match=r"max_bytes must be at least \d+ for these") as refusal:
        call(case, backend="deform_eager", max_bytes=1, lean=lean)(*operands)
    return int(str(refusal.value).split("at least ")[1].split()[0])


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "case", [WIDE, replace(WIDE, groups=2, offset_groups=4, batch=3), CASES[4]], ids=str
)
def test_scratch_stays_within_max_bytes(case, dtype, lean):
    operands = draw(case, dtype)
    result_bytes = call(case, backend="deform_eager")(*operands).nbytes
    least = least_bytes(case, operands, lean)
    for max_bytes in (least, 2 * least, 8 * least):
        run = call(case, backend="deform_eager", max_bytes=max_bytes, lean=lean)
        assert peak_bytes(lambda run=run: run(*operands)) - result_bytes <= max_bytes


def test_untiled_scratch_is_more_than_the_bound_of_these_tests():
    """Else the test above could not fail."""
    operands = draw(WIDE)
    least = least_bytes(WIDE, operands)
    assert peak_bytes(lambda: call(WIDE, backend="deform_eager")(*operands)) > 8 * least


@pytest.mark.parametrize("lean", [False, True])
def test_streamed_rows_are_the_rows_of_the_whole_result(lean, device):
    case = replace(WIDE, stride=(2, 1), dilation=(1, 2), pad=(1, 2))
    value, offset, mask, weight, bias = draw(case, torch.float64, device)
    expected = call(case)(value, offset, mask, weight, bias)
    rows = case.output[0]
    for first, last in ((0, 2), (2, 3), (3, rows)):
        tile = offset[:, first:last], mask[:, first:last]
        run = call(case, backend="deform_eager", row0=first, lean=lean)
        result = run(value, *tile, weight, bias)
        torch.testing.assert_close(result, expected[:, first:last], rtol=0, atol=1e-12)


def test_rows_past_the_output_are_refused():
    value, offset, mask, weight, bias = draw(WIDE)
    run = call(WIDE, backend="deform_eager", row0=5)
    with pytest.raises(
        RuntimeError, match=r"offset's rows from row0, 5, to 17 must be among the 12"
    ):
        run(value, offset, mask, weight, bias)
    with pytest.raises(RuntimeError, match=r"row0 must be at least 0.*, but is -1"):
        call(WIDE, backend="deform_eager", row0=-1)(value, offset, mask, weight, bias)


def test_lean_is_refused_above_what_float32_counts_exactly():
    value = torch.empty(1, 4097, 4096, 1, device="meta")
    offset = torch.empty(1, 1, 4096, 1, 1, 2, device="meta")
    weight = torch.empty(1, 1, 1, 1, device="meta")
    operator = torch.ops.deform_eager.conv
    with pytest.raises(RuntimeError, match=r"pixels times offset_groups must be at most 2\^24"):
        operator(value, offset, None, weight, None, 1, 1, 0, 0, 1, 1, 1, 1, lean=True)


def test_lean_masks_places_that_are_none(device):
    operands = draw(WIDE, torch.float64, device)
    operands[1].view(-1)[::5] = float("nan")
    operands[1].view(-1)[::7] = float("inf")
    expected = call(WIDE, backend="deform_reference")(*operands)
    result = call(WIDE, backend="deform_eager", lean=True)(*operands)
    assert_accurate(result, expected, torch.float64)


def test_lean_keeps_to_arithmetic_and_look_ups():
    """Each corner costs a cast and a look-up; places cost one mask. No gather, no comparison."""
    operands = draw(WIDE)

    class Lean(torch.nn.Module):
        def forward(self, *tensors):
            return call(WIDE, backend="deform_eager", lean=True)(*tensors)

    program = torch.export.export(Lean(), tuple(operands)).run_decompositions()
    names = [n.target.__name__ for n in program.graph.nodes if n.op == "call_function"]
    assert sum(name.startswith("embedding") for name in names) == 4
    assert not any(name.startswith(("index", "gather", "grid_sample")) for name in names)
    looked_up = names[names.index("embedding.default") :]
    assert not any(name.startswith(("ge.", "le.", "gt.", "lt.", "logical")) for name in looked_up)


@pytest.mark.parametrize("kernel, pad", [(1, 0), (3, 1), (7, 3)])
def test_three_kernels_equal_torchvision_tiled_and_lean(kernel, pad, device):
    """64 channels to 256 on a map of 33 x 40, offsets of 4 pixels, in float32."""
    generator = torch.Generator().manual_seed(0)
    points = kernel * kernel

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator)

    maps, offsets = normal(1, 64, 33, 40), normal(1, 2 * points, 33, 40) * 4
    masks = torch.rand(1, points, 33, 40, generator=generator) * 2
    weight = normal(256, 64, kernel, kernel) * 0.05
    expected = deform_conv2d(maps, offsets, weight, None, padding=pad, mask=masks)
    value = maps.permute(0, 2, 3, 1).to(device)
    offset = offsets.permute(0, 2, 3, 1).unflatten(3, (1, points, 2)).to(device)
    mask = masks.permute(0, 2, 3, 1).unflatten(3, (1, points)).to(device)
    parameters = (1, 1, pad, pad, 1, 1, 1, 1)
    for options in ({}, {"max_bytes": 64 << 20}, {"max_bytes": 64 << 20, "lean": True}):
        result = torch.ops.deform_eager.conv(
            value, offset, mask, weight.to(device), None, *parameters, **options
        )
        assert scaled_error(result.permute(0, 3, 1, 2), expected) <= 1e-5


@pytest.mark.parametrize("options", [{"lean": True}, {"max_bytes": 1 << 20}])
def test_forms_are_differentiable(options, device):
    inputs = [t.requires_grad_() for t in given(draw(WIDE, torch.float64, device))]
    expected = torch.autograd.grad(call(WIDE)(*inputs).square().sum(), inputs)
    run = call(WIDE, backend="deform_eager", **options)
    got = torch.autograd.grad(run(*inputs).square().sum(), inputs)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_bound_holds_for_the_result_of_torchvision():
    operands = draw(WIDE, torch.float32)
    result = call(WIDE, backend="deform_eager", max_bytes=1 << 20)(*operands)
    assert_accurate(result, exact(WIDE, *operands), torch.float32)
