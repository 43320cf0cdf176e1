"""Gradients of attn and attn_softmax in every backend, against autograd through grid_sample."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate, assert_derivatives_hold
from attn_operands import CASES, Case, call, draw, exact_gradients

BACKENDS = ["deform", "deform_jit", "deform_eager", "deform_reference"]
OPS = ["attn", "attn_softmax"]
SMALL = Case((5, 6), groups=3, channels=16, extra=2)
TINY = Case((3, 4), 1, (2, 2), groups=2, channels=2, pad=(0, 1), extra=1, spread=0.75)


def direction(case: Case, like: torch.Tensor, seed: int = 7) -> torch.Tensor:
    """A gradient of the result, of ``like``'s type and device."""
    shape = case.batch, *case.output, case.groups * case.channels
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(like)


def gradients(case: Case, name: str, backend: str, grad, *tensors, **options):
    """By the backend's backward operator."""
    return call(case, f"{name}_backward", backend, **options)(grad, *tensors)


def leaves(tensors) -> list[torch.Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_equal_grid_samples_in_float64(backend, case, dtype, name, device):
    operands = draw(case, dtype, device)
    grad = direction(case, operands[0])
    expected = exact_gradients(case, grad, *operands, softmax=name == "attn_softmax")
    results = gradients(case, name, backend, grad, *operands)
    for result, wanted, operand in zip(results, expected, operands, strict=True):
        assert result.device == operand.device
        assert_accurate(result, wanted, dtype, gradient=True)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", [*BACKENDS, "deform_cpu", "deform_cuda"])
def test_autograd_runs_the_backward_operator(backend, name, device):
    inputs = leaves(draw(SMALL, torch.float64, device))
    grad = direction(SMALL, inputs[0])
    result = call(SMALL, name, backend)(*inputs)
    assert result.requires_grad
    got = torch.autograd.grad(result, inputs, grad)
    wanted = gradients(SMALL, name, backend, grad, *(t.detach() for t in inputs))
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    if backend != "deform_eager":
        assert "AttnFunction" in result.grad_fn.name()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_hold_numerically(backend, name, device):
    inputs = leaves(draw(TINY, torch.float64, device))
    run = call(TINY, name, backend)
    assert_derivatives_hold(run, inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPS)
def test_point_at_no_real_place_has_gradient_0(name, backend, device):
    value, offset_mask = draw(SMALL, torch.float64, device)
    triples = offset_mask[..., :-2].unflatten(-1, (3, 9, 3))
    triples[..., 0, 0] = float("nan")
    triples[..., 1, 1] = float("inf")
    triples[..., 2, :2] = 1e30
    triples[..., 3, 0] = -99
    grad = direction(SMALL, value)
    by_value, by_offset = gradients(SMALL, name, backend, grad, value, offset_mask)
    assert torch.isfinite(by_value).all()
    assert torch.isfinite(by_offset).all()
    by_triple = by_offset[..., :-2].unflatten(-1, (3, 9, 3))
    assert (by_triple[..., :4, :2] == 0).all()
    if name == "attn":
        assert (by_triple[..., :4, 2] == 0).all()
    assert (by_triple[..., 4:, :] != 0).any()

    far = offset_mask.clone()
    far[..., :-2].unflatten(-1, (3, 9, 3))[..., :4, :2] = -99
    softmax = name == "attn_softmax"
    expected = exact_gradients(SMALL, grad, value, far, softmax=softmax)
    assert_accurate(by_value, expected[0], torch.float64)
    assert_accurate(by_offset, expected[1], torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_weight_of_a_point_outside_the_map_doesnt_reach_gradients(backend, dtype, device):
    case = Case((4, 4), 1, (1, 2), pad=(0, 0), groups=1, channels=2)
    value, offset_mask = draw(case, dtype, device)
    offset_mask[..., 3] = 99.0
    offset_mask[..., 5] = float("nan")
    grad = direction(case, value)
    by_value, by_offset = gradients(case, "attn", backend, grad, value, offset_mask)
    assert torch.isfinite(by_value).all()
    assert (by_offset[..., 3:] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_at_and_past_the_border_is_0_and_inside_is_one_sided(backend, dtype, device):
    """One point for each picture, on a map of width 5 whose column c holds 2^c."""
    places = [-1.0, -0.75, 0.0, 1.0, 2.5, 4.0, 4.5, 5.0, 7.0]
    by_x = [0.0, 1.0, 1.0, 2.0, 4.0, -16.0, -16.0, 0.0, 0.0]
    by_weight = [0.0, 0.25, 1.0, 2.0, 6.0, 16.0, 8.0, 0.0, 0.0]
    case = Case((1, 5), len(places), (1, 1), stride=(1, 5), pad=(0, 0), groups=1, channels=1)
    row = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=dtype, device=device)
    for vertical in (False, True):
        value = row.view(1, 1, 5, 1).repeat(len(places), 1, 1, 1)
        offset_mask = torch.zeros(len(places), 1, 1, 3, dtype=dtype, device=device)
        offset_mask[:, 0, 0, int(vertical)] = torch.tensor(places)
        offset_mask[..., 2] = 1
        this = case
        if vertical:
            value = value.transpose(1, 2).contiguous()
            this = replace(case, size=(5, 1), stride=(5, 1))
        grad = torch.ones(len(places), 1, 1, 1, dtype=dtype, device=device)
        by_value, by_offset = gradients(this, "attn", backend, grad, value, offset_mask)
        assert by_offset[:, 0, 0, int(vertical)].tolist() == by_x
        assert by_offset[:, 0, 0, 2].tolist() == by_weight
        sums = by_value.flatten(1).sum(1).tolist()
        assert sums == [0.0, 0.25, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_channels_past_the_points_have_gradient_0(backend, name, device):
    operands = draw(SMALL, device=device)
    grad = direction(SMALL, operands[0])
    by_offset = gradients(SMALL, name, backend, grad, *operands)[1]
    assert by_offset.shape == operands[1].shape
    assert (by_offset[..., -2:] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", [replace(SMALL, batch=0), Case((2, 6), pad=(0, 0))], ids=str)
def test_gradient_of_an_empty_result_is_0(backend, case, device):
    inputs = leaves(draw(case, device=device))
    call(case, "attn", backend)(*inputs).sum().backward()
    assert all((tensor.grad == 0).all() for tensor in inputs)


@pytest.mark.parametrize("index", [0, 1])
def test_each_operand_alone_may_want_a_gradient(index, device):
    everything = leaves(draw(SMALL, torch.float64, device))
    expected = torch.autograd.grad(call(SMALL)(*everything).sum(), everything)
    inputs = [tensor.detach() for tensor in everything]
    inputs[index].requires_grad_()
    (gradient,) = torch.autograd.grad(call(SMALL)(*inputs).sum(), inputs[index])
    torch.testing.assert_close(gradient, expected[index])


@pytest.mark.parametrize("offset_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_have_their_operands_types(backend, dtype, offset_dtype, device):
    operands = draw(SMALL, dtype, device, offset_dtype=offset_dtype)
    grad = direction(SMALL, operands[0])
    by_value, by_offset = gradients(SMALL, "attn_softmax", backend, grad, *operands)
    expected = exact_gradients(SMALL, grad, *operands, softmax=True)
    assert_accurate(by_value, expected[0], dtype, gradient=True)
    assert by_offset.dtype == offset_dtype
    # As good as the coarser of the two types, which value's sums and the result are rounded to.
    coarser = max(dtype, offset_dtype, key=lambda kind: torch.finfo(kind).eps)
    assert_accurate(by_offset.to(coarser), expected[1], coarser, gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_in_any_memory_order(backend, device):
    operands = draw(SMALL, device=device)
    grad = direction(SMALL, operands[0])
    expected = gradients(SMALL, "attn_softmax", backend, grad, *operands)
    shuffled = [t.transpose(0, -1).contiguous().transpose(0, -1) for t in (grad, *operands)]
    assert not any(tensor.is_contiguous() for tensor in shuffled)
    for ours, theirs in zip(
        gradients(SMALL, "attn_softmax", backend, *shuffled), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [33, 65])
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_pictures(backend, batch, device):
    case = replace(SMALL, batch=batch)
    operands = draw(case, device=device)
    grad = direction(case, operands[0])
    expected = exact_gradients(case, grad, *operands, softmax=False)
    for ours, theirs in zip(
        gradients(case, "attn", backend, grad, *operands), expected, strict=True
    ):
        assert_accurate(ours, theirs, torch.float32, gradient=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_channels_in_float64(backend, device):
    case = Case((4, 4), groups=1, channels=1025)
    operands = draw(case, torch.float64, device)
    grad = direction(case, operands[0])
    expected = exact_gradients(case, grad, *operands, softmax=True)
    for ours, theirs in zip(
        gradients(case, "attn_softmax", backend, grad, *operands), expected, strict=True
    ):
        assert_accurate(ours, theirs, torch.float64, gradient=True)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_points(backend, name, device):
    """More than a block of the GPU's shared memory takes."""
    case = Case((13, 14), 1, (13, 13), pad=(6, 6), groups=2, channels=2, reach=3.0)
    operands = draw(case, device=device)
    grad = direction(case, operands[0])
    expected = exact_gradients(case, grad, *operands, softmax=name == "attn_softmax")
    for ours, theirs in zip(gradients(case, name, backend, grad, *operands), expected, strict=True):
        assert_accurate(ours, theirs, torch.float32, gradient=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_gradient_of_value_sums_in_float32(backend, dtype, device):
    """4096 ones on one pixel: bfloat16 stands still at 256, float16 at 2048."""
    case = Case((64, 64), 1, (1, 1), pad=(0, 0), groups=1, channels=8)
    value = torch.zeros(1, 64, 64, 8, dtype=dtype, device=device)
    offset_mask = torch.ones(1, 64, 64, 3, dtype=torch.float32, device=device)
    offset_mask[..., 0] = -torch.arange(64.0).view(1, 1, 64)
    offset_mask[..., 1] = -torch.arange(64.0).view(1, 64, 1)
    grad = torch.ones(1, 64, 64, 8, dtype=dtype, device=device)
    by_value, _ = gradients(case, "attn", backend, grad, value, offset_mask)
    assert (by_value[0, 0, 0] == 4096).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_deterministic_backward_repeats_bit_for_bit(dtype, device):
    case = Case((16, 16), groups=8, channels=16, reach=4.0)
    operands = draw(case, dtype, device)
    grad = direction(case, operands[0])
    torch.use_deterministic_algorithms(True)
    try:
        first = gradients(case, "attn_softmax", "deform", grad, *operands)
        for _ in range(9):
            again = gradients(case, "attn_softmax", "deform", grad, *operands)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_number_of_threads_changes_no_bit(dtype):
    case = Case((20, 20), groups=8, channels=16)
    operands = draw(case, dtype)
    grad = direction(case, operands[0])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = gradients(case, "attn", "deform", grad, *operands)
        torch.set_num_threads(4)
        again = gradients(case, "attn", "deform", grad, *operands)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(expected, again, strict=True))


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_kernels_of_lesser_processors_give_the_same(capability, library, tmp_path):
    """The instruction set is chosen once a process, so another process takes another."""
    calls = []
    for case in CASES:
        for dtype in DTYPES:
            operands = draw(case, dtype, seed=3)
            calls.append((case, dtype, direction(case, operands[0]), *operands))
    inputs, outputs = tmp_path / "operands.pt", tmp_path / "results.pt"
    torch.save([(*tensors, *case.parameters) for case, _, *tensors in calls], inputs)
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
capability = torch.backends.cpu.get_cpu_capability()
run = torch.ops.deform_cpu.attn_softmax_backward
results = [run(*arguments) for arguments in torch.load({str(inputs)!r})]
torch.save(dict(capability=capability, results=results), {str(outputs)!r})
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    answer = torch.load(outputs)
    if capability == "avx2" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX2")
    assert answer["capability"] == {"default": "DEFAULT", "avx2": "AVX2"}[capability]
    for (case, dtype, *tensors), results in zip(calls, answer["results"], strict=True):
        expected = exact_gradients(case, *tensors, softmax=True)
        for ours, theirs in zip(results, expected, strict=True):
            assert_accurate(ours, theirs, dtype, gradient=True)
