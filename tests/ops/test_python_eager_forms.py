"""The tensor-operation forms, which stand in where there is no operator library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from deform_ops import eager
from msda_operands import CASES, draw
from torch import Tensor

PACKAGE = Path(__file__).resolve().parents[2] / "ops" / "python" / "deform_ops"


def normal(*size: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)


def tuples(numbers: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [tuple(numbers[i : i + 2]) for i in range(0, len(numbers), 2)]


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_msda_equals_the_reference(case, dtype, softmax, device):
    operands = draw(case, dtype, device)
    locations = operands.sampling_locations.view(-1, 2)
    locations[::5] = torch.tensor([float("nan"), 0.5])
    locations[1::7, 1] = float("inf")
    name = "msda_softmax" if softmax else "msda"
    expected = getattr(torch.ops.deform_reference, name)(*operands)
    assert_accurate(eager.msda(*operands, softmax=softmax), expected, dtype)


ATTN = [
    # kernel, stride, padding, dilation; groups, their channels, spread, drop_center
    ((3, 3, 1, 1, 1, 1, 1, 1), (2, 4, 1.0, False)),
    ((3, 2, 2, 1, 0, 1, 2, 1), (3, 5, 0.6, False)),
    ((5, 3, 1, 2, 2, 1, 1, 2), (1, 7, 1.5, True)),
]


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("geometry, sizes", ATTN, ids=str)
def test_attn_equals_the_reference(geometry, sizes, dtype, softmax, device):
    groups, channels, _, drop_center = sizes
    kernel, stride, padding, dilation = tuples(geometry)
    height, width = (
        (n + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, n in enumerate((8, 7))
    )
    points = kernel[0] * kernel[1] - drop_center
    value = normal(2, 8, 7, groups * channels, dtype=dtype).to(device)
    offset_mask = normal(2, height, width, groups * points * 3 + 2, dtype=dtype).to(device)
    offset_mask[0, 0, 0, :2] = float("nan")
    name = "attn_softmax" if softmax else "attn"
    expected = getattr(torch.ops.deform_reference, name)(value, offset_mask, *geometry, *sizes)
    result = eager.attn(value, offset_mask, *tuples(geometry), *sizes, softmax=softmax)
    assert_accurate(result, expected, dtype)


CONV = [
    # kernel; stride, padding, dilation; groups, offset groups
    ((3, 3), (1, 1, 1, 1, 1, 1), (1, 1)),
    ((3, 2), (2, 1, 0, 2, 1, 2), (2, 3)),
    ((1, 1), (1, 1, 0, 0, 1, 1), (3, 2)),
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kernel, geometry, groups", CONV, ids=str)
def test_conv_equals_torchvision(kernel, geometry, groups, dtype, masked, device):
    torchvision = pytest.importorskip("torchvision")
    stride, padding, dilation = tuples(geometry)
    height, width = (
        (n + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, n in enumerate((8, 7))
    )
    points = kernel[0] * kernel[1]
    value = normal(2, 8, 7, 12, dtype=dtype)
    offset = normal(2, height, width, groups[1], points, 2, dtype=dtype)
    mask = normal(2, height, width, groups[1], points, dtype=dtype) if masked else None
    weight, bias = normal(6, 12 // groups[0], *kernel, dtype=dtype), normal(6, dtype=dtype)
    result = eager.conv(
        *(t if t is None else t.to(device) for t in (value, offset, mask, weight, bias)),
        *tuples(geometry),
        *groups,
    )
    expected = torchvision.ops.deform_conv2d(
        value.double().permute(0, 3, 1, 2),
        offset.double().flatten(3).permute(0, 3, 1, 2),
        weight.double(),
        bias.double(),
        *tuples(geometry),
        None if mask is None else mask.double().flatten(3).permute(0, 3, 1, 2),
    )
    assert_accurate(result.permute(0, 3, 1, 2), expected, dtype)


def test_forms_are_differentiable():
    case = CASES[3]
    operands = draw(case, torch.float64)
    inputs = [operands.value[:1], operands.sampling_locations[:1], operands.attention_weights[:1]]
    inputs = [tensor[:, :3].clone() if i else tensor.clone() for i, tensor in enumerate(inputs)]
    table = operands.spatial_shapes, operands.level_start_index
    leaves = [tensor.requires_grad_() for tensor in inputs]

    def run(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        return eager.msda(value, *table, locations, weights, softmax=True)

    torch.autograd.gradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"value": torch.zeros(2, 3)}, "value must have 4 dimensions"),
        ({"value": torch.zeros(3, 23, 3, 7).long()}, "value must be of a float type"),
        ({"spatial_shapes": torch.zeros(3, 2)}, r"spatial_shapes must be \[2, 2\], but is \[3, 2"),
        ({"level_start_index": torch.zeros(1)}, r"level_start_index must be \[2\]"),
        ({"sampling_locations": torch.zeros(3)}, "sampling_locations must have 6 dimensions"),
        ({"attention_weights": torch.zeros(3, 9, 3, 5)}, "attention_weights must be"),
    ],
)
def test_wrong_operand_is_named(changes, message):
    with pytest.raises(RuntimeError, match=message):
        eager.msda(*draw(CASES[3]).with_(**changes))


PROGRAM = """
import warnings, torch
import deform_ops
from deform_ops.errors import KernelNotProvidedError, NoBackendError
from deform_ops.nn import DeformConv2d, DeformSample2d, MultiScaleDeformAttn2d
from deform_ops.registry import Backend, CallContext, conv, msda, select_backend

value, table = torch.ones(1, 4, 1, 2), (torch.tensor([[2, 2]]), torch.tensor([0]))
operands = value, *table, torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.full((1, 1, 1, 1), 3.0)
assert deform_ops.msda(*operands).tolist() == [[[3.0, 3.0]]]
assert torch.ops.deform_eager.msda_softmax(*operands).tolist() == [[[1.0, 1.0]]]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        assert msda(*operands).tolist() == [[[3.0, 3.0]]]
text = str(caught[0].message)
assert len(caught) == 1 and "msda runs on eager; cpu: libdeform_ops.so not found" in text, caught
assert msda(*operands, backend=Backend.EAGER).tolist() == [[[3.0, 3.0]]]
warnings.simplefilter("ignore")
layer = MultiScaleDeformAttn2d(8, num_heads=2, num_levels=1)
rows = torch.randn(2, 4, 8)
layer(rows, torch.rand(2, 4, 1, 2), rows, *table).sum().backward()
x = torch.randn(1, 8, 6, 6)
assert DeformSample2d(8, groups=2)(x).shape == x.shape
assert DeformConv2d(8, 8, 3, padding=1)(x, torch.zeros(1, 18, 6, 6)).shape == x.shape
for call in (
    lambda: msda.load(Backend.CPU),
    lambda: msda(*operands, backend=Backend.CPU),
    lambda: msda.reference(*operands),
):
    try:
        call()
        raise SystemExit("no error")
    except KernelNotProvidedError:
        pass
try:
    select_backend(CallContext("msda", torch.device("cuda"), torch.float32, 8, 1, 4))
except NoBackendError as error:
    assert "cuda: libdeform_ops.so not found" in str(error)

class Layer(torch.nn.Module):
    def forward(self, *operands):
        return msda(*operands, method="softmax")

program = torch.export.export(Layer(), operands).run_decompositions()
assert program.module()(*operands).tolist() == [[[1.0, 1.0]]]
print("done")
"""


@pytest.fixture(scope="module")
def without_library(tmp_path_factory) -> Path:
    """A folder with the package as an install without a library has it."""
    folder = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("lib", "__pycache__")
    shutil.copytree(PACKAGE, folder / "deform_ops", ignore=ignored)
    return folder


def test_package_without_a_library_runs_on_tensor_operations(without_library):
    environment = {**os.environ, "PYTHONPATH": str(without_library), "DEFORM_OPS_LIBRARY": ""}
    environment.pop("DEFORM_FALLBACK_WARNINGS", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "done", done.stderr


def test_library_that_was_named_and_is_missing_stays_an_error(without_library):
    environment = {**os.environ, "PYTHONPATH": str(without_library)}
    environment["DEFORM_OPS_LIBRARY"] = str(without_library / "nothing.so")
    done = subprocess.run(
        [sys.executable, "-c", "import deform_ops"], env=environment, capture_output=True, text=True
    )
    assert done.returncode != 0 and "is not a file" in done.stderr
