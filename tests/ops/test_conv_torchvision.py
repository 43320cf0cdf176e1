"""deform_conv2d beside torchvision's, in all combinations of its parameters."""

from __future__ import annotations

import itertools

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from conv_operands import Case, draw, given, leaves

torchvision = pytest.importorskip("torchvision")

KERNELS = [(1, 1), (3, 3), (2, 3)]
STEPS = [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2)), ((1, 3), (2, 0), (2, 1))]
GROUPS = [(1, 1), (1, 3), (2, 1), (2, 3), (3, 2)]  # groups, offset groups
COMBINATIONS = list(itertools.product(KERNELS, STEPS, GROUPS, [True, False], [True, False]))


def nchw(case: Case, dtype=torch.float64, device="cpu", seed: int = 0) -> list:
    """input, offset, weight, bias and mask as torchvision has them."""
    value, offset, mask, weight, bias = draw(case, dtype, device, seed=seed)
    return [
        value.permute(0, 3, 1, 2).contiguous(),
        offset.flatten(3).permute(0, 3, 1, 2).contiguous(),
        weight,
        bias,
        None if mask is None else mask.flatten(3).permute(0, 3, 1, 2).contiguous(),
    ]


def run(operator, case: Case, operands: list) -> torch.Tensor:
    return operator(*operands[:4], case.stride, case.pad, case.dilation, operands[4])


@pytest.mark.parametrize("kernel, step, groups, mask, bias", COMBINATIONS, ids=str)
def test_result_and_gradients_equal_torchvisions(kernel, step, groups, mask, bias, device):
    case = Case((7, 9), 2, kernel, *step, groups[0], 6, 4, groups[1], mask, bias, reach=2.5)
    ours, theirs = leaves(nchw(case, device=device)), leaves(nchw(case))
    result = run(torch.ops.deform.deform_conv2d, case, ours)
    expected = run(torchvision.ops.deform_conv2d, case, theirs)
    assert_accurate(result, expected, torch.float64)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).double()
    got = torch.autograd.grad(result, given(ours), grad.to(device))
    wanted = torch.autograd.grad(expected, given(theirs), grad)
    for mine, other in zip(got, wanted, strict=True):
        assert_accurate(mine, other, torch.float64, gradient=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_result_keeps_the_inputs_type(dtype, device):
    case = Case((8, 6), channels=16, outputs=8, offset_groups=2)
    operands = nchw(case, dtype, device)
    result = run(torch.ops.deform.deform_conv2d, case, operands)
    in_double = [None if t is None else t.cpu().double() for t in operands]
    assert_accurate(result, run(torchvision.ops.deform_conv2d, case, in_double), dtype)


def test_arguments_after_weight_have_torchvisions_defaults(device):
    case = Case((5, 5), pad=(0, 0), channels=4, outputs=3, mask=False, bias=False)
    operands = nchw(case, device=device)[:3]
    result = torch.ops.deform.deform_conv2d(*operands)
    expected = torchvision.ops.deform_conv2d(*(tensor.cpu() for tensor in operands))
    assert_accurate(result, expected, torch.float64)
    padded = nchw(Case((5, 5), pad=(1, 1), channels=4, outputs=3, mask=False), device=device)
    result = torch.ops.deform.deform_conv2d(*padded[:3], padding=[1, 1])
    expected = torchvision.ops.deform_conv2d(*(t.cpu() for t in padded[:3]), padding=1)
    assert_accurate(result, expected, torch.float64)


def test_points_on_pixels_have_torchvisions_derivatives(device):
    """Where the derivative jumps both take the cell to the right and below, but for -1."""
    case = Case((5, 6), 1, channels=3, outputs=2, offset_groups=3)
    operands = nchw(case)
    operands[1] = operands[1].round().clamp(0, 2)  # from -1 + 0 on, at the first row and column
    operands[1][:, :, 0] += 1
    operands[1][:, :, :, 0] += 1
    ours, theirs = leaves([None if t is None else t.to(device) for t in operands]), leaves(operands)
    got = torch.autograd.grad(
        run(torch.ops.deform.deform_conv2d, case, ours).square().sum(), given(ours)
    )
    wanted = torch.autograd.grad(
        run(torchvision.ops.deform_conv2d, case, theirs).square().sum(), given(theirs)
    )
    for mine, other in zip(got, wanted, strict=True):
        assert_accurate(mine, other, torch.float64, gradient=True)


def test_compiles_and_exports_to_the_public_operator(device):
    case = Case((6, 5), channels=4, outputs=3, offset_groups=2)

    class Layer(torch.nn.Module):
        def forward(self, *operands):
            return run(torch.ops.deform.deform_conv2d, case, operands)

    operands = tuple(nchw(case, torch.float32, device))
    program = torch.export.export(Layer(), operands).run_decompositions()
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.deform.conv.default) == 1
    torch.testing.assert_close(program.module()(*operands), Layer()(*operands))


C, F, W, M = "input", "offset", "weight", "mask"
UNFIT = {
    "input_rank": (C, lambda t: t[0], r"input must have 4 dimensions \(B, Cin, H, W\), but has 3"),
    "offset_rank": (F, lambda t: t[0], r"offset must have 4 dimensions"),
    "weight_rank": (W, lambda t: t[0], r"weight must have 4 dimensions"),
    "mask_rank": (M, lambda t: t[0], r"mask must have 4 dimensions"),
    "offset_channels": (
        F,
        lambda t: t[:, 1:],
        r"offset must have a multiple of 18 \(2 \* kH \* kW",
    ),
    "no_offset": (F, lambda t: t[:, :0], r"offset must have a multiple of 18 .* but has 0"),
    "input_channels": (C, lambda t: t[:, 1:], r"input must have a multiple of 4 \(weight's input"),
    "mask_channels": (M, lambda t: t[:, 1:], r"mask must have size 18 \(offset_groups \* kH \* kW"),
    "no_kernel": (W, lambda t: t[:, :, :0], r"weight must have at least 1 row in dimension 2"),
    "no_channels": (W, lambda t: t[:, :0], r"weight must have at least 1 input channel in dimen"),
    "stride": ("stride", lambda _: [1, 1, 1], r"stride must be two numbers, h and w, but is 3"),
    "padding": ("padding", lambda _: [-1, 0], r"pad_h must be at least 0 .*, but is -1"),
    "other_type": (W, lambda t: t.half(), r"weight must have value's type, Float, but is Half"),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_unfit_operand_is_named(unfit, device):
    case = Case((6, 5), channels=4, outputs=3, offset_groups=2)
    names = ("input", "offset", "weight", "bias", "mask")
    arguments = dict(zip(names, nchw(case, torch.float32, device), strict=True))
    arguments |= {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1]}
    operand, change, message = UNFIT[unfit]
    arguments[operand] = change(arguments[operand])
    with pytest.raises(RuntimeError, match=f"(?s){message}"):
        torch.ops.deform.deform_conv2d(**arguments)
