"""conv under inference mode and autocast, which worker threads don't take from their caller."""

from __future__ import annotations

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from conv_operands import Case, call, direction, draw, exact, exact_gradients, gradients

# Some tiles of outputs for each thread.
LARGE = Case((24, 24), 1, channels=128, outputs=8, offset_groups=2)


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inference_mode_on_any_number_of_threads(dtype, threads, device):
    operands = draw(LARGE, dtype, device)
    expected = exact(LARGE, *operands)
    with torch.inference_mode():
        assert_accurate(call(LARGE)(*operands), expected, dtype)
        inside = [tensor.clone() for tensor in operands]
        assert_accurate(call(LARGE)(*inside), expected, dtype)


@pytest.mark.parametrize("backend", ["deform_cpu", "deform_cuda", "deform_jit", "deform_eager"])
def test_autocast_leaves_a_backends_own_operator_in_float32(backend, threads, device):
    operands = draw(LARGE, torch.float32, device)
    grad = direction(LARGE, operands[0])
    expected = exact(LARGE, *operands)
    with torch.autocast(device.type, torch.bfloat16):
        result = call(LARGE, backend)(*operands)
        results = gradients(LARGE, backend, grad, operands)
    assert_accurate(result, expected, torch.float32)
    for ours, theirs in zip(results, exact_gradients(LARGE, grad, operands), strict=True):
        assert_accurate(ours, theirs, torch.float32, gradient=True)


def test_deterministic_algorithms_keep_float32_under_autocast(device):
    operands = draw(LARGE, torch.float32, device)
    grad = direction(LARGE, operands[0])
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autocast(device.type, torch.bfloat16):
            results = gradients(LARGE, "deform", grad, operands)
    finally:
        torch.use_deterministic_algorithms(False)
    for ours, theirs in zip(results, exact_gradients(LARGE, grad, operands), strict=True):
        assert_accurate(ours, theirs, torch.float32, gradient=True)
