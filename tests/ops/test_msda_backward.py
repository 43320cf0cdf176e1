"""Gradients of msda and msda_softmax in every backend, against autograd through grid_sample."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate, assert_derivatives_hold
from msda_operands import (
    CASES,
    Case,
    Operands,
    call,
    direction,
    draw,
    exact_gradients,
    floats,
    leaves,
)

BACKENDS = ["deform", "deform_jit", "deform_eager", "deform_reference"]
OPS = ["msda", "msda_softmax"]
SMALL = Case(((6, 5), (3, 4)), heads=2, channels=16)
TINY = Case(((3, 4), (2, 2)), batch=1, queries=2, heads=2, channels=2, points=2)


def gradients(name: str, operands: Operands, backend: str, grad: torch.Tensor, **options):
    """By the backend's backward operator."""
    return call(f"{name}_backward", operands, backend, **options)(grad, *floats(operands))


def assert_gradients(results, operands: Operands, grad: torch.Tensor, *, softmax: bool) -> None:
    """Each is of its operand's type, and as good as the coarser of that and value's."""
    expected = exact_gradients(operands, grad, softmax=softmax)
    kinds = operands.value.dtype, *(tensor.dtype for tensor in floats(operands))
    for result, wanted, operand in zip(results, expected, floats(operands), strict=True):
        assert (result.dtype, result.device) == (operand.dtype, operand.device)
        coarsest = max(kinds, key=lambda kind: torch.finfo(kind).eps)
        assert_accurate(result.to(coarsest), wanted, coarsest, gradient=True)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_equal_grid_samples_in_float64(backend, case, dtype, name, device):
    operands = draw(case, dtype, device)
    grad = direction(operands)
    expected = exact_gradients(operands, grad, softmax=name == "msda_softmax")
    results = gradients(name, operands, backend, grad)
    for result, wanted, operand in zip(results, expected, floats(operands), strict=True):
        assert (result.dtype, result.device) == (operand.dtype, operand.device)
        # Locations are of float32 beside halves, and their gradient is summed in it.
        kind = torch.float32 if operand.dtype == torch.float32 else dtype
        assert_accurate(result, wanted, kind, gradient=True)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", [*BACKENDS, "deform_cpu", "deform_cuda"])
def test_autograd_runs_the_backward_operator(backend, name, device):
    operands = draw(SMALL, torch.float64, device)
    inputs, grad = leaves(operands), direction(operands)
    result = call(name, operands, backend)(*inputs)
    got = torch.autograd.grad(result, inputs, grad)
    wanted = gradients(name, operands, backend, grad)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    if backend != "deform_eager":
        assert "MsdaFunction" in result.grad_fn.name()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_hold_numerically(backend, name, device):
    operands = draw(TINY, torch.float64, device)
    run, inputs = call(name, operands, backend), leaves(operands)
    assert_derivatives_hold(run, inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPS)
def test_point_at_no_real_place_has_gradient_0(name, backend, device):
    operands = draw(SMALL, torch.float64, device)
    places = operands.sampling_locations  # (B, Q, G, L, K, 2), four points a level
    places[..., 0, 0, 0] = float("nan")
    places[..., 0, 1, 1] = float("inf")
    places[..., 1, 0, :] = 1e30
    places[..., 1, 1, 0] = -float("inf")
    grad = direction(operands)
    by_value, by_locations, by_weights = gradients(name, operands, backend, grad)
    assert all(torch.isfinite(t).all() for t in (by_value, by_locations, by_weights))
    assert (by_locations[..., :2, :] == 0).all()
    assert (by_locations[..., 2:, :] != 0).any()
    if name == "msda":
        assert (by_weights.unflatten(-1, (2, 4))[..., :2] == 0).all()

    far = places.clone()
    far[..., :2, :] = -99
    expected = exact_gradients(
        operands.with_(sampling_locations=far), grad, softmax=name == "msda_softmax"
    )
    for ours, theirs in zip((by_value, by_locations, by_weights), expected, strict=True):
        assert_accurate(ours, theirs, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_weight_of_a_point_outside_the_map_doesnt_reach_gradients(backend, dtype, device):
    operands = draw(Case(((4, 4),), 1, 3, 1, 2, 2, reach=-0.3), dtype, device)
    operands.sampling_locations[..., 1, :] = 9
    operands.attention_weights[..., 1] = float("nan")
    results = gradients("msda", operands, backend, direction(operands))
    assert all(torch.isfinite(tensor).all() for tensor in results)
    assert (results[1][..., 1, :] == 0).all()
    assert (results[2][..., 1] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_at_and_past_the_border_is_0_and_inside_is_one_sided(backend, dtype, device):
    """One point for each picture, on a map of width 4 whose column c holds 2^c."""
    places = [-1.0, -0.75, 0.0, 1.0, 2.5, 3.0, 3.5, 4.0, 7.0]
    by_x = [0.0, 1.0, 1.0, 2.0, 4.0, -8.0, -8.0, 0.0, 0.0]
    by_weight = [0.0, 0.25, 1.0, 2.0, 6.0, 8.0, 4.0, 0.0, 0.0]
    pictures = len(places)
    row = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=dtype, device=device)
    value = row.view(1, 4, 1, 1).repeat(pictures, 1, 1, 1)
    for vertical in (False, True):
        locations = torch.full((pictures, 1, 1, 1, 1, 2), 0.5, dtype=dtype, device=device)
        locations[..., int(vertical)] = ((torch.tensor(places) + 0.5) / 4).view(-1, 1, 1, 1, 1)
        operands = Operands(
            value,
            torch.tensor([[4, 1]] if vertical else [[1, 4]], device=device),
            torch.tensor([0], device=device),
            locations,
            torch.ones(pictures, 1, 1, 1, dtype=dtype, device=device),
            ((4, 1),) if vertical else ((1, 4),),
        )
        grad = torch.ones(pictures, 1, 1, dtype=dtype, device=device)
        by_value, by_locations, by_weights = gradients("msda", operands, backend, grad)
        assert (by_locations[..., int(vertical)].flatten() / 4).tolist() == by_x
        assert by_weights.flatten().tolist() == by_weight
        sums = by_value.flatten(1).sum(1).tolist()
        assert sums == [0.0, 0.25, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("empty", ["batch", "queries"])
def test_gradient_of_an_empty_result_is_0(backend, empty, device):
    operands = draw(Case(((4, 4), (2, 2)), **{empty: 0}), torch.float16, device)
    inputs = leaves(operands)
    call("msda_softmax", operands, backend)(*inputs).sum().backward()
    assert all((tensor.grad == 0).all() for tensor in inputs)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_each_operand_alone_may_want_a_gradient(index, device):
    operands = draw(SMALL, torch.float64, device)
    run, everything = call("msda", operands), leaves(operands)
    expected = torch.autograd.grad(run(*everything).sum(), everything)
    inputs = [tensor.detach() for tensor in everything]
    inputs[index].requires_grad_()
    (gradient,) = torch.autograd.grad(run(*inputs).sum(), inputs[index])
    torch.testing.assert_close(gradient, expected[index])


@pytest.mark.parametrize("location_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_have_their_operands_types(backend, dtype, location_dtype, device):
    operands = draw(SMALL, dtype, device, location_dtype=location_dtype)
    operands = operands.with_(attention_weights=operands.attention_weights.to(location_dtype))
    grad = direction(operands)
    results = gradients("msda_softmax", operands, backend, grad)
    assert_gradients(results, operands, grad, softmax=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_by_level_and_a_table_of_32_bit_integers(backend, device):
    operands = draw(SMALL, device=device)
    grad = direction(operands)
    expected = gradients("msda_softmax", operands, backend, grad)
    other = operands.with_(
        spatial_shapes=operands.spatial_shapes.int(),
        level_start_index=operands.level_start_index.int(),
        attention_weights=operands.attention_weights.unflatten(-1, (2, SMALL.points)),
    )
    by_value, by_locations, by_weights = gradients("msda_softmax", other, backend, grad)
    assert by_weights.shape == other.attention_weights.shape
    for ours, theirs in zip((by_value, by_locations, by_weights.flatten(3)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_in_any_memory_order(backend, device):
    operands = draw(SMALL, device=device)
    grad = direction(operands)
    expected = gradients("msda_softmax", operands, backend, grad)

    def shuffle(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)

    tensors = [shuffle(tensor) for tensor in operands]
    assert not any(t.is_contiguous() for t in (shuffle(grad), *tensors) if t.dim() > 1)
    other = Operands(*tensors, operands.levels)
    results = gradients("msda_softmax", other, backend, shuffle(grad))
    for ours, theirs in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [33, 65])
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_pictures(backend, batch, device):
    operands = draw(replace(SMALL, batch=batch), device=device)
    grad = direction(operands)
    assert_gradients(gradients("msda", operands, backend, grad), operands, grad, softmax=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_channels_in_float64(backend, device):
    operands = draw(Case(((4, 4),), 1, 5, 1, 1025, 2), torch.float64, device)
    grad = direction(operands)
    assert_gradients(
        gradients("msda_softmax", operands, backend, grad), operands, grad, softmax=True
    )


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_points_and_levels(backend, dtype, name, device):
    """More than the GPU's shared memory takes at once of either."""
    for levels, points in ((((4, 6), (3, 3)), 90), (((2, 3),) * 70, 3)):
        operands = draw(Case(levels, 1, 5, 2, 2, points), dtype, device)
        grad = direction(operands)
        results = gradients(name, operands, backend, grad)
        assert_gradients(results, operands, grad, softmax=name == "msda_softmax")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("queries", [4096, 600])  # many to a pixel, and few
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_gradient_of_value_sums_in_float32(backend, queries, dtype, device):
    """That many ones on one pixel: bfloat16 stands still at 256, float16 at 2048."""
    rows = 64 if queries == 4096 else 4096
    operands = Operands(
        torch.zeros(1, rows, 1, 8, dtype=dtype, device=device),
        torch.tensor([[1, rows]], device=device),
        torch.tensor([0], device=device),
        torch.full((1, queries, 1, 1, 1, 2), 0.5 / rows, device=device),
        torch.ones(1, queries, 1, 1, device=device),
        ((1, rows),),
    )
    operands.sampling_locations[..., 1] = 0.5
    grad = torch.ones(1, queries, 8, dtype=dtype, device=device)
    by_value, _, _ = gradients("msda", operands, backend, grad)
    assert (by_value[0, 0] == queries).all()
    assert not by_value[0, 1:].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_deterministic_backward_repeats_bit_for_bit(dtype, device):
    operands = draw(Case(((16, 16), (8, 8)), queries=200, heads=8, channels=16), dtype, device)
    grad = direction(operands)
    torch.use_deterministic_algorithms(True)
    try:
        first = gradients("msda_softmax", operands, "deform", grad)
        for _ in range(9):
            again = gradients("msda_softmax", operands, "deform", grad)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries", [400, 30])  # with heads' pixels packed, and without
def test_number_of_threads_changes_no_bit(queries, dtype):
    operands = draw(Case(((20, 20),), queries=queries, heads=3, channels=24), dtype)
    grad = direction(operands)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = gradients("msda", operands, "deform", grad)
        torch.set_num_threads(4)
        again = gradients("msda", operands, "deform", grad)
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
            calls.append((operands, direction(operands)))
    inputs, outputs = tmp_path / "operands.pt", tmp_path / "results.pt"
    torch.save([(grad, *operands) for operands, grad in calls], inputs)
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
capability = torch.backends.cpu.get_cpu_capability()
run = torch.ops.deform_cpu.msda_softmax_backward
results = [run(*arguments) for arguments in torch.load({str(inputs)!r})]
torch.save(dict(capability=capability, results=results), {str(outputs)!r})
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    answer = torch.load(outputs)
    if capability == "avx2" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX2")
    assert answer["capability"] == {"default": "DEFAULT", "avx2": "AVX2"}[capability]
    for (operands, grad), results in zip(calls, answer["results"], strict=True):
        assert_gradients(results, operands, grad, softmax=True)
