"""Values of msda and msda_softmax in every backend, against grid_sample in float64."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from msda_operands import CASES, Case, assert_close, call, draw, floats, grid_sample_form

BACKENDS = ["deform", "deform_jit", "deform_eager", "deform_reference"]
SMALL = Case(((6, 5), (3, 4)), heads=2, channels=16)


def op(backend: str, softmax: bool):
    return getattr(getattr(torch.ops, backend), "msda_softmax" if softmax else "msda")


@pytest.mark.parametrize("softmax", [False, True], ids=["weights", "softmax"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_result_equals_grid_sample_in_float64(backend, case, dtype, softmax, device):
    operands = draw(case, dtype, device)
    if not softmax:  # weights that sum to 1, as attention has them
        weights = operands.attention_weights.double().softmax(-1).to(dtype)
        operands = operands.with_(attention_weights=weights)
    result = op(backend, softmax)(*operands)
    assert result.device == operands.value.device
    assert_close(result, grid_sample_form(operands, softmax=softmax), dtype)


@pytest.mark.parametrize("case", CASES[:4], ids=str)
def test_oracle_of_these_tests_equals_hugging_face(case):
    modeling = pytest.importorskip("transformers.models.mask2former.modeling_mask2former")
    operands = draw(case, torch.float64)
    weights = operands.attention_weights.softmax(-1)
    operands = operands.with_(attention_weights=weights)
    by_level = weights.unflatten(-1, (len(case.levels), case.points))
    expected = modeling.multi_scale_deformable_attention(
        operands.value, list(case.levels), operands.sampling_locations, by_level
    )
    torch.testing.assert_close(grid_sample_form(operands), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_kernels_of_lesser_processors_give_the_same(capability, library, tmp_path):
    """The instruction set is chosen once a process, so another process takes another."""
    operands = [draw(case, dtype, seed=3) for case in CASES for dtype in DTYPES]
    inputs, outputs = tmp_path / "operands.pt", tmp_path / "results.pt"
    torch.save([tuple(o) for o in operands], inputs)
    program = f"""
import torch
torch.ops.load_library({str(library)!r})
capability = torch.backends.cpu.get_cpu_capability()
results = [torch.ops.deform_cpu.msda_softmax(*o) for o in torch.load({str(inputs)!r})]
torch.save(dict(capability=capability, results=results), {str(outputs)!r})
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    answer = torch.load(outputs)
    if capability == "avx2" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor has no AVX2")
    assert answer["capability"] == {"default": "DEFAULT", "avx2": "AVX2"}[capability]
    for given, result in zip(operands, answer["results"], strict=True):
        assert_close(result, grid_sample_form(given, softmax=True), given.value.dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
def test_point_at_no_real_place_adds_nothing(backend, poison, device):
    operands = draw(SMALL, device=device)
    clean = operands.sampling_locations
    lost = torch.zeros(clean.shape[:-1], dtype=torch.bool, device=device)
    lost.view(-1)[::3] = True
    poisoned = clean.clone()
    poisoned[..., 0][lost] = poison
    poisoned.view(-1, 2)[::2] = poisoned.view(-1, 2)[::2].flip(-1)
    locations = clean.clone()
    locations[lost] = -9.0  # well outside, finite for the oracle
    locations.view(-1, 2)[::2] = locations.view(-1, 2)[::2].flip(-1)
    expected = grid_sample_form(operands.with_(sampling_locations=locations))
    result = op(backend, False)(*operands.with_(sampling_locations=poisoned))
    assert_close(result, expected, torch.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_points_exactly_at_and_past_the_border(backend, device):
    case = Case(((4, 5),), batch=1, queries=8, heads=1, channels=3, points=1)
    operands = draw(case, torch.float64, device)
    height, width = case.levels[0]
    pixels = torch.tensor(
        [[-1, 0], [-0.999, 0], [0, -1], [0, -0.5], [5, 2], [4.5, 2], [4, 3], [2, 4]],
        dtype=torch.float64,
    )
    locations = (pixels + 0.5) / torch.tensor([width, height])
    operands = operands.with_(sampling_locations=locations.view(1, 8, 1, 1, 1, 2).to(device))
    result = op(backend, False)(*operands)
    assert_close(result, grid_sample_form(operands), torch.float64)
    outside = [0, 2, 4, 7]
    assert result[0, outside].abs().max() < 1e-12
    assert (result[0, [1, 3, 5, 6]].abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("channels", [1, 5, 16, 32, 72])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_nothing_outside_a_map_or_a_picture_is_read(backend, dtype, channels, device):
    """Whatever isn't the map at hand is NaN, which even a weight of 0 would let through."""
    case = Case(((3, 4),), batch=3, queries=50, heads=3, channels=channels, reach=0.5)
    operands = draw(case, dtype, device)
    operands.sampling_locations.view(-1)[::7] = float("nan")
    surrounded = torch.full((5, 12, 3, channels), float("nan"), dtype=dtype, device=device)
    surrounded[2, :, 1] = operands.value[1, :, 1]
    result = op(backend, False)(*operands.with_(value=surrounded[1:4]))
    assert torch.isfinite(result[1, :, channels : 2 * channels]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("empty", ["batch", "queries"])
def test_no_batch_or_no_queries_gives_an_empty_result(backend, empty, device):
    case = Case(((4, 4), (2, 2)), **{empty: 0})
    result = op(backend, True)(*draw(case, torch.float16, device))
    assert result.shape == (case.batch, case.queries, case.heads * case.channels)
    assert result.dtype == torch.float16


@pytest.mark.parametrize("backend", BACKENDS)
def test_operands_in_any_memory_order(backend, device):
    operands = draw(SMALL, device=device)
    expected = op(backend, True)(*operands)

    def strided(tensor: torch.Tensor) -> torch.Tensor:
        wide = torch.empty(*tensor.shape, 3, dtype=tensor.dtype, device=device)[..., 1]
        return wide.transpose(0, -1).contiguous().transpose(0, -1).copy_(tensor)

    shuffled = [strided(tensor) for tensor in operands]
    assert not any(t.is_contiguous() for t in shuffled if t.dim() > 1)
    torch.testing.assert_close(op(backend, True)(*shuffled), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("location_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_locations_and_weights_of_another_float_type(backend, dtype, location_dtype, device):
    operands = draw(SMALL, dtype, device, location_dtype=location_dtype)
    operands = operands.with_(attention_weights=operands.attention_weights.to(location_dtype))
    result = op(backend, True)(*operands)
    assert_close(result, grid_sample_form(operands, softmax=True), dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_table_of_32_bit_integers_and_weights_by_level(backend, device):
    operands = draw(SMALL, device=device)
    expected = op(backend, True)(*operands)
    other = operands.with_(
        spatial_shapes=operands.spatial_shapes.int(),
        attention_weights=operands.attention_weights.unflatten(-1, (2, SMALL.points)),
    )
    assert torch.equal(op(backend, True)(*other), expected)
    other = other.with_(level_start_index=operands.level_start_index.int())
    assert torch.equal(op(backend, True)(*other), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_half_precision_sums_in_float32(backend, dtype, device):
    """The terms cancel, and their partial sums don't fit float16."""
    value = torch.tensor([40000.0, 40000.0, -40000.0, -39000.0], dtype=dtype, device=device)
    centres = (torch.arange(4, device=device) + 0.5) / 4
    locations = torch.stack([centres, torch.full_like(centres, 0.5)], -1).view(1, 1, 1, 1, 4, 2)
    table = torch.tensor([[1, 4]], device=device), torch.tensor([0], device=device)
    weights = torch.ones(1, 1, 1, 4, device=device)
    result = op(backend, False)(value.view(1, 4, 1, 1), *table, locations, weights)
    assert result.item() == value.double().sum().item()


@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax_of_extreme_logits(backend, device):
    operands = draw(SMALL, device=device)
    logits = operands.attention_weights * 1e4
    logits[:, 1::2, :, ::3] = -float("inf")
    operands = operands.with_(attention_weights=logits)
    expected = grid_sample_form(operands, softmax=True)
    assert_close(op(backend, True)(*operands), expected, torch.float32)


@pytest.mark.parametrize("logits", [[float("nan"), 0.0], [-float("inf")] * 2, [float("inf"), 0.0]])
@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax_without_a_value_is_nan(backend, logits, device):
    case = Case(((3, 3),), batch=1, queries=1, heads=1, channels=2, points=2, reach=-0.2)
    operands = draw(case, device=device)
    logits = torch.tensor(logits, device=device).view(1, 1, 1, 2)
    assert op(backend, True)(*operands.with_(attention_weights=logits)).isnan().all()


def test_threads_share_the_work(library):
    """A process of its own, whose only parallel work is the operator's, counts its threads."""
    program = f"""
import os, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import torch
from msda_operands import Case, draw
torch.ops.load_library({str(library)!r})
torch.set_num_threads(1)
operands = draw(Case(((20, 20),), queries=400, heads=8, channels=32))
torch.ops.deform.msda(*operands)
alone = len(os.listdir("/proc/self/task"))
torch.set_num_threads(2)
torch.ops.deform.msda(*operands)
print(len(os.listdir("/proc/self/task")) - alone)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_number_of_threads_changes_no_bit(dtype):
    operands = draw(Case(((20, 20),), queries=400, heads=8, channels=32), dtype)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = torch.ops.deform.msda(*operands)
        torch.set_num_threads(4)
        assert torch.equal(torch.ops.deform.msda(*operands), expected)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", ["deform", "deform_jit", "deform_reference"])
def test_infinite_pixel_reaches_only_points_beside_it(backend, dtype, softmax, device):
    """Whatever else a kernel reads along with a point, or multiplies by 0."""
    case = Case(((4, 5), (3, 1)), batch=2, queries=60, heads=4, channels=32)
    operands = draw(case, dtype, device)
    value = operands.value.clone()
    value[0, 7, 1], value[1, 21, 2] = float("inf"), float("nan")
    name = "msda_softmax" if softmax else "msda"
    plain = call(name, operands, "deform_reference")(*floats(operands))
    poisoned = call(name, operands, backend)(value, *floats(operands)[1:])
    touched = call(name, operands, "deform_reference")(value, *floats(operands)[1:]) != plain
    assert 0 < touched.sum() < touched.numel() / 4
    assert not poisoned[touched].isfinite().any()
    assert_accurate(poisoned[~touched], plain[~touched].double(), dtype)
