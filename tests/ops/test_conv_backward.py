"""Gradients of conv in every backend, against autograd through grid_sample and a product."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate, assert_derivatives_hold
from conv_operands import (
    CASES,
    Case,
    call,
    converted,
    direction,
    draw,
    exact_gradients,
    given,
    gradients,
    leaves,
)

BACKENDS = ["deform", "deform_jit", "deform_eager", "deform_reference"]
SMALL = Case((5, 6), groups=2, channels=12, outputs=7, offset_groups=3)
TINY = Case((3, 4), 1, (2, 2), groups=2, channels=2, outputs=1, offset_groups=2, pad=(0, 1))


def assert_gradients(case: Case, results, grad, operands) -> None:
    """As good as the coarser of value's type and the operand's, which sums are rounded to."""
    expected = exact_gradients(case, grad, operands)
    for ours, theirs, operand in zip(results, expected, given(operands), strict=True):
        assert (ours.dtype, ours.device) == (operand.dtype, operand.device)
        coarser = max(grad.dtype, operand.dtype, key=lambda kind: torch.finfo(kind).eps)
        assert_accurate(ours.to(coarser), theirs, coarser, gradient=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_equal_grid_samples_in_float64(backend, case, dtype, device):
    operands = draw(case, dtype, device)
    grad = direction(case, operands[0])
    assert_gradients(case, gradients(case, backend, grad, operands), grad, operands)


@pytest.mark.parametrize("case", [SMALL, replace(SMALL, mask=False, bias=False)], ids=str)
@pytest.mark.parametrize("backend", [*BACKENDS, "deform_cpu", "deform_cuda"])
def test_autograd_runs_the_backward_operator(backend, case, device):
    inputs = leaves(draw(case, torch.float64, device))
    grad = direction(case, inputs[0])
    result = call(case, backend)(*inputs)
    assert result.requires_grad
    got = torch.autograd.grad(result, given(inputs), grad)
    wanted = gradients(case, backend, grad, converted(inputs, torch.float64))
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)
    if backend != "deform_eager":
        assert "ConvFunction" in result.grad_fn.name()


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_hold_numerically(backend, mask, device):
    case = replace(TINY, mask=mask, bias=mask)
    inputs = leaves(draw(case, torch.float64, device))

    def run(*tensors):
        rest = iter(tensors)
        return call(case, backend)(*(None if t is None else next(rest) for t in inputs))

    assert_derivatives_hold(run, given(inputs))


@pytest.mark.parametrize("backend", BACKENDS)
def test_point_at_no_real_place_has_gradient_0(backend, device):
    value, offset, *others = draw(SMALL, torch.float64, device)
    far = offset.clone()
    far[..., :4, :] = -99
    offset[..., 0, 0] = float("nan")
    offset[..., 1, 1] = float("inf")
    offset[..., 2, :] = 1e30
    offset[..., 3, :] = -99
    grad = direction(SMALL, value)
    results = gradients(SMALL, backend, grad, [value, offset, *others])
    assert (results[1][..., :4, :] == 0).all()
    assert (results[2][..., :4] == 0).all()
    assert (results[1][..., 4:, :] != 0).any()
    assert_gradients(SMALL, results, grad, [value, far, *others])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_mask_of_a_point_outside_the_map_doesnt_reach_gradients(backend, dtype, device):
    value, offset, mask, *others = draw(SMALL, dtype, device)
    offset[:, 1::2, ..., 3, :] = 99.0
    finite = [value, offset, mask.clone(), *others]
    mask[:, 1::2, ..., 3] = float("nan")
    grad = direction(SMALL, value)
    results = gradients(SMALL, backend, grad, [value, offset, mask, *others])
    assert_gradients(SMALL, results, grad, finite)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_at_and_past_the_border_is_0_and_inside_is_one_sided(backend, dtype, device):
    """One point for each picture, on a map of width 5 whose column c holds 2^c."""
    places = [-1.0, -0.75, 0.0, 1.0, 2.5, 4.0, 4.5, 5.0, 7.0]
    by_place = [0.0, 1.0, 1.0, 2.0, 4.0, -16.0, -16.0, 0.0, 0.0]
    by_mask = [0.0, 0.25, 1.0, 2.0, 6.0, 16.0, 8.0, 0.0, 0.0]
    count = len(places)
    case = Case((1, 5), count, (1, 1), (1, 5), (0, 0), channels=1, outputs=1, bias=False)
    row = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=dtype, device=device)
    mask = torch.ones(count, 1, 1, 1, 1, dtype=dtype, device=device)
    weight = torch.ones(1, 1, 1, 1, dtype=dtype, device=device)
    for axis in (0, 1):  # dy, dx
        value = row.view(1, 1, 5, 1).repeat(count, 1, 1, 1)
        offset = torch.zeros(count, 1, 1, 1, 1, 2, dtype=dtype, device=device)
        offset[..., axis] = torch.tensor(places).view(-1, 1, 1, 1, 1)
        this = case
        if axis == 0:
            value = value.transpose(1, 2).contiguous()
            this = replace(case, size=(5, 1), stride=(5, 1))
        grad = torch.ones(count, 1, 1, 1, dtype=dtype, device=device)
        results = gradients(this, backend, grad, [value, offset, mask, weight, None])
        assert results[1][..., axis].flatten().tolist() == by_place
        assert results[2].flatten().tolist() == by_mask
        sums = results[0].flatten(1).sum(1).tolist()
        assert sums == [0.0, 0.25, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]
        assert results[3].item() == sum(by_mask)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", [replace(SMALL, batch=0), Case((2, 6), pad=(0, 0))], ids=str)
def test_gradient_of_an_empty_result_is_0(backend, case, device):
    inputs = leaves(draw(case, device=device))
    call(case, backend)(*inputs).sum().backward()
    assert all((tensor.grad == 0).all() for tensor in inputs)


@pytest.mark.parametrize("index", range(5))
def test_each_operand_alone_may_want_a_gradient(index, device):
    everything = leaves(draw(SMALL, torch.float64, device))
    expected = torch.autograd.grad(call(SMALL)(*everything).sum(), everything)
    inputs = converted(everything, torch.float64)
    inputs[index].requires_grad_()
    (gradient,) = torch.autograd.grad(call(SMALL)(*inputs).sum(), inputs[index])
    torch.testing.assert_close(gradient, expected[index])


@pytest.mark.parametrize("mask_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("offset_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_have_their_operands_types(backend, dtype, offset_dtype, mask_dtype, device):
    operands = draw(SMALL, dtype, device, offset_dtype=offset_dtype, mask_dtype=mask_dtype)
    grad = direction(SMALL, operands[0])
    assert_gradients(SMALL, gradients(SMALL, backend, grad, operands), grad, operands)


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_in_any_memory_order(backend, device):
    operands = draw(SMALL, device=device)
    grad = direction(SMALL, operands[0])
    expected = gradients(SMALL, backend, grad, operands)
    shuffled = [t.transpose(0, -1).contiguous().transpose(0, -1) for t in (grad, *operands[:4])]
    assert not any(tensor.is_contiguous() for tensor in shuffled)
    results = gradients(SMALL, backend, shuffled[0], [*shuffled[1:], operands[4]])
    for ours, theirs in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [33, 65])
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_pictures(backend, batch, device):
    case = replace(SMALL, batch=batch)
    operands = draw(case, device=device)
    grad = direction(case, operands[0])
    assert_gradients(case, gradients(case, backend, grad, operands), grad, operands)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_channels_in_float64(backend, device):
    case = Case((4, 4), 1, channels=1025, outputs=3)
    operands = draw(case, torch.float64, device)
    grad = direction(case, operands[0])
    assert_gradients(case, gradients(case, backend, grad, operands), grad, operands)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_points(backend, device):
    case = Case((9, 10), 1, (13, 11), pad=(6, 5), channels=3, outputs=4, reach=3.0)
    operands = draw(case, device=device)
    grad = direction(case, operands[0])
    assert_gradients(case, gradients(case, backend, grad, operands), grad, operands)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_gradients_of_value_and_weight_sum_in_float32(backend, dtype, device):
    """4096 ones on one pixel: bfloat16 stands still at 256, float16 at 2048."""
    case = Case((64, 64), 1, (1, 1), pad=(0, 0), channels=8, outputs=8, mask=False, bias=False)
    value = torch.ones(1, 64, 64, 8, dtype=dtype, device=device)
    offset = torch.empty(1, 64, 64, 1, 1, 2, dtype=torch.float32, device=device)
    offset[..., 0] = -torch.arange(64.0).view(1, 64, 1, 1, 1)
    offset[..., 1] = -torch.arange(64.0).view(1, 1, 64, 1, 1)
    weight = torch.eye(8, dtype=dtype, device=device).view(8, 8, 1, 1)
    grad = torch.ones(1, 64, 64, 8, dtype=dtype, device=device)
    by_value, _, by_weight = gradients(case, backend, grad, [value, offset, None, weight, None])
    assert (by_value[0, 0, 0] == 4096).all()
    assert (by_weight == 4096).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_deterministic_backward_repeats_bit_for_bit(dtype, device):
    case = Case((16, 16), groups=2, channels=32, outputs=16, offset_groups=4, reach=4.0)
    operands = draw(case, dtype, device)
    grad = direction(case, operands[0])
    torch.use_deterministic_algorithms(True)
    try:
        first = gradients(case, "deform", grad, operands)
        for _ in range(9):
            again = gradients(case, "deform", grad, operands)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_kernels_of_lesser_processors_give_the_same(capability, library, tmp_path):
    """The instruction set is chosen once a process, so another process takes another."""
    calls = []
    for case in CASES:
        for dtype in DTYPES:
            operands = draw(case, dtype, seed=3)
            calls.append((case, direction(case, operands[0]), operands))
    inputs, outputs = tmp_path / "operands.pt", tmp_path / "results.pt"
    torch.save([(grad, *tensors, *case.parameters) for case, grad, tensors in calls], inputs)
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
capability = torch.backends.cpu.get_cpu_capability()
run = torch.ops.deform_cpu.conv_backward
results = [run(*arguments) for arguments in torch.load({str(inputs)!r})]
torch.save(dict(capability=capability, results=results), {str(outputs)!r})
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    answer = torch.load(outputs)
    if capability == "avx2" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX2")
    assert answer["capability"] == {"default": "DEFAULT", "avx2": "AVX2"}[capability]
    for (case, grad, operands), results in zip(calls, answer["results"], strict=True):
        present = [r for r, operand in zip(results, operands, strict=True) if operand is not None]
        assert_gradients(case, present, grad, operands)
