"""Operands that don't fit are refused by name, with what they are and what they should be."""

from __future__ import annotations

import pytest
import torch
from conv_operands import Case, draw

CASE = Case((4, 6), groups=2, offset_groups=2, channels=3, outputs=2)
BACKENDS = ["deform", "deform_eager", "deform_reference"]
OPERANDS = ["value", "offset", "mask", "weight", "bias"]
NAMES = [
    *(f"{name}_{axis}" for name in ("stride", "pad", "dilation") for axis in "hw"),
    *("groups", "offset_groups"),
]


def arguments(device: torch.device | str = "cpu", case: Case = CASE) -> dict[str, object]:
    """Of a good call, with a gradient of its result."""
    operands = dict(zip(OPERANDS, draw(case, device=device), strict=True))
    outs = case.groups * case.outputs
    grad = torch.ones(case.batch, *case.output, outs, device=device)
    return {"grad_output": grad, **operands, **dict(zip(NAMES, case.parameters, strict=True))}


def run(backend: str, given: dict[str, object]):
    forward = {key: argument for key, argument in given.items() if key != "grad_output"}
    return getattr(torch.ops, backend).conv(**forward)


def run_backward(backend: str, given: dict[str, object]):
    return getattr(torch.ops, backend).conv_backward(**given)


def cut(dimension: int):
    return lambda tensor: tensor.narrow(dimension, 0, tensor.shape[dimension] - 1)


V, F, M, W, B = OPERANDS
UNFIT = {
    "value_rank": (V, lambda t: t[0], r"value must have 4 dimensions \(B, H, W, Cin\), but has 3"),
    "value_int": (V, lambda t: t.int(), r"value must be float32, .* but is Int"),
    "value_channels": (V, cut(3), r"value's channels, 5, must be a multiple of groups, 2"),
    "value_rows": (V, cut(1), r"offset('s rows| must have size 3 \(rows of)"),
    "no_rows": (V, lambda t: t[:, :0], r"value must have at least 1 row in dimension 1, but has 0"),
    "no_channels": (V, lambda t: t[..., :0], r"value must have at least 1 channel in dimension 3"),
    "offset_rank": (F, lambda t: t[0], r"offset must have 6 dimensions \(B, Ho, Wo, offset_groups"),
    "offset_batch": (F, cut(0), r"offset must have size 2 \(batch of value\) in dimension 0"),
    "offset_columns": (F, cut(2), r"offset must have size 6 \(columns of the output\) in dimensi"),
    "offset_groups_of": (F, cut(3), r"offset must have size 2 \(offset_groups\) in dimension 3"),
    "offset_points": (F, cut(4), r"offset must have size 9 \(points of weight's kernel\) in dimen"),
    "offset_axes": (F, cut(5), r"offset must have size 2 \(dy and dx\) in dimension 5, but has 1"),
    "offset_long": (F, lambda t: t.long(), r"offset must be float32, .* but is Long"),
    "mask_rank": (M, lambda t: t[0], r"mask must have 5 dimensions \(B, Ho, Wo, offset_groups, K"),
    "mask_points": (M, cut(4), r"mask must have size 9 \(as offset\) in dimension 4"),
    "mask_bool": (M, lambda t: t.bool(), r"mask must be float32, .* but is Bool"),
    "weight_rank": (W, lambda t: t[0], r"weight must have 4 dimensions \(Cout, Cin/groups, kH, kW"),
    "weight_outs": (W, cut(0), r"weight's output channels, 3, must be a multiple of groups, 2"),
    "weight_channels": (W, cut(1), r"weight must have size 3 \(channels of value / groups\) in di"),
    "weight_dtype": (W, lambda t: t.double(), r"weight must have value's type, Float, but is Doub"),
    "no_kernel": (W, lambda t: t[:, :, :0], r"weight must have at least 1 row in dimension 2"),
    "bias_rank": (B, lambda t: t[None], r"bias must have 1 dimensions \(Cout\), but has 2"),
    "bias_size": (B, cut(0), r"bias must have size 4 \(output channels of weight\) in dimension 0"),
    "bias_dtype": (B, lambda t: t.half(), r"bias must have value's type, Float, but is Half"),
    "stride": ("stride_h", lambda _: 0, r"stride_h must be at least 1.*, but is 0"),
    "pad": ("pad_w", lambda _: -1, r"pad_w must be at least 0.*, but is -1"),
    "dilation": ("dilation_h", lambda _: 0, r"dilation_h must be at least 1.*, but is 0"),
    "too_dilated": ("dilation_h", lambda _: 9, r"offset('s rows| must have size 0)"),
    "groups": ("groups", lambda _: 0, r"groups must be at least 1.*, but is 0"),
    "offset_groups": ("offset_groups", lambda _: 4, r"channels, 6, must be a multiple of offset_"),
}


@pytest.mark.parametrize("unfit", UNFIT)
@pytest.mark.parametrize("backend", BACKENDS)
def test_operand_that_doesnt_fit_is_named(backend, unfit, device):
    name, change, message = UNFIT[unfit]
    given = arguments(device)
    run(backend, given)
    given[name] = change(given[name])
    with pytest.raises(RuntimeError, match=rf"conv: .*{message}"):
        run(backend, given)
    with pytest.raises(RuntimeError, match=rf"conv: .*{message}"):
        run_backward(backend, given)


@pytest.mark.parametrize("unfit", UNFIT)
def test_fake_operands_are_checked_the_same(unfit):
    name, change, message = UNFIT[unfit]
    given = arguments("meta")
    run("deform", given)
    given[name] = change(given[name])
    with pytest.raises(RuntimeError, match=rf"conv: .*{message}"):
        run("deform", given)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_another_shape_is_named(backend, device):
    given = arguments(device)
    given["grad_output"] = given["grad_output"][..., :3]
    with pytest.raises(RuntimeError, match=r"conv: grad_output must have size 4 \(output channels"):
        run_backward(backend, given)
    given["grad_output"] = given["grad_output"].double()
    with pytest.raises(RuntimeError, match=r"conv: grad_output must have value's type, Float"):
        run_backward(backend, given)


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_on_different_devices_are_refused(name, cuda):
    given = arguments(cuda)
    given[name] = given[name].cpu()
    with pytest.raises(RuntimeError, match="device"):
        run("deform", given)


@pytest.mark.parametrize("name", ["value", "weight"])
def test_sparse_operands_are_refused(name):
    given = arguments()
    given[name] = given[name].to_sparse()
    with pytest.raises((RuntimeError, NotImplementedError)):
        run("deform", given)
