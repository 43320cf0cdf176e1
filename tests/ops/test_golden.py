"""Results and gradients of deformops 3.0.1 on a GPU, as golden/make_golden.py recorded them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from accuracy import scaled_error

GOLDEN = np.load(Path(__file__).parent / "golden" / "golden.npz")
CASES = sorted({name.split("/")[0] for name in GOLDEN.files})
OPERANDS = {"msda": 5, "attn": 2, "conv": 5}
# deformops multiplies and sums in float32, in another order than we do.
BOUND = 2e-5


def op_of(case: str) -> str:
    op = case.split("_")[0]
    return f"{op}_softmax" if "softmax" in case else op


def geometry_of(case: str) -> list[int | float | bool]:
    numbers = [int(x) if x == int(x) else float(x) for x in GOLDEN[f"{case}/geometry"]]
    if case.startswith("attn"):
        numbers[-2:] = [float(numbers[-2]), bool(numbers[-1])]
    return numbers


def test_every_operator_and_method_is_recorded():
    assert {op_of(case) for case in CASES} == {
        "msda",
        "msda_softmax",
        "attn",
        "attn_softmax",
        "conv",
    }


@pytest.mark.parametrize("backend", ["deform", "deform_eager", "deform_reference"])
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_are_those_of_deformops(case, backend, device):
    operands: list[torch.Tensor | None] = []
    for index in range(OPERANDS[case.split("_")[0]]):
        name = f"{case}/operand{index}"
        operands.append(torch.tensor(GOLDEN[name], device=device) if name in GOLDEN else None)
    for operand in operands:
        if operand is not None and operand.is_floating_point():
            operand.requires_grad_()
    result = getattr(getattr(torch.ops, backend), op_of(case))(*operands, *geometry_of(case))
    assert scaled_error(result, torch.tensor(GOLDEN[f"{case}/result"])) <= BOUND
    result.backward(torch.tensor(GOLDEN[f"{case}/cotangent"], device=device))
    gradients = [name for name in GOLDEN.files if name.startswith(f"{case}/gradient")]
    assert gradients
    for name in gradients:
        operand = operands[int(name.removeprefix(f"{case}/gradient"))]
        assert scaled_error(operand.grad, torch.tensor(GOLDEN[name])) <= BOUND, name
