"""Generated calls of conv: every backend's result and gradients against the reference's loops.

Offsets are multiples of 1/4, which every backend computes without rounding: many points lie on
pixels' centres and on the border, where conventions show.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from accuracy import DTYPES, assert_accurate
from conv_operands import Case, call, draw
from hypothesis import given
from hypothesis import strategies as st

BACKENDS = [("deform", "cpu"), ("deform_eager", "cpu")]
if torch.cuda.is_available():
    BACKENDS += [("deform", "cuda"), ("deform_jit", "cuda"), ("deform_eager", "cuda")]

# Products of all sizes: the reference visits each in a plain loop.
MOST_WORK = 100_000


@dataclass(frozen=True)
class Call:
    """A case, and how its operands are drawn."""

    case: Case
    offset_dtype: torch.dtype | None  # None: value's
    strided: bool
    lost: float | None  # what stands in for some coordinates
    seed: int

    def operands(self, dtype: torch.dtype) -> list[torch.Tensor | None]:
        """The result's gradient, then the operator's operands."""
        case = self.case
        generator = torch.Generator().manual_seed(self.seed)
        tensors = draw(case, torch.float64, seed=self.seed)
        offset = torch.randn(tensors[1].shape, generator=generator, dtype=torch.float64)
        offset = (4 * case.reach * offset).round().div(4).clamp(-16, 16)
        if self.lost is not None:
            offset[torch.rand(offset.shape, generator=generator) < 0.1] = self.lost
        tensors[1] = offset
        shape = case.batch, *case.output, case.groups * case.outputs
        tensors.insert(0, torch.randn(shape, generator=generator, dtype=torch.float64))
        other = self.offset_dtype or dtype
        types = [dtype, dtype, other, other, dtype, dtype]
        given = [None if t is None else t.to(d) for t, d in zip(tensors, types, strict=True)]
        if not self.strided:
            return given
        return [
            None if t is None else t.transpose(0, -1).contiguous().transpose(0, -1) for t in given
        ]


@st.composite
def calls(draw_) -> Call:
    pairs = lambda numbers: st.tuples(numbers, numbers)  # noqa: E731
    kernel = draw_(pairs(st.integers(1, 4)))
    dilation = draw_(pairs(st.integers(1, 3)))
    size = draw_(pairs(st.sampled_from([1, 2, 3, 4, 5, 7, 11, 13])))
    # At least as much padding as lets the kernel fit, or leaves no output.
    least = [
        max(0, (d * (k - 1) + 1 - s) // 2) for s, k, d in zip(size, kernel, dilation, strict=True)
    ]
    more = draw_(pairs(st.integers(0, 2)))
    groups, offset_groups = draw_(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (2, 4)]))
    channels = draw_(st.sampled_from([1, 3, 8, 32, 33, 64, 128]))
    if groups * channels % offset_groups:
        offset_groups = 1
    case = Case(
        size=size,
        batch=draw_(st.sampled_from([1, 0, 2, 3])),
        kernel=kernel,
        stride=draw_(pairs(st.integers(1, 3))),
        pad=(least[0] + more[0], least[1] + more[1]),
        dilation=dilation,
        groups=groups,
        offset_groups=offset_groups,
        channels=channels,
        outputs=draw_(st.sampled_from([1, 2, 5, 17])),
        mask=draw_(st.booleans()),
        bias=draw_(st.booleans()),
        reach=draw_(st.sampled_from([0.0, 0.5, 2.0, 9.0])),
    )
    rows, columns = case.output
    work = rows * columns * case.batch * case.points * groups * channels * case.outputs
    if work > MOST_WORK:
        small = {"size": (3, 2), "batch": 1, "kernel": (2, 2), "pad": (1, 1), "dilation": (1, 1)}
        case = Case(**{**vars(case), **small, "outputs": 2})
    return Call(
        case,
        draw_(st.sampled_from([None, None, *DTYPES])),
        draw_(st.booleans()),
        draw_(st.sampled_from([None, float("nan"), float("inf"), -float("inf"), 1e6])),
        draw_(st.integers(0, 2**31)),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(drawn=calls())
def test_result_and_gradients_equal_the_references(dtype, drawn):
    operands = drawn.operands(dtype)
    exact = [None if t is None else t.double() for t in operands]
    reference = call(drawn.case, backend="deform_reference")(*exact[1:])
    references = call(drawn.case, "deform_reference", "conv_backward")(*exact)
    for backend, device in BACKENDS:
        tensors = [None if t is None else t.to(device) for t in operands]
        result = call(drawn.case, backend=backend)(*tensors[1:])
        assert_accurate(result, reference, dtype)
        gradients = call(drawn.case, backend, "conv_backward")(*tensors)
        for gradient, wanted, operand in zip(gradients, references, tensors[1:], strict=True):
            if operand is None:
                continue
            assert gradient.dtype == operand.dtype
            coarser = max(dtype, operand.dtype, key=lambda kind: torch.finfo(kind).eps)
            assert_accurate(gradient.to(coarser), wanted, coarser, gradient=True)
