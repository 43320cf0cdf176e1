"""MultiScaleDeformAttn2d against its formula in grid_sample, and the checkpoints that it loads."""

from __future__ import annotations

import math

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from deform_ops.nn import MultiScaleDeformAttn2d
from deform_ops.registry import Backend
from msda_operands import grid_sample_attention
from torch import Tensor, nn

LEVELS = ((6, 5), (3, 4))
SHAPES = torch.tensor(LEVELS)
STARTS = torch.tensor([0, 30])
BATCH, QUERIES, DIM, HEADS, POINTS = 2, 7, 12, 3, 2


def layer(seed: int = 0, **options) -> MultiScaleDeformAttn2d:
    """A layer whose points and weights depend on the query."""
    torch.manual_seed(seed)
    sizes = {"num_heads": HEADS, "num_levels": len(LEVELS), "num_points": POINTS}
    made = MultiScaleDeformAttn2d(DIM, **{**sizes, **options})
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return made.double()


def inputs(numbers: int = 2, dim_value: int = DIM) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(BATCH, QUERIES, DIM, generator=generator, dtype=torch.float64)
    size = BATCH, QUERIES, len(LEVELS), numbers
    reference = torch.rand(size, generator=generator, dtype=torch.float64)
    rows = int(SHAPES.prod(1).sum())
    value = torch.randn(BATCH, rows, dim_value, generator=generator, dtype=torch.float64)
    return query, reference, value


def formula(made: MultiScaleDeformAttn2d, query, reference, value, padding=None) -> Tensor:
    """What Deformable DETR's paper says, in float64, level by level and head by head."""
    state = {key: tensor.detach().double().cpu() for key, tensor in made.state_dict().items()}

    def project(name: str, tensor: Tensor) -> Tensor:
        return tensor @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    projected = project("proj_value", value)
    if padding is not None:
        projected = projected * ~padding[..., None]
    head_dim = projected.shape[-1] // HEADS
    offsets = project("proj_offset", query).view(BATCH, QUERIES, HEADS, len(LEVELS), POINTS, 2)
    locations = torch.empty_like(offsets)
    for level, (height, width) in enumerate(LEVELS):
        at = reference[:, :, None, level, None]
        if at.shape[-1] == 2:
            step = offsets[:, :, :, level] / torch.tensor([width, height])
        else:
            step = offsets[:, :, :, level] / POINTS * at[..., 2:] / 2
        locations[:, :, :, level] = at[..., :2] + step
    weights = project("proj_weights", query).view(BATCH, QUERIES, HEADS, -1)
    attended = grid_sample_attention(
        LEVELS,
        projected.view(BATCH, -1, HEADS, head_dim),
        locations,
        weights,
        made.method == "softmax",
    )
    return project("proj_output", attended)


@pytest.mark.parametrize("method", ["softmax", "linear"])
@pytest.mark.parametrize("numbers", [2, 4], ids=["points", "boxes"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layer_equals_its_formula(method, numbers, dtype, device):
    made = layer(method=method).to(device, dtype)
    query, reference, value = (tensor.to(dtype) for tensor in inputs(numbers))
    operands = [tensor.to(device) for tensor in (query, reference, value, SHAPES, STARTS)]
    expected = formula(made, query.double(), reference.double(), value.double())
    assert_accurate(made(*operands), expected, dtype, gradient=True)


def test_padded_rows_count_as_0(device):
    made = layer().to(device)
    operands = inputs()
    padding = torch.rand(operands[2].shape[:2], generator=torch.Generator().manual_seed(2)) < 0.3
    on_device = [tensor.to(device) for tensor in (*operands, SHAPES, STARTS, padding)]
    assert_accurate(made(*on_device), formula(made, *operands, padding), torch.float64)


def test_value_and_output_may_have_other_channels(device):
    made = layer(dim_value=5, dim_output=9).to(device)
    query, reference, value = inputs(dim_value=5)
    operands = [tensor.to(device) for tensor in (query, reference, value, SHAPES, STARTS)]
    result = made(*operands)
    assert result.shape == (BATCH, QUERIES, 9)
    assert_accurate(result, formula(made, query, reference, value), torch.float64)


def test_gradients_equal_the_eager_forms(device):
    gradients = []
    for backend in (None, Backend.EAGER):
        made = layer(backend=backend).to(device)
        operands = [tensor.to(device) for tensor in (*inputs(), SHAPES, STARTS)]
        made(*operands).square().sum().backward()
        gradients.append([parameter.grad for parameter in made.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_half_precision_keeps_points_of_a_large_level_in_place():
    """A pixel in 400 is finer than bfloat16 can say in [0, 1]; the offset has to survive."""
    made = MultiScaleDeformAttn2d(2, num_heads=1, num_levels=1, num_points=1).bfloat16()
    for projection in (made.proj_value, made.proj_output):
        projection.weight.data = torch.eye(2).bfloat16()
    made.proj_offset.bias.data = torch.tensor([1.0, 0.0]).bfloat16()
    value = torch.arange(400.0).div(8).bfloat16()[None, :, None].expand(1, 400, 2)
    # Pixel 255.5: 0.640625 of the width is bfloat16, the offset of 1/400 beside it isn't.
    reference = torch.tensor([0.640625, 0.5]).bfloat16().view(1, 1, 1, 2)
    table = torch.tensor([[1, 400]]), torch.tensor([0])
    result = made(torch.zeros(1, 1, 2).bfloat16(), reference, value, *table)
    x = 0.640625 * 400 + 1 - 0.5
    torch.testing.assert_close(result.float(), torch.full((1, 1, 2), x / 8), rtol=4e-3, atol=0)


def test_fresh_layer_looks_around_its_reference_with_even_weights():
    made = MultiScaleDeformAttn2d(16, num_heads=8, num_levels=2, num_points=3)
    offsets = made.proj_offset.bias.view(8, 2, 3, 2)
    assert (made.proj_offset.weight == 0).all()
    for name in ("proj_weights.weight", "proj_weights.bias", "proj_value.bias", "proj_output.bias"):
        assert (made.get_parameter(name) == 0).all()
    for head in range(8):
        angle = 2 * math.pi * head / 8
        direction = torch.tensor([math.cos(angle), math.sin(angle)])
        direction /= max(abs(math.cos(angle)), abs(math.sin(angle)))
        for point in range(3):
            expected = (direction * (point + 1)).expand(2, 2)
            torch.testing.assert_close(offsets[head, :, point], expected)
    bound = math.sqrt(6 / 32)
    assert 0.8 * bound < made.proj_value.weight.abs().max() <= bound


def test_state_dict_has_deformops_names_and_shapes():
    made = MultiScaleDeformAttn2d(8, 6, 10, num_heads=2, num_levels=3, num_points=4)
    # Their order is the order of an optimiser's state.
    wanted = {
        "proj_offset.weight": (48, 8),
        "proj_offset.bias": (48,),
        "proj_weights.weight": (24, 8),
        "proj_weights.bias": (24,),
        "proj_value.weight": (8, 6),
        "proj_value.bias": (8,),
        "proj_output.weight": (10, 8),
        "proj_output.bias": (10,),
    }
    shapes = [(key, tuple(tensor.shape)) for key, tensor in made.state_dict().items()]
    assert shapes == list(wanted.items())


class Encoder(nn.Module):
    """The layer under a prefix, as models have it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.attention = layer(seed)


def test_checkpoint_with_deformable_detrs_names_loads_strictly():
    source, target = Encoder(0), Encoder(1)
    old_names = {
        "proj_offset": "sampling_offsets",
        "proj_weights": "attention_weights",
        "proj_value": "value_proj",
        "proj_output": "output_proj",
    }
    old = {}
    for key, tensor in source.state_dict().items():
        prefix, name, kind = key.split(".")
        old[f"{prefix}.{old_names[name]}.{kind}"] = tensor
    target.load_state_dict(old, strict=True)
    for key, tensor in target.state_dict().items():
        assert torch.equal(tensor, source.state_dict()[key])


def test_own_checkpoint_loads_strictly_and_keeps_its_version(tmp_path):
    source, target = Encoder(0), Encoder(1)
    torch.save(source.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt")
    assert state._metadata["attention"]["version"] == 2
    target.load_state_dict(state, strict=True)
    operands = (*inputs(), SHAPES, STARTS)
    assert torch.equal(target.attention(*operands), source.attention(*operands))


def test_foreign_key_is_reported():
    state = layer().state_dict()
    state["sampling_offsets.weight"] = state.pop("proj_offset.weight")
    # Of version 2, where that name means nothing.
    with pytest.raises(RuntimeError, match=r"Missing key.*proj_offset.weight.*\n.*sampling_off"):
        layer().load_state_dict(state, strict=True)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_heads": 5}, "dim must be a multiple of num_heads, but is 12 of 5"),
        ({"num_heads": 0}, "num_heads must be at least 1, but is 0"),
        ({"num_levels": 0}, "num_levels must be at least 1, but is 0"),
        ({"num_points": -1}, "num_points must be at least 1, but is -1"),
        ({"method": "mean"}, "'mean' is not a valid Method"),
    ],
)
def test_impossible_layer_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        layer(**options)


def test_reference_of_three_numbers_is_refused():
    query, reference, value = inputs(4)
    with pytest.raises(ValueError, match="reference must end in 2 or 4 numbers, but has 3"):
        layer()(query, reference[..., :3], value, SHAPES, STARTS)
