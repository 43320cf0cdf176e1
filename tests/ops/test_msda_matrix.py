"""Generated calls of msda: every backend's result and gradients against the reference's loops.

On maps whose sides are powers of two, points are at multiples of a quarter of a pixel, which every
backend computes without rounding: many lie on pixels' centres and on the border, where conventions
show. On others they stay off centres, where rounding would choose the side.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from hypothesis import given
from hypothesis import strategies as st
from msda_operands import Case, Operands, call, direction, floats

BACKENDS = [("deform", "cpu"), ("deform_eager", "cpu")]
if torch.cuda.is_available():
    BACKENDS += [("deform", "cuda"), ("deform_jit", "cuda"), ("deform_eager", "cuda")]

# Products of all sizes: the reference visits each in a plain loop.
MOST_WORK = 60_000


@dataclass(frozen=True)
class Call:
    """A case, and how its operands are drawn."""

    case: Case
    softmax: bool
    location_dtype: torch.dtype | None  # None: value's
    by_level: bool  # weights (B, Q, G, L, K) instead of (B, Q, G, L*K)
    strided: bool
    lost: float | None  # what stands in for some coordinates
    seed: int

    def operands(self, dtype: torch.dtype) -> Operands:
        case = self.case
        generator = torch.Generator().manual_seed(self.seed)

        def normal(*size: int) -> torch.Tensor:
            return torch.randn(*size, generator=generator, dtype=torch.float64)

        shapes = torch.tensor(case.levels)
        sizes = shapes.prod(1)
        heads = case.batch, case.queries, case.heads
        locations = torch.empty(*heads, len(shapes), case.points, 2, dtype=torch.float64)
        for level, shape in enumerate(case.levels):
            for axis, size in enumerate(reversed(shape)):
                span = size + 2 + 2 * case.reach
                place = torch.rand(*heads, case.points, generator=generator) * span
                place = place.double() - 1 - case.reach
                quarters = (place * 4).round() / 4
                if size & (size - 1):
                    quarters = place.floor() + 0.25 + 0.5 * place.frac().abs()
                locations[..., level, :, axis] = (quarters + 0.5) / size
        if self.lost is not None:
            locations[torch.rand(locations.shape, generator=generator) < 0.1] = self.lost
        value = normal(case.batch, int(sizes.sum()), case.heads, case.channels)
        weights = normal(*heads, len(shapes) * case.points)
        if self.by_level:
            weights = weights.unflatten(-1, (len(shapes), case.points))
        kind = self.location_dtype or dtype
        tensors = [value.to(dtype), locations.to(kind), weights.to(kind)]
        if self.strided:
            tensors = [t.transpose(1, -1).contiguous().transpose(1, -1) for t in tensors]
        starts = sizes.cumsum(0) - sizes
        return Operands(tensors[0], shapes, starts, *tensors[1:], case.levels)


@st.composite
def calls(draw) -> Call:
    side = st.sampled_from([1, 2, 3, 4, 5, 7, 8])
    case = Case(
        levels=tuple(draw(st.lists(st.tuples(side, side), min_size=1, max_size=6))),
        batch=draw(st.sampled_from([1, 0, 2, 3])),
        queries=draw(st.sampled_from([1, 0, 2, 5, 7, 13, 31])),
        heads=draw(st.sampled_from([1, 2, 3, 5, 8])),
        channels=draw(st.sampled_from([1, 3, 8, 32, 33, 64, 128])),
        points=draw(st.sampled_from([1, 2, 3, 4, 8, 16])),
        reach=draw(st.sampled_from([0.0, 0.25, 2.0, 30.0])),
    )
    per_query = len(case.levels) * case.heads * case.points * case.channels * max(case.batch, 1)
    if per_query * case.queries > MOST_WORK:
        queries = max(1, MOST_WORK // per_query)
        case = Case(**{**vars(case), "queries": queries, "batch": min(case.batch, 1), "heads": 2})
    return Call(
        case,
        draw(st.booleans()),
        draw(st.sampled_from([None, None, *DTYPES])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([None, float("nan"), float("inf"), -float("inf"), 1e6])),
        draw(st.integers(0, 2**31)),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(drawn=calls())
def test_result_and_gradients_equal_the_references(dtype, drawn):
    operands = drawn.operands(dtype)
    grad = direction(operands)
    name = "msda_softmax" if drawn.softmax else "msda"
    exact = operands.with_(
        value=operands.value.double(),
        sampling_locations=operands.sampling_locations.double(),
        attention_weights=operands.attention_weights.double(),
    )
    reference = call(name, exact, "deform_reference")(*floats(exact))
    references = call(f"{name}_backward", exact, "deform_reference")(grad.double(), *floats(exact))
    kinds = dtype, operands.sampling_locations.dtype
    coarser = max(kinds, key=lambda kind: torch.finfo(kind).eps)
    for backend, device in BACKENDS:
        moved = Operands(*(tensor.to(device) for tensor in operands), operands.levels)
        result = call(name, moved, backend)(*floats(moved))
        assert_accurate(result, reference, dtype)
        results = call(f"{name}_backward", moved, backend)(grad.to(device), *floats(moved))
        assert_accurate(results[0], references[0], dtype, gradient=True)
        for ours, theirs in zip(results[1:], references[1:], strict=True):
            assert (ours.dtype, ours.shape) == (kinds[1], theirs.shape)
            assert_accurate(ours.to(coarser), theirs, coarser, gradient=True)
