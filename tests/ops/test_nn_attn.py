"""DeformAttn2d and DeformSample2d against their formula in grid_sample."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_accurate
from deform_ops.nn import DeformAttn2d, DeformSample2d
from deform_ops.registry import Backend, attn
from torch import Tensor, nn

BATCH, HEIGHT, WIDTH, DIM, GROUPS = 2, 9, 7, 12, 3
GEOMETRIES = [
    {},
    {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1},
    {"kernel_size": 5, "drop_center": True, "spread": 0.5},
    {"kernel_size": 2, "padding": 1, "spread": 1.7, "method": "softmax"},
    {"kernel_size": 3, "center_gate": True, "method": "softmax"},
    {"kernel_size": 3, "center_gate": True, "padding": 0, "stride": 2, "drop_center": True},
    {"kernel_size": 3, "project": None},
]


def ready(made: nn.Module) -> nn.Module:
    """The layer in float64 with parameters that make it sample between pixels."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    return made.double()


def normal(*size: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(size))
    return torch.randn(size, generator=generator, dtype=torch.float64)


def output_size(made: DeformAttn2d) -> tuple[int, int]:
    reach = made.dilation * (made.kernel_size - 1) + 1
    return tuple((n + 2 * made.padding - reach) // made.stride + 1 for n in (HEIGHT, WIDTH))


def sampled(made: DeformAttn2d, value: Tensor, offset_mask: Tensor) -> Tensor:
    """(B, Ho, Wo, dim): the operator by grid_sample, one group and point after the other."""
    rows, columns = output_size(made)
    kernel, points = made.kernel_size, made.kernel_size**2 - made.drop_center
    numbers = offset_mask[..., : made.groups * points * 3]
    numbers = numbers.reshape(BATCH, rows, columns, made.groups, points, 3)
    weights = numbers[..., 2].softmax(-1) if made.method == "softmax" else numbers[..., 2]
    middle = made.dilation * (kernel - 1) // 2
    # Columns of the kernel outside, rows inside.
    steps = [(x, y) for x, y in itertools.product(range(kernel), repeat=2)]
    if made.drop_center:
        steps.remove((kernel // 2, kernel // 2))
    first_y = torch.arange(rows).view(1, -1, 1) * made.stride - made.padding
    first_x = torch.arange(columns).view(1, 1, -1) * made.stride - made.padding
    parts = []
    for group, channels in enumerate(value.chunk(made.groups, -1)):
        total = 0
        for point, (step_x, step_y) in enumerate(steps):
            dx, dy = numbers[..., group, point, 0], numbers[..., group, point, 1]
            x = first_x + middle + made.spread * (step_x * made.dilation - middle + dx)
            y = first_y + middle + made.spread * (step_y * made.dilation - middle + dy)
            grid = torch.stack([(2 * x + 1) / WIDTH - 1, (2 * y + 1) / HEIGHT - 1], -1)
            read = F.grid_sample(channels.permute(0, 3, 1, 2), grid, align_corners=False)
            total = total + read.permute(0, 2, 3, 1) * weights[..., group, point, None]
        parts.append(total)
    return torch.cat(parts, -1)


def formula(made: DeformAttn2d, query: Tensor, value: Tensor) -> Tensor:
    """(B, Ho, Wo, dim) of a query and a value with channels last."""
    state = made.state_dict()
    if made.proj_value is not None:
        value = value @ state["proj_value.weight"].T + state["proj_value.bias"]
    offset_mask = query @ state["proj_offset_mask.weight"].T + state["proj_offset_mask.bias"]
    result = sampled(made, value, offset_mask)
    if made.center_gate:
        logits = result @ state["center_scale.scale_weight"].T + state["center_scale.scale_bias"]
        gate = logits.sigmoid().repeat_interleave(made.group_dims, -1)
        rows, columns = output_size(made)
        middle = made.dilation * (made.kernel_size // 2) - made.padding
        y = torch.arange(rows) * made.stride + middle
        x = torch.arange(columns) * made.stride + middle
        result = result * (1 - gate) + value[:, y][:, :, x] * gate
    if made.proj_output is not None:
        result = result @ state["proj_output.weight"].T + state["proj_output.bias"]
    return result


@pytest.fixture(params=GEOMETRIES, ids=str)
def geometry(request):
    return request.param


@pytest.mark.parametrize("backend", [None, Backend.EAGER])
def test_layer_equals_its_formula(geometry, backend, device):
    made = ready(DeformAttn2d(DIM, groups=GROUPS, backend=backend, **geometry))
    query, value = normal(BATCH, *output_size(made), DIM), normal(BATCH, HEIGHT, WIDTH, DIM)
    with torch.no_grad():
        expected = formula(made, query, value)
        maps = (query.permute(0, 3, 1, 2).to(device), value.permute(0, 3, 1, 2).to(device))
        result = made.to(device)(*maps)
    assert_accurate(result.permute(0, 2, 3, 1), expected, torch.float64)


def test_maps_and_rows_give_the_same(geometry, device):
    made = ready(DeformAttn2d(DIM, groups=GROUPS, **geometry)).to(device)
    query = normal(BATCH, DIM, *output_size(made)).to(device)
    value = normal(BATCH, DIM, HEIGHT, WIDTH).to(device)
    query_rows, value_rows = (t.flatten(2).transpose(1, 2) for t in (query, value))
    expected = made(query, value)
    torch.testing.assert_close(made(query, value_rows, (HEIGHT, WIDTH)), expected)
    rows = made(query_rows, value)
    assert rows.shape == (BATCH, expected.shape[2] * expected.shape[3], DIM)
    torch.testing.assert_close(rows.transpose(1, 2).unflatten(2, expected.shape[2:]), expected)
    torch.testing.assert_close(made(query_rows, value_rows, (HEIGHT, WIDTH)), rows)


def test_self_sampling_layer_is_a_depthwise_convolution_before_the_sampling(geometry, device):
    made = ready(DeformSample2d(DIM, groups=GROUPS, **geometry))
    x = normal(BATCH, DIM, HEIGHT, WIDTH)
    inner = made.sample
    step = {"stride": inner.stride, "padding": inner.padding, "dilation": inner.dilation}
    with torch.no_grad():
        query = F.conv2d(x, made.offset.weight, made.offset.bias, groups=DIM, **step)
        expected = formula(inner, query.permute(0, 2, 3, 1), x.permute(0, 2, 3, 1))
        result = made.to(device)(x.to(device))
        as_rows = made(x.to(device).flatten(2).transpose(1, 2), (HEIGHT, WIDTH))
    assert_accurate(result.permute(0, 2, 3, 1), expected, torch.float64)
    assert_accurate(as_rows, expected.flatten(1, 2), torch.float64)


def test_gradients_equal_the_eager_forms(device):
    gradients = []
    for backend in (None, Backend.EAGER):
        made = ready(DeformSample2d(DIM, groups=GROUPS, center_gate=True, backend=backend))
        made = made.to(device)
        made(normal(BATCH, DIM, HEIGHT, WIDTH).to(device)).square().sum().backward()
        gradients.append([parameter.grad for parameter in made.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_norm_and_activation_come_last(device):
    plain = ready(DeformSample2d(DIM, groups=GROUPS)).to(device)
    norm = nn.GroupNorm(GROUPS, DIM).double().to(device)
    made = DeformSample2d(DIM, groups=GROUPS, norm=norm, activation=nn.ReLU()).double().to(device)
    made.load_state_dict(
        plain.state_dict() | {f"sample.norm.{k}": v for k, v in norm.state_dict().items()}
    )
    x = normal(BATCH, DIM, HEIGHT, WIDTH).to(device)
    torch.testing.assert_close(made(x), norm(plain(x)).relu())


def test_fresh_layer_has_no_offsets_and_no_weights():
    made = DeformSample2d(DIM, groups=GROUPS)
    for name in ("sample.proj_offset_mask.weight", "sample.proj_offset_mask.bias", "offset.bias"):
        assert (made.get_parameter(name) == 0).all()
    x = torch.randn(1, DIM, 4, 4)
    torch.testing.assert_close(made(x), made.sample.proj_output.bias.view(1, -1, 1, 1).expand_as(x))


def test_state_dict_has_deformops_names_and_shapes():
    made = DeformSample2d(64, 3, groups=4, center_gate=True, drop_center=True)
    # Their order is the order of an optimiser's state.
    wanted = {
        "offset.weight": (64, 1, 3, 3),
        "offset.bias": (64,),
        "sample.proj_offset_mask.weight": (96, 64),
        "sample.proj_offset_mask.bias": (96,),
        "sample.proj_value.weight": (64, 64),
        "sample.proj_value.bias": (64,),
        "sample.proj_output.weight": (64, 64),
        "sample.proj_output.bias": (64,),
        "sample.center_scale.scale_weight": (4, 64),
        "sample.center_scale.scale_bias": (4,),
    }
    shapes = [(key, tuple(tensor.shape)) for key, tensor in made.state_dict().items()]
    assert shapes == list(wanted.items())
    # 4 groups of 9 points of 3 numbers are 108: up to a multiple of 8.
    assert DeformAttn2d(64).proj_offset_mask.weight.shape == (112, 64)


def test_state_dict_loads_strictly_into_another_layer(tmp_path):
    source, target = ready(DeformSample2d(DIM, groups=GROUPS)), DeformSample2d(DIM, groups=GROUPS)
    torch.save(source.state_dict(), tmp_path / "state.pt")
    target.double().load_state_dict(torch.load(tmp_path / "state.pt"), strict=True)
    x = normal(BATCH, DIM, HEIGHT, WIDTH)
    assert torch.equal(target(x), source(x))


def test_projection_without_a_reset_of_its_own_starts_like_a_linear_map():
    class Plain(nn.Module):
        def __init__(self, width: int, height: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((height, width), 9.0))
            self.bias = nn.Parameter(torch.full((height,), 9.0))

    made = DeformAttn2d(DIM, groups=GROUPS, project=Plain)
    assert (made.proj_value.bias == 0).all()
    assert made.proj_output.weight.abs().max() <= (6 / (2 * DIM)) ** 0.5


@pytest.mark.parametrize(
    "options, message",
    [
        ({"groups": 5}, "dim must be a multiple of groups, but is 12 of 5"),
        ({"groups": 3, "center_gate": True, "kernel_size": 2}, "odd kernel_size, but it is 2"),
        ({"groups": 3, "center_gate": True, "padding": 2}, "at most 1, but is 2"),
        ({"groups": 3, "method": "mean"}, "'mean' is not a valid Method"),
    ],
)
def test_impossible_layer_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DeformAttn2d(DIM, **options)


def test_rows_without_a_shape_are_refused():
    rows = torch.zeros(1, 16, DIM)
    with pytest.raises(ValueError, match="shape must say height and width"):
        DeformAttn2d(DIM, groups=GROUPS)(rows, rows)
    with pytest.raises(ValueError, match="shape must be given for an input of three dimensions"):
        DeformSample2d(DIM, groups=GROUPS)(rows)
    with pytest.raises(ValueError, match="and only there"):
        DeformSample2d(DIM, groups=GROUPS)(torch.zeros(1, DIM, 4, 4), (4, 4))


def test_callable_takes_pairs_and_single_numbers_alike(device):
    value, offset_mask = normal(1, 5, 6, 8).to(device), normal(1, 3, 3, 54).to(device)
    options = {"groups": 2, "group_dims": 4}
    single = attn(value, offset_mask, 3, 2, 1, 1, **options)
    assert torch.equal(attn(value, offset_mask, (3, 3), [2, 2], (1, 1), (1, 1), **options), single)
    with pytest.raises(ValueError, match="stride must be a number or two"):
        attn(value, offset_mask, 3, (2, 2, 2), **options)
