"""DeformConv2d and the torchvision-like function against torchvision."""

from __future__ import annotations

import itertools

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from deform_ops.integrations import torchvision as integration
from deform_ops.nn import DeformConv2d
from deform_ops.registry import Backend
from torch import Tensor

torchvision = pytest.importorskip("torchvision")

GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (1, 2), "padding": (2, 0), "dilation": (1, 2), "kernel_size": (3, 2)},
    {"groups": 2, "padding": 1, "bias": False},
    {"kernel_size": 1, "groups": 2},
]
CHANNELS, OUTPUTS = 8, 6


def pair(made: object, **options) -> tuple[DeformConv2d, torch.nn.Module]:
    arguments = {"kernel_size": 3, **options}
    ours = DeformConv2d(CHANNELS, OUTPUTS, backend=made, **arguments).double()
    theirs = torchvision.ops.DeformConv2d(CHANNELS, OUTPUTS, **arguments).double()
    return ours, theirs


def operands(made: DeformConv2d, offset_groups: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    height, width = 7, 9
    sizes = []
    for axis, size in enumerate((height, width)):
        reach = made.dilation[axis] * (made.kernel_size[axis] - 1) + 1
        sizes.append((size + 2 * made.padding[axis] - reach) // made.stride[axis] + 1)
    points = offset_groups * made.kernel_size[0] * made.kernel_size[1]
    return (
        normal(2, CHANNELS, height, width),
        2 * normal(2, 2 * points, *sizes),
        normal(2, points, *sizes),
    )


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("backend", [None, Backend.EAGER])
@pytest.mark.parametrize("offset_groups, masked", itertools.product([1, 2], [True, False]))
def test_layer_equals_torchvisions_with_the_same_state(
    geometry, backend, offset_groups, masked, device
):
    ours, theirs = pair(backend, **geometry)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x, offset, mask = operands(ours, offset_groups)
    if not masked:
        mask = None
    expected = theirs(x, offset, mask)
    on_device = [tensor if tensor is None else tensor.to(device) for tensor in (x, offset, mask)]
    assert_accurate(ours.to(device)(*on_device), expected, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_function_takes_torchvisions_arguments_in_order(dtype, device):
    ours, _ = pair(None, padding=1)
    x, offset, mask = (tensor.to(dtype) for tensor in operands(ours))
    weight, bias = ours.weight.detach().to(dtype), ours.bias.detach().to(dtype)
    arguments = (x, offset, weight, bias, (1, 1), (1, 1), (1, 1), mask)
    in_double = (a.double() if isinstance(a, Tensor) else a for a in arguments)
    expected = torchvision.ops.deform_conv2d(*in_double)
    on_device = (a.to(device) if isinstance(a, Tensor) else a for a in arguments)
    assert_accurate(integration.deform_conv2d(*on_device), expected, dtype)


def test_gradients_equal_torchvisions(device):
    ours, theirs = pair(None, padding=1, groups=2)
    theirs.load_state_dict(ours.state_dict())
    gradients = []
    for layer, place in ((ours, device), (theirs, "cpu")):
        inputs = [tensor.to(place).requires_grad_() for tensor in operands(ours, 2)]
        layer.to(place)(*inputs).square().sum().backward()
        gradients.append([t.grad.cpu() for t in [*inputs, *layer.parameters()]])
    for mine, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-9, atol=1e-9)


def test_result_keeps_the_inputs_memory_format(device):
    made, _ = pair(None, padding=1)
    x, offset, mask = (tensor.to(device) for tensor in operands(made))
    made = made.to(device)
    packed = made(x, offset, mask)
    assert packed.is_contiguous()
    last = made(x.to(memory_format=torch.channels_last), offset, mask)
    assert last.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(last, packed)


@pytest.mark.parametrize("backend", [None, Backend.EAGER])
def test_autocast_computes_in_the_lower_precision(backend, device):
    made = pair(backend, padding=1)[0].float().to(device)
    x, offset, mask = (tensor.float().to(device) for tensor in operands(made))
    expected = made(x, offset, mask)
    with torch.autocast(device.type, torch.bfloat16):
        result = made(x, offset, mask)
    assert_accurate(result, expected, torch.bfloat16)


def test_fresh_layer_starts_as_torchvisions():
    torch.manual_seed(5)
    ours = DeformConv2d(CHANNELS, OUTPUTS, 3, groups=2)
    torch.manual_seed(5)
    theirs = torchvision.ops.DeformConv2d(CHANNELS, OUTPUTS, 3, groups=2)
    for mine, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, wanted)


def test_integration_offers_the_layer_too():
    assert integration.DeformConv2d is DeformConv2d


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((8, 6, 3, 1, 0, 1, 4), "out_channels must be a multiple of groups, but is 6 of 4"),
        ((0, 6, 3), "in_channels must be at least 1, but is 0"),
        ((8, 6, (3, 3, 3)), "kernel_size must be a number or two"),
    ],
)
def test_impossible_layer_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DeformConv2d(*arguments)


def test_operands_that_make_no_whole_groups_are_refused():
    made, _ = pair(None)
    x, offset, mask = operands(made)
    with pytest.raises(ValueError, match="input must have 8 channels, but has 7"):
        made(x[:, :7], offset)
    with pytest.raises(ValueError, match="offset must have a multiple of 18 channels, but has 17"):
        made(x, offset[:, :17])
    with pytest.raises(ValueError, match="mask must have 9 channels, as offset has 18, but has 8"):
        made(x, offset, mask[:, :8])
    with pytest.raises(ValueError, match="offset must have 4 dimensions, but has 3"):
        made(x, offset[0])
