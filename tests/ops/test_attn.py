"""Values of attn and attn_softmax in every backend, against grid_sample and torchvision."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from attn_operands import CASES, Case, call, draw, exact

BACKENDS = ["deform", "deform_jit", "deform_eager", "deform_reference"]
OPS = ["attn", "attn_softmax"]
SMALL = Case((5, 6), groups=3, channels=16)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_result_equals_grid_sample_in_float64(backend, case, dtype, name, device):
    operands = draw(case, dtype, device)
    result = call(case, name, backend)(*operands)
    assert result.device == operands[0].device
    assert_accurate(result, exact(case, *operands, softmax=name == "attn_softmax"), dtype)


@pytest.mark.parametrize("drop_center", [False, True])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 3), (3, 2), (4, 4)], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_points_go_down_the_kernels_columns(backend, kernel, drop_center, device):
    """Without offsets, point k alone reads its own pixel of the kernel's window."""
    rows, columns = kernel
    case = Case(kernel, 1, kernel, pad=(0, 0), groups=1, channels=1, drop_center=drop_center)
    value = torch.arange(float(rows * columns), device=device).view(1, rows, columns, 1)
    places = [(row, column) for column in range(columns) for row in range(rows)]
    if drop_center:
        places.remove((rows // 2, columns // 2))
    for k, (row, column) in enumerate(places):
        triples = torch.zeros(case.points, 3, device=device)
        triples[k, 2] = 1
        result = call(case, "attn", backend)(value, triples.view(1, 1, 1, -1))
        assert result.item() == row * columns + column


@pytest.mark.parametrize("backend", BACKENDS)
def test_offsets_are_x_then_y_in_pixels_times_spread(backend, device):
    value = torch.zeros(1, 9, 9, 1, device=device)
    value[0, 2, 7] = 1.0
    case = Case((9, 9), 1, (1, 1), pad=(0, 0), groups=1, channels=1, spread=0.5)
    offset_mask = torch.zeros(1, 9, 9, 3, device=device)
    offset_mask[..., :] = torch.tensor([6.0, -4.0, 5.0])
    result = call(case, "attn", backend)(value, offset_mask)
    assert result.nonzero().tolist() == [[0, 4, 4, 0]]
    assert result[0, 4, 4, 0] == 5


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
def test_grid_spreads_around_its_centre(spread, kernel, device):
    """On a ramp the result is the mean place: the kernel's centre, rounded down, stays."""
    case = Case((1, 40), 1, (1, kernel), pad=(0, 0), groups=1, channels=1, spread=spread)
    ramp = torch.arange(40.0, dtype=torch.float64, device=device).view(1, 1, 40, 1)
    offset_mask = torch.zeros(1, 1, 41 - kernel, kernel * 3, dtype=torch.float64, device=device)
    result = call(case, "attn_softmax")(ramp, offset_mask)
    centre, middle = (kernel - 1) // 2, (kernel - 1) / 2
    expected = torch.arange(41.0 - kernel) + centre + (middle - centre) * spread
    inner = slice(5, 25)
    torch.testing.assert_close(
        result[0, 0, inner, 0].cpu(), expected[inner].double(), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    "stride,pad,dilation", [((1, 1), (1, 1), (1, 1)), ((2, 1), (3, 2), (2, 3))]
)
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4)], ids=str)
def test_result_equals_torchvisions_depthwise_convolution_of_ones(
    kernel, stride, pad, dilation, device
):
    torchvision = pytest.importorskip("torchvision")
    case = Case((9, 8), 2, kernel, stride, pad, dilation, groups=2, channels=3)
    value, offset_mask = draw(case, torch.float64, device)
    rows, columns = kernel
    # (B, Ho, Wo, G, columns, rows, 3) to (B, G, rows, columns, 3, Ho, Wo)
    triples = offset_mask.unflatten(-1, (2, columns, rows, 3)).permute(0, 3, 5, 4, 6, 1, 2)
    expected = torchvision.ops.deform_conv2d(
        value.permute(0, 3, 1, 2),
        triples[:, :, :, :, :2].flip(4).flatten(1, 4),
        torch.ones(6, 1, *kernel, dtype=torch.float64, device=device),
        stride=stride,
        padding=pad,
        dilation=dilation,
        mask=triples[:, :, :, :, 2].flatten(1, 3),
    )
    result = call(case)(value, offset_mask)
    torch.testing.assert_close(result.permute(0, 3, 1, 2), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_kernels_of_lesser_processors_give_the_same(capability, library, tmp_path):
    """The instruction set is chosen once a process, so another process takes another."""
    calls = [
        (case, dtype, name, *draw(case, dtype, seed=3))
        for case in CASES
        for dtype in DTYPES
        for name in OPS
    ]
    inputs, outputs = tmp_path / "operands.pt", tmp_path / "results.pt"
    torch.save([(name, *tensors, *case.parameters) for case, _, name, *tensors in calls], inputs)
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
capability = torch.backends.cpu.get_cpu_capability()
results = [getattr(torch.ops.deform_cpu, n)(*a) for n, *a in torch.load({str(inputs)!r})]
torch.save(dict(capability=capability, results=results), {str(outputs)!r})
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    answer = torch.load(outputs)
    if capability == "avx2" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX2")
    assert answer["capability"] == {"default": "DEFAULT", "avx2": "AVX2"}[capability]
    for (case, dtype, name, *tensors), result in zip(calls, answer["results"], strict=True):
        assert_accurate(result, exact(case, *tensors, softmax=name == "attn_softmax"), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
def test_point_at_no_real_place_adds_nothing(backend, poison, device):
    value, offset_mask = draw(SMALL, device=device)
    lost, far = offset_mask.clone(), offset_mask.clone()
    for first, axis in ((0, 0), (4, 1)):  # in x of some points, in y of others
        lost.view(-1, 3)[first::7, axis] = poison
        far.view(-1, 3)[first::7, axis] = -99.0  # well outside, finite for the oracle
    expected = exact(SMALL, value, far, softmax=False)
    assert_accurate(call(SMALL, "attn", backend)(value, lost), expected, torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_weight_of_a_point_outside_the_map_counts_in_softmax_only(backend, device):
    case = Case((4, 4), 1, (1, 2), pad=(0, 0), groups=1, channels=2)
    value = torch.ones(1, 4, 4, 2, device=device)
    offset_mask = torch.zeros(1, 4, 3, 6, device=device)
    offset_mask[..., 3] = 99.0
    offset_mask[..., 5] = float("nan")
    assert (call(case, "attn", backend)(value, offset_mask) == 0).all()
    offset_mask[..., 5] = 0
    result = call(case, "attn_softmax", backend)(value, offset_mask)
    torch.testing.assert_close(result, torch.full_like(result, 0.5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_points_exactly_at_and_past_the_border(backend, device):
    places = [[-1, 0], [-0.75, 0], [0, -1], [0, -0.5], [5, 2], [4.5, 2], [4, 3], [2, 4]]
    case = Case((4, 5), 8, (1, 1), stride=(4, 5), pad=(0, 0), groups=1, channels=3)
    value = draw(case, torch.float64, device)[0]
    offset_mask = torch.ones(8, 1, 1, 3, dtype=torch.float64, device=device)
    offset_mask[:, 0, 0, :2] = torch.tensor(places, dtype=torch.float64)
    result = call(case, "attn", backend)(value, offset_mask)
    assert_accurate(result, exact(case, value, offset_mask, softmax=False), torch.float64)
    assert (result[[0, 2, 4, 7]] == 0).all()
    assert (result[[1, 3, 5, 6]].abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("channels", [1, 5, 16, 32, 72])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_nothing_outside_a_group_or_a_picture_is_read(backend, dtype, channels, device):
    """Whatever isn't the map at hand is NaN, which even a weight of 0 would let through."""
    case = Case((5, 4), 3, groups=3, channels=channels, reach=3.0)
    value, offset_mask = draw(case, dtype, device)
    offset_mask.view(-1)[::7] = float("nan")
    offset_mask.view(-1, 3)[:, 2] = 1.0
    group = slice(channels, 2 * channels)
    surrounded = torch.full((5, *value.shape[1:]), float("nan"), dtype=dtype, device=device)
    surrounded[2, ..., group] = value[1, ..., group]
    result = call(case, "attn", backend)(surrounded[1:4], offset_mask)
    assert torch.isfinite(result[1, ..., group]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "case",
    [
        replace(SMALL, batch=0),
        Case((2, 6), pad=(0, 0)),  # the window needs a third row
        Case((1, 1), pad=(0, 0)),
        Case((9, 1), dilation=(1, 9)),
    ],
    ids=str,
)
def test_no_batch_or_no_place_for_the_kernel_gives_an_empty_result(backend, case, device):
    result = call(case, "attn_softmax", backend)(*draw(case, torch.float16, device))
    assert result.shape == (case.batch, *case.output, case.groups * case.channels)
    assert result.numel() == 0
    assert result.dtype == torch.float16


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_in_any_memory_order(backend, device):
    operands = draw(SMALL, device=device)
    expected = call(SMALL, "attn_softmax", backend)(*operands)

    def strided(tensor: torch.Tensor) -> torch.Tensor:
        wide = torch.empty(*tensor.shape, 3, dtype=tensor.dtype, device=device)[..., 1]
        return wide.transpose(0, -1).contiguous().transpose(0, -1).copy_(tensor)

    shuffled = [strided(tensor) for tensor in operands]
    assert not any(tensor.is_contiguous() for tensor in shuffled)
    result = call(SMALL, "attn_softmax", backend)(*shuffled)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offset_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_offsets_of_another_float_type(backend, dtype, offset_dtype, device):
    operands = draw(SMALL, dtype, device, offset_dtype=offset_dtype)
    result = call(SMALL, "attn_softmax", backend)(*operands)
    assert_accurate(result, exact(SMALL, *operands, softmax=True), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_pictures(backend, device):
    case = replace(SMALL, batch=65)
    operands = draw(case, device=device)
    result = call(case, "attn", backend)(*operands)
    assert_accurate(result, exact(case, *operands, softmax=False), torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_channels_in_float64(backend, device):
    case = Case((4, 4), groups=1, channels=1025)
    operands = draw(case, torch.float64, device)
    result = call(case, "attn", backend)(*operands)
    assert_accurate(result, exact(case, *operands, softmax=False), torch.float64)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_points(backend, name, device):
    """More than a block of the GPU's shared memory takes."""
    case = Case((13, 14), 1, (13, 13), pad=(6, 6), groups=2, channels=2, reach=3.0)
    operands = draw(case, device=device)
    expected = exact(case, *operands, softmax=name == "attn_softmax")
    assert_accurate(call(case, name, backend)(*operands), expected, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_half_precision_sums_in_float32(backend, dtype, device):
    """The terms cancel, and their partial sums don't fit float16."""
    value = torch.tensor([40000.0, 40000.0, -40000.0, -39000.0], dtype=dtype, device=device)
    case = Case((1, 4), 1, (1, 4), pad=(0, 0), groups=1, channels=1)
    offset_mask = torch.tensor([0.0, 0.0, 1.0], dtype=dtype, device=device).repeat(4)
    result = call(case, "attn", backend)(value.view(1, 1, 4, 1), offset_mask.view(1, 1, 1, 12))
    assert result.item() == value.double().sum().item()


@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax_of_extreme_logits(backend, device):
    value, offset_mask = draw(SMALL, device=device)
    logits = offset_mask.view(2, 5, 6, 3, 9, 3)[..., 2]
    logits *= 1e4
    logits[:, 1::2, :, :, ::3] = -float("inf")
    expected = exact(SMALL, value, offset_mask, softmax=True)
    result = call(SMALL, "attn_softmax", backend)(value, offset_mask)
    assert_accurate(result, expected, torch.float32)


@pytest.mark.parametrize("logits", [[float("nan"), 0.0], [-float("inf")] * 2, [float("inf"), 0.0]])
@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax_without_a_value_is_nan_in_its_own_group_only(backend, logits, device):
    case = Case((3, 4), 1, (1, 2), pad=(0, 0), groups=2, channels=2)
    value = torch.ones(1, 3, 4, 4, device=device)
    offset_mask = torch.zeros(1, 3, 3, 12, device=device)
    offset_mask[..., 8::3] = torch.tensor(logits)
    result = call(case, "attn_softmax", backend)(value, offset_mask)
    assert result[..., 2:].isnan().all()
    assert (result[..., :2] == 1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_number_of_threads_changes_no_bit(dtype):
    case = Case((20, 20), groups=8, channels=16)
    operands = draw(case, dtype)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = call(case)(*operands)
        torch.set_num_threads(4)
        assert torch.equal(call(case)(*operands), expected)
    finally:
        torch.set_num_threads(threads)
