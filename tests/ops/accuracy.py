"""How far a result may be from the float64 reference of the same operands, for each dtype."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]

# Largest error of any element, as a share of the reference's largest magnitude.
FORWARD = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 1e-2,
}
GRADIENT = {**FORWARD, torch.float16: 5e-2, torch.bfloat16: 5e-2}


def scaled_error(actual: Tensor, reference: Tensor) -> float:
    """max |actual - reference| / max |reference|; 0 for empty tensors, infinite for a NaN."""
    actual, reference = actual.detach().cpu().double(), reference.detach().cpu().double()
    assert actual.shape == reference.shape
    if reference.numel() == 0:
        return 0.0
    difference = (actual - reference).abs().max()
    if difference == 0:
        return 0.0
    return float((difference / reference.abs().max()).nan_to_num(nan=torch.inf))


def assert_accurate(
    actual: Tensor, reference: Tensor, dtype: torch.dtype, *, gradient: bool = False
) -> None:
    """``actual`` is of ``dtype`` and within that dtype's bound of ``reference``, in float64."""
    assert actual.dtype == dtype
    bound = (GRADIENT if gradient else FORWARD)[dtype]
    error = scaled_error(actual, reference)
    assert error <= bound, f"scaled error {error:.3g}, allowed {bound:g}"


def assert_derivatives_hold(run: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    """First and second derivatives against finite differences, of float64 tensors.

    Second ones on a GPU along random directions: one element at a time takes minutes there.
    """
    on_gpu = inputs[0].is_cuda
    # Sums by atomic additions, as on a GPU, come in any order.
    torch.autograd.gradcheck(run, inputs, check_forward_ad=True, nondet_tol=1e-10)
    torch.manual_seed(0)
    torch.autograd.gradgradcheck(run, inputs, nondet_tol=1e-10, fast_mode=on_gpu)
