"""Operands of multi-scale deformable attention for tests, and what should come out of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """Sizes of a call; `reach` is how far, in units of the map, points lie beyond its borders."""

    levels: tuple[tuple[int, int], ...]
    batch: int = 2
    queries: int = 9
    heads: int = 2
    channels: int = 8
    points: int = 4
    reach: float = 0.3

    def __str__(self) -> str:
        maps = "+".join(f"{h}x{w}" for h, w in self.levels[:3])
        more = f"+{len(self.levels) - 3}more" if len(self.levels) > 3 else ""
        sizes = f"b{self.batch}q{self.queries}g{self.heads}d{self.channels}k{self.points}"
        return f"{maps}{more}-{sizes}"


CASES = [
    Case(((16, 12), (8, 6), (4, 3)), queries=60, heads=8, channels=32),
    Case(((12, 20), (6, 10), (3, 5), (2, 3)), queries=33, heads=4, channels=32, reach=0.02),
    Case(((1, 1),), batch=1, queries=1, heads=1, channels=1, points=1),
    Case(((5, 3), (3, 2)), batch=3, heads=3, channels=7, points=3),
    Case(((1, 9), (7, 1)), heads=1, channels=2, points=5),
    Case(((9, 9),), heads=2, channels=130, points=2),
    Case(((6, 7), (4, 4)), heads=1, channels=85, points=1),
    Case(((4, 6),), heads=3, channels=48, points=37),
    Case(((8, 8), (4, 4), (2, 2)), heads=5, channels=64, points=8, reach=3.0),
    Case(((2, 3),) * 70, batch=1, queries=5, heads=2, channels=12, points=1),
]


@dataclass
class Operands:
    """What an operator takes, in its order."""

    value: Tensor
    spatial_shapes: Tensor
    level_start_index: Tensor
    sampling_locations: Tensor
    attention_weights: Tensor
    levels: tuple[tuple[int, int], ...] = field(repr=False)

    def __iter__(self):
        yield from (self.value, self.spatial_shapes, self.level_start_index)
        yield from (self.sampling_locations, self.attention_weights)

    def with_(self, **changes: Tensor) -> Operands:
        return replace(self, **changes)


def draw(
    case: Case,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    *,
    location_dtype: torch.dtype | None = None,
    seed: int = 0,
) -> Operands:
    """Unit-normal values and logits of `dtype`; locations float32 unless value is float64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = torch.tensor(case.levels)
    sizes = shapes.prod(1)
    starts = sizes.cumsum(0) - sizes
    if location_dtype is None:
        location_dtype = torch.float64 if dtype == torch.float64 else torch.float32

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    heads = (case.batch, case.queries, case.heads)
    value = normal(case.batch, int(sizes.sum()), case.heads, case.channels)
    uniform = torch.rand(
        *heads, len(shapes), case.points, 2, generator=generator, dtype=torch.float64
    )
    locations = uniform * (1 + 2 * case.reach) - case.reach
    logits = normal(*heads, len(shapes) * case.points)
    return Operands(
        value.to(device, dtype),
        shapes.to(device),
        starts.to(device),
        locations.to(device, location_dtype),
        logits.to(device, dtype),
        case.levels,
    )


def grid_sample_form(operands: Operands, *, softmax: bool = False) -> Tensor:
    """The result in float64 on the CPU, by torch's grid_sample. Locations have to be finite."""
    value, _, _, locations, weights = (tensor.detach().cpu().double() for tensor in operands)
    return grid_sample_attention(operands.levels, value, locations, weights.flatten(3), softmax)


def grid_sample_attention(
    levels: tuple[tuple[int, int], ...],
    value: Tensor,
    locations: Tensor,
    weights: Tensor,
    softmax: bool,
) -> Tensor:
    """:func:`grid_sample_form` of given tensors of one type and device, differentiable."""
    batch, _, heads, _ = value.shape
    points = locations.shape[4]
    if softmax:
        weights = weights.softmax(-1)
    result, first = 0, 0
    for level, (height, width) in enumerate(levels):
        rows = value[:, first : first + height * width]  # (B, H*W, G, D)
        first += height * width
        maps = rows.permute(0, 2, 3, 1).reshape(batch * heads, -1, height, width)
        grid = (2 * locations[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
        sampled = F.grid_sample(maps, grid, align_corners=False).unflatten(0, (batch, heads))
        share = weights[..., level * points : (level + 1) * points].transpose(1, 2)
        result = result + (sampled * share.unsqueeze(2)).sum(-1)
    return result.permute(0, 3, 1, 2).flatten(2)


def exact_gradients(operands: Operands, grad: Tensor, *, softmax: bool) -> list[Tensor]:
    """Of value, sampling_locations and attention_weights, by autograd through grid_sample in
    float64 on the CPU. Locations have to be finite.
    """
    value, _, _, locations, weights = (tensor.detach().cpu().double() for tensor in operands)
    leaves = [tensor.requires_grad_() for tensor in (value, locations, weights)]
    result = grid_sample_attention(operands.levels, *leaves[:2], leaves[2].flatten(3), softmax)
    return list(torch.autograd.grad(result, leaves, grad.detach().cpu().double()))


def direction(operands: Operands, seed: int = 7) -> Tensor:
    """A gradient of the result, of value's type and device."""
    value, queries = operands.value, operands.sampling_locations.shape[1]
    shape = value.shape[0], queries, value.shape[2] * value.shape[3]
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(value)


def call(name: str, operands: Operands, backend: str = "deform", **options):
    """The operator as a function of its float operands, a backward one of the gradient first."""
    table = operands.spatial_shapes, operands.level_start_index

    def run(*floats: Tensor):
        *before, locations, weights = floats
        operator = getattr(getattr(torch.ops, backend), name)
        return operator(*before, *table, locations, weights, **options)

    return run


def floats(operands: Operands) -> tuple[Tensor, Tensor, Tensor]:
    """The operands that have gradients."""
    return operands.value, operands.sampling_locations, operands.attention_weights


def leaves(operands: Operands) -> list[Tensor]:
    """Those as copies that want gradients."""
    return [tensor.detach().clone().requires_grad_() for tensor in floats(operands)]


def assert_close(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Within one rounding to `dtype` of a sum in float32, in float64 for float64."""
    assert actual.dtype == dtype
    rounding = 0.0 if dtype in (torch.float32, torch.float64) else torch.finfo(dtype).eps / 2
    sums = 1e-12 if dtype == torch.float64 else 3e-5
    torch.testing.assert_close(
        actual.detach().cpu().double(), expected, rtol=rounding * 1.001, atol=sums
    )
