"""Operands that don't fit are refused by name, with what they are and what they should be."""

from __future__ import annotations

import pytest
import torch
from attn_operands import Case, draw

CASE = Case((4, 6), groups=3, channels=4)
BACKENDS = ["deform", "deform_eager", "deform_reference"]
OPS = ["attn", "attn_softmax"]
NAMES = [
    *(f"{name}_{axis}" for name in ("kernel", "stride", "pad", "dilation") for axis in "hw"),
    *("groups", "group_dims", "spread", "drop_center"),
]


def arguments(device: torch.device | str = "cpu", case: Case = CASE) -> dict[str, object]:
    """Of a good call, with a gradient of its result."""
    value, offset_mask = draw(case, device=device)
    grad = torch.ones(*offset_mask.shape[:3], value.shape[3], device=device)
    tensors = {"grad_output": grad, "value": value, "offset_mask": offset_mask}
    return tensors | dict(zip(NAMES, case.parameters, strict=True))


def run(backend: str, name: str, given: dict[str, object]) -> torch.Tensor:
    forward = {key: argument for key, argument in given.items() if key != "grad_output"}
    return getattr(getattr(torch.ops, backend), name)(**forward)


def run_backward(backend: str, name: str, given: dict[str, object]):
    return getattr(getattr(torch.ops, backend), f"{name}_backward")(**given)


def cut(dimension: int):
    return lambda tensor: tensor.narrow(dimension, 0, tensor.shape[dimension] - 1)


V, M, G = "value", "offset_mask", "grad_output"
UNFIT = {
    "value_rank": (V, lambda t: t[0], r"value must have 4 dimensions \(B, H, W, G\*D\), but has 3"),
    "value_int": (V, lambda t: t.int(), r"value must be float32, .* but is Int"),
    "value_complex": (V, lambda t: t.cfloat(), r"value must be float32, .*ComplexFloat"),
    "value_channels": (V, cut(3), r"value must have size 12 \(groups times group_dims\) in dim"),
    "value_rows": (V, cut(1), r"offset_mask must have size 3 \(output rows of value's height, k"),
    "value_columns": (V, cut(2), r"offset_mask must have size 5 \(output columns of value's wid"),
    "no_rows": (V, lambda t: t[:, :0], r"value must have at least 1 row in dimension 1, but has 0"),
    "no_columns": (V, lambda t: t[:, :, :0], r"value must have at least 1 column in dimension 2"),
    "mask_rank": (M, lambda t: t[0], r"offset_mask must have 4 dimensions \(B, Ho, Wo, G\*K\*3\)"),
    "mask_int": (M, lambda t: t.long(), r"offset_mask must be float32, .* but is Long"),
    "mask_batch": (M, cut(0), r"offset_mask must have size 2 \(batch of value\) in dimension 0"),
    "mask_rows": (M, cut(1), r"offset_mask must have size 4 \(output rows of value's height"),
    "mask_columns": (M, cut(2), r"offset_mask must have size 6 \(output columns of value's width"),
    "mask_channels": (M, cut(3), r"offset_mask must have at least 81 channels \(groups times poin"),
    "no_kernel": ("kernel_h", lambda _: 0, r"kernel_h must be at least 1 and less than 2\^31, but"),
    "kernel": ("kernel_w", lambda _: -3, r"kernel_w must be at least 1 .*, but is -3"),
    "stride": ("stride_h", lambda _: 0, r"stride_h must be at least 1 .*, but is 0"),
    "dilation": ("dilation_w", lambda _: 0, r"dilation_w must be at least 1 .*, but is 0"),
    "pad": ("pad_h", lambda _: 2**31, r"pad_h must be .* less than 2\^31, but is 2147483648"),
    "groups": ("groups", lambda _: 0, r"groups must be at least 1 .*, but is 0"),
    "group_dims": ("group_dims", lambda _: 0, r"group_dims must be at least 1 .*, but is 0"),
    "spread": ("spread", lambda _: float("nan"), r"spread must be finite, but is nan"),
    "huge_kernel": ("kernel_h", lambda _: 2**30, r"must be at most 2\^30 points, but is 10737"),
    "huge_stride": ("stride_w", lambda _: 2**62, r"stride_w must be .* less than 2\^31, but is 46"),
    "sparse": (V, lambda t: t.to_sparse(), r"dense tensor|not.*Sparse|Could not run"),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("unfit", UNFIT)
@pytest.mark.parametrize("backend", BACKENDS)
def test_unfit_operand_is_named(backend, unfit, name, device):
    operand, change, message = UNFIT[unfit]
    given = arguments(device)
    given[operand] = change(given[operand])
    prefix = "" if unfit == "sparse" else f"{name}: .*"
    for call in (run, run_backward):
        with pytest.raises((RuntimeError, NotImplementedError), match=f"(?s){prefix}{message}"):
            call(backend, name, given)


UNFIT_GRADIENTS = {
    "rank": (lambda t: t[0], r"grad_output must have 4 dimensions \(B, Ho, Wo, G\*D\), but has 3"),
    "type": (lambda t: t.double(), r"grad_output must be of value's type, Float, but is Double"),
    "batch": (cut(0), r"grad_output must have size 2 \(batch of value\) in dimension 0"),
    "rows": (cut(1), r"grad_output must have size 4 \(rows of offset_mask\) in dimension 1"),
    "columns": (cut(2), r"grad_output must have size 6 \(columns of offset_mask\) in dimension 2"),
    "channels": (cut(3), r"grad_output must have size 12 \(channels of value\) in dimension 3"),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("unfit", UNFIT_GRADIENTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_unfit_gradient_is_named(backend, unfit, name, device):
    change, message = UNFIT_GRADIENTS[unfit]
    given = arguments(device)
    given[G] = change(given[G])
    with pytest.raises(RuntimeError, match=f"(?s){name}: .*{message}"):
        run_backward(backend, name, given)


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernel_of_its_centre_alone_is_refused(backend):
    case = Case((4, 4), kernel=(1, 1), pad=(0, 0))
    given = arguments(case=case) | {"drop_center": True}
    with pytest.raises(RuntimeError, match="attn: kernel_h times kernel_w must be at least 2 with"):
        run(backend, "attn", given)


@pytest.mark.parametrize("operand", [M, G])
@pytest.mark.parametrize("backend", ["deform", "deform_cuda", "deform_reference"])
def test_operand_on_another_device_is_named(backend, operand, cuda):
    given = arguments(cuda)
    given[operand] = given[operand].cpu()
    message = rf"attn: {operand} must be on value's device, cuda:0, but is on cpu"
    with pytest.raises(RuntimeError, match=message):
        run_backward(backend, "attn", given)


def test_more_pixels_than_an_index_holds_are_refused():
    case = Case((2**16, 2**15), 1, (1, 1), stride=(2**16, 2**15), pad=(0, 0), groups=1, channels=1)
    value = torch.zeros(1, 1, 1, 1).expand(1, *case.size, 1)
    offset_mask, grad = torch.zeros(1, 1, 1, 3), torch.zeros(1, 1, 1, 1)
    message = r"fewer than 2\^31 pixels \(H\*W\), but has 65536 \* 32768"
    for backend in ("deform", "deform_reference"):
        operators = getattr(torch.ops, backend)
        with pytest.raises(RuntimeError, match=message):
            operators.attn(value, offset_mask, *case.parameters)
        with pytest.raises(RuntimeError, match=message):
            operators.attn_backward(grad, value, offset_mask, *case.parameters)


def test_more_channels_than_an_index_holds_are_refused():
    case = Case((1, 1), 1, (1, 1), pad=(0, 0), groups=2, channels=2**30)
    value = torch.zeros(1, 1, 1, 1).expand(1, 1, 1, 2**31)
    with pytest.raises(
        RuntimeError, match=r"fewer than 2\^31 channels \(G\*D\), but has 2147483648"
    ):
        torch.ops.deform.attn(value, torch.zeros(1, 1, 1, 6), *case.parameters)


def test_cuda_operators_take_fp32acc_by_name_only_there():
    given = arguments("meta")
    del given[G]
    assert torch.ops.deform_cuda.attn(**given, fp32acc=False).shape == given[V].shape
    with pytest.raises(RuntimeError, match="expected at most 14 argument"):
        torch.ops.deform.attn(**given, fp32acc=False)
