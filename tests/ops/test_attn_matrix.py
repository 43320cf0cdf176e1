"""Generated calls of attn: every backend's result and gradients against the reference's loops.

Places of points are multiples of 1/4 times a power of two, which every backend computes without
rounding: many lie on pixels' centres and on the border, where conventions show.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from attn_operands import Case, call
from hypothesis import given
from hypothesis import strategies as st

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
    offset_dtype: torch.dtype | None  # None: value's
    strided: bool
    lost: float | None  # what stands in for some coordinates
    seed: int

    def operands(self, dtype: torch.dtype) -> list[torch.Tensor]:
        """The result's gradient, value and offset_mask."""
        case = self.case
        generator = torch.Generator().manual_seed(self.seed)

        def normal(*size: int) -> torch.Tensor:
            return torch.randn(*size, generator=generator, dtype=torch.float64)

        channels, used = case.groups * case.channels, case.groups * case.points * 3
        offset_mask = normal(case.batch, *case.output, used + case.extra)
        triples = offset_mask[..., :used].unflatten(-1, (-1, 3))
        offsets = triples[..., :2]
        offsets *= 4 * case.reach
        offsets.round_().div_(4).clamp_(-16, 16)
        if self.lost is not None:
            offsets[torch.rand(offsets.shape, generator=generator) < 0.1] = self.lost
        grad = normal(case.batch, *case.output, channels)
        value = normal(case.batch, *case.size, channels)
        tensors = [grad.to(dtype), value.to(dtype), offset_mask.to(self.offset_dtype or dtype)]
        if self.strided:
            tensors = [t.transpose(1, 3).contiguous().transpose(1, 3) for t in tensors]
        return tensors


@st.composite
def calls(draw) -> Call:
    small, pairs = st.integers(1, 4), lambda numbers: st.tuples(numbers, numbers)
    kernel = draw(pairs(small))
    drop_center = draw(st.booleans()) and kernel != (1, 1)
    softmax = draw(st.booleans())
    # With a spread of 0 the softmax's gradient is nothing but rounding.
    spreads = [1.0, 0.5, 0.25, -1.0, 2.0, *([] if softmax else [0.0])]
    case = Case(
        size=draw(pairs(st.sampled_from([1, 2, 3, 4, 5, 7, 11, 13]))),
        batch=draw(st.sampled_from([1, 0, 2, 3])),
        kernel=kernel,
        stride=draw(pairs(st.integers(1, 3))),
        pad=draw(pairs(st.integers(-1, 4))),
        dilation=draw(pairs(st.integers(1, 3))),
        groups=draw(st.sampled_from([1, 2, 3, 5])),
        channels=draw(st.sampled_from([1, 3, 8, 32, 33, 64, 128])),
        spread=draw(st.sampled_from(spreads)),
        drop_center=drop_center,
        extra=draw(st.sampled_from([0, 0, 1, 4])),
        reach=draw(st.sampled_from([0.0, 0.5, 2.0, 9.0])),
    )
    rows, columns = case.output
    work = max(rows * columns, case.size[0] * case.size[1]) * case.batch
    if work * case.groups * case.points * case.channels > MOST_WORK:
        case = Case(**{**vars(case), "size": (3, 2), "batch": 1, "stride": (2, 2), "groups": 1})
    return Call(
        case,
        softmax,
        draw(st.sampled_from([None, None, *DTYPES])),
        draw(st.booleans()),
        draw(st.sampled_from([None, float("nan"), float("inf"), -float("inf"), 1e6])),
        draw(st.integers(0, 2**31)),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(drawn=calls())
def test_result_and_gradients_equal_the_references(dtype, drawn):
    grad, value, offset_mask = drawn.operands(dtype)
    name = "attn_softmax" if drawn.softmax else "attn"
    exact = grad.double(), value.double(), offset_mask.double()
    reference = call(drawn.case, name, "deform_reference")(*exact[1:])
    references = call(drawn.case, f"{name}_backward", "deform_reference")(*exact)
    coarser = max(dtype, offset_mask.dtype, key=lambda kind: torch.finfo(kind).eps)
    for backend, device in BACKENDS:
        tensors = [tensor.to(device) for tensor in (grad, value, offset_mask)]
        result = call(drawn.case, name, backend)(*tensors[1:])
        assert_accurate(result, reference, dtype)
        by_value, by_offset = call(drawn.case, f"{name}_backward", backend)(*tensors)
        assert_accurate(by_value, references[0], dtype, gradient=True)
        assert by_offset.dtype == offset_mask.dtype
        assert_accurate(by_offset.to(coarser), references[1], coarser, gradient=True)
