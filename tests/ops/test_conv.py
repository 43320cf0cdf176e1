"""Values of conv in every backend, against grid_sample and a matrix product in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from conv_operands import CASES, Case, call, draw, exact

BACKENDS = ["deform", "deform_jit", "deform_eager", "deform_reference"]
SMALL = Case((5, 6), groups=2, channels=12, outputs=7, offset_groups=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_result_equals_grid_sample_in_float64(backend, case, dtype, device):
    operands = draw(case, dtype, device)
    result = call(case, backend)(*operands)
    assert result.device == operands[0].device
    assert_accurate(result, exact(case, *operands), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_without_offsets_it_is_torchs_convolution(backend, groups, dtype, device):
    case = Case((7, 9), 2, (3, 2), (2, 1), (1, 2), (1, 2), groups, 8, 6, mask=False)
    value, offset, _, weight, bias = draw(case, dtype, device)
    result = call(case, backend)(value, offset.zero_(), None, weight, bias)
    expected = torch.nn.functional.conv2d(
        value.cpu().double().permute(0, 3, 1, 2),
        weight.cpu().double(),
        bias.cpu().double(),
        case.stride,
        case.pad,
        case.dilation,
        groups,
    )
    assert_accurate(result, expected.permute(0, 2, 3, 1), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_offsets_are_y_then_x_in_pixels(backend, device):
    value = torch.zeros(1, 9, 9, 1, device=device)
    value[0, 2, 7] = 1.0
    case = Case((9, 9), 1, (1, 1), pad=(0, 0), channels=1, outputs=1)
    offset = torch.tensor([-2.0, 3.0], device=device).expand(1, 9, 9, 1, 1, 2)
    mask = torch.full((1, 9, 9, 1, 1), 5.0, device=device)
    weight, bias = torch.ones(1, 1, 1, 1, device=device), torch.zeros(1, device=device)
    result = call(case, backend)(value, offset, mask, weight, bias)
    assert result.nonzero().tolist() == [[0, 4, 4, 0]]
    assert result[0, 4, 4, 0] == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_points_go_along_the_kernels_rows(backend, device):
    """Moved by a point's own offset alone, the result changes by that point's weight."""
    case = Case((3, 4), 1, (2, 3), pad=(0, 0), channels=1, outputs=1, mask=False, bias=False)
    value = torch.ones(1, 3, 4, 1, device=device)
    weight = (2.0 ** torch.arange(6, device=device)).view(1, 1, 2, 3)
    for k in range(6):
        offset = torch.zeros(1, 2, 2, 1, 6, 2, device=device)
        offset[..., k, :] = 99
        result = call(case, backend)(value, offset, None, weight, None)
        assert (result == 63 - 2**k).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_offset_group_moves_its_own_channels_only(backend, device):
    case = Case((4, 4), 1, (1, 1), pad=(0, 0), channels=6, outputs=1, offset_groups=3, bias=False)
    value = torch.ones(1, 4, 4, 6, device=device)
    weight = (2.0 ** torch.arange(6, device=device)).view(1, 6, 1, 1)
    mask = torch.ones(1, 4, 4, 3, 1, device=device)
    offset = torch.zeros(1, 4, 4, 3, 1, 2, device=device)
    offset[..., 1, 0, 0] = 99
    assert (call(case, backend)(value, offset, mask, weight, None) == 1 + 2 + 16 + 32).all()
    mask[..., 2, 0] = 2
    assert (call(case, backend)(value, offset, mask, weight, None) == 1 + 2 + 32 + 64).all()


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_kernels_of_lesser_processors_give_the_same(capability, library, tmp_path):
    """The instruction set is chosen once a process, so another process takes another."""
    calls = [(case, dtype, *draw(case, dtype, seed=3)) for case in CASES for dtype in DTYPES]
    inputs, outputs = tmp_path / "operands.pt", tmp_path / "results.pt"
    torch.save([(*tensors, *case.parameters) for case, _, *tensors in calls], inputs)
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
capability = torch.backends.cpu.get_cpu_capability()
results = [torch.ops.deform_cpu.conv(*arguments) for arguments in torch.load({str(inputs)!r})]
torch.save(dict(capability=capability, results=results), {str(outputs)!r})
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    answer = torch.load(outputs)
    if capability == "avx2" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX2")
    assert answer["capability"] == {"default": "DEFAULT", "avx2": "AVX2"}[capability]
    for (case, dtype, *tensors), result in zip(calls, answer["results"], strict=True):
        assert_accurate(result, exact(case, *tensors), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
def test_point_at_no_real_place_adds_nothing(backend, poison, device):
    value, offset, *others = draw(SMALL, device=device)
    lost, far = offset.clone(), offset.clone()
    for first, axis in ((0, 0), (4, 1)):  # in y of some points, in x of others
        lost.view(-1, 2)[first::7, axis] = poison
        far.view(-1, 2)[first::7, axis] = -99.0  # well outside, finite for the oracle
    expected = exact(SMALL, value, far, *others)
    assert_accurate(call(SMALL, backend)(value, lost, *others), expected, torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mask_of_a_point_outside_the_map_doesnt_count(backend, device):
    value, offset, mask, weight, bias = draw(SMALL, device=device)
    offset[:, 1::2, ..., 3, :] = 99.0
    expected = exact(SMALL, value, offset, mask, weight, bias)
    mask[:, 1::2, ..., 3] = float("nan")
    result = call(SMALL, backend)(value, offset, mask, weight, bias)
    assert_accurate(result, expected, torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_points_exactly_at_and_past_the_border(backend, device):
    """(y, x) on a map of 4 rows and 5 columns, one for each picture."""
    places = [[0, -1], [0, -0.75], [-1, 0], [-0.5, 0], [2, 5], [2, 4.5], [3, 4], [4, 2]]
    case = Case((4, 5), 8, (1, 1), (4, 5), (0, 0), channels=3, outputs=2, bias=False)
    value, _, mask, weight, _ = draw(case, torch.float64, device)
    offset = torch.tensor(places, dtype=torch.float64, device=device).view(8, 1, 1, 1, 1, 2)
    result = call(case, backend)(value, offset, mask, weight, None)
    assert_accurate(result, exact(case, value, offset, mask, weight, None), torch.float64)
    assert (result[[0, 2, 4, 7]] == 0).all()
    assert (result[[1, 3, 5, 6]].abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("channels", [1, 5, 16, 72])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_nothing_outside_a_group_or_a_picture_is_read(backend, dtype, channels, device):
    """Whatever isn't the map at hand is NaN, which even a weight of 0 would let through."""
    case = Case((5, 4), 3, groups=3, channels=channels, outputs=4, offset_groups=3, reach=3.0)
    value, offset, mask, weight, bias = draw(case, dtype, device)
    offset.view(-1)[::7] = float("nan")
    group = slice(channels, 2 * channels)
    surrounded = torch.full((5, *value.shape[1:]), float("nan"), dtype=dtype, device=device)
    surrounded[2, ..., group] = value[1, ..., group]
    result = call(case, backend)(surrounded[1:4], offset, mask, weight, bias)
    assert torch.isfinite(result[1, ..., 4:8]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "case",
    [replace(SMALL, batch=0), Case((2, 6), pad=(0, 0)), Case((9, 2), dilation=(1, 2), pad=(0, 0))],
    ids=str,
)
def test_no_batch_or_no_place_for_the_kernel_gives_an_empty_result(backend, case, device):
    case = replace(case, stride=(1, 3)) if case.batch else case  # outputs round down to 0
    result = call(case, backend)(*draw(case, torch.float16, device))
    assert result.shape == (case.batch, *case.output, case.groups * case.outputs)
    assert result.numel() == 0
    assert result.dtype == torch.float16


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_in_any_memory_order(backend, device):
    operands = draw(SMALL, device=device)
    expected = call(SMALL, backend)(*operands)

    def strided(tensor: torch.Tensor) -> torch.Tensor:
        wide = torch.empty(*tensor.shape, 3, dtype=tensor.dtype, device=device)[..., 1]
        return wide.transpose(0, -1).contiguous().transpose(0, -1).copy_(tensor)

    shuffled = [
        *(strided(tensor) for tensor in operands[:4]),
        operands[4].repeat_interleave(2)[::2],
    ]
    assert not any(tensor.is_contiguous() for tensor in shuffled)
    result = call(SMALL, backend)(*shuffled)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("offset_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_offsets_and_mask_of_other_float_types(backend, dtype, offset_dtype, mask_dtype, device):
    operands = draw(SMALL, dtype, device, offset_dtype=offset_dtype, mask_dtype=mask_dtype)
    assert_accurate(call(SMALL, backend)(*operands), exact(SMALL, *operands), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_pictures(backend, device):
    case = replace(SMALL, batch=65)
    operands = draw(case, device=device)
    assert_accurate(call(case, backend)(*operands), exact(case, *operands), torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_channels_in_float64(backend, device):
    case = Case((4, 4), 1, channels=1025, outputs=3)
    operands = draw(case, torch.float64, device)
    assert_accurate(call(case, backend)(*operands), exact(case, *operands), torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_points(backend, device):
    case = Case((9, 10), 1, (13, 11), pad=(6, 5), channels=3, outputs=4, reach=3.0)
    operands = draw(case, device=device)
    assert_accurate(call(case, backend)(*operands), exact(case, *operands), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_half_precision_sums_in_float32(backend, dtype, device):
    """The terms cancel, and their partial sums don't fit float16."""
    value = torch.tensor([40000.0, 40000.0, -40000.0, -39000.0], dtype=dtype, device=device)
    case = Case((1, 4), 1, (1, 4), pad=(0, 0), channels=1, outputs=1, mask=False, bias=False)
    offset = torch.zeros(1, 1, 1, 1, 4, 2, dtype=dtype, device=device)
    weight = torch.ones(1, 1, 1, 4, dtype=dtype, device=device)
    result = call(case, backend)(value.view(1, 1, 4, 1), offset, None, weight, None)
    assert result.item() == value.double().sum().item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_samples_arent_rounded_before_they_are_multiplied(backend, dtype, device):
    """One lies halfway between two neighbouring numbers of the type; what is left of it counts."""
    step = torch.finfo(dtype).eps
    value = torch.tensor([1, 1 + step, 1, 1], dtype=dtype, device=device).view(1, 1, 4, 1)
    case = Case((1, 4), 1, (1, 4), pad=(0, 0), channels=1, outputs=1, mask=False, bias=False)
    offset = torch.zeros(1, 1, 1, 1, 4, 2, dtype=dtype, device=device)
    offset[..., 0, 1] = 0.5
    weight = torch.tensor([1.0, 0.0, -1.0, 0.0], dtype=dtype, device=device).view(1, 1, 1, 4)
    assert call(case, backend)(value, offset, None, weight, None).item() == step / 2


@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_float32_products_keep_all_bits(backend, device):
    """TF32's ten bits would lose these factors' last one; sums of 64 lose nothing."""
    case = Case((64, 64), 1, (1, 1), pad=(0, 0), channels=64, outputs=64, mask=False, bias=False)
    value = torch.full((1, 64, 64, 64), 1 + 2.0**-14, device=device)
    offset = torch.zeros(1, 64, 64, 1, 1, 2, device=device)
    weight = torch.full((64, 64, 1, 1), 1.0, device=device)
    result = call(case, backend)(value, offset, None, weight, None)
    assert (result == 64 + 64 * 2.0**-14).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_same_call_gives_the_same_bits(dtype):
    case = Case((20, 20), groups=2, channels=16, outputs=16, offset_groups=2)
    operands = draw(case, dtype)
    expected = call(case)(*operands)
    for _ in range(5):
        assert torch.equal(call(case)(*operands), expected)
