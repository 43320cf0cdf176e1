"""Every operand of every operator, forward and backward, wrong in every simple way: named, not run.

A crash would end the test run, and show as one.
"""

from __future__ import annotations

from collections.abc import Callable

import attn_operands
import conv_operands
import msda_operands
import pytest
import torch
from torch import Tensor

BACKENDS = ["deform", "deform_cpu", "deform_eager", "deform_reference"]


def _msda() -> tuple[dict[str, Tensor], dict[str, object]]:
    case = msda_operands.Case(((3, 4), (2, 2)), batch=2, queries=3, heads=2, channels=4)
    operands = msda_operands.draw(case)
    names = "value", "spatial_shapes", "level_start_index", "sampling_locations"
    named = dict(zip((*names, "attention_weights"), list(operands)[:5], strict=True))
    return {"grad_output": msda_operands.direction(operands), **named}, {}


def _attn() -> tuple[dict[str, Tensor], dict[str, object]]:
    case = attn_operands.Case((5, 4), 2, groups=2, channels=4)
    value, offset_mask = attn_operands.draw(case)
    pairs = [f"{name}_{axis}" for name in ("kernel", "stride", "pad", "dilation") for axis in "hw"]
    names = (*pairs, "groups", "group_dims", "spread", "drop_center")
    grad = torch.zeros(2, *case.output, 8)
    tensors = {"grad_output": grad, "value": value, "offset_mask": offset_mask}
    return tensors, dict(zip(names, case.parameters, strict=True))


def _conv() -> tuple[dict[str, Tensor], dict[str, object]]:
    case = conv_operands.Case((5, 4), 2, groups=2, offset_groups=2, channels=4, outputs=6)
    operands = conv_operands.draw(case)
    named = dict(zip(("value", "offset", "mask", "weight", "bias"), operands, strict=True))
    pairs = [f"{name}_{axis}" for name in ("stride", "pad", "dilation") for axis in "hw"]
    numbers = dict(zip((*pairs, "groups", "offset_groups"), case.parameters, strict=True))
    return {"grad_output": conv_operands.direction(case, operands[0]), **named}, numbers


OPERATORS = {
    "msda": _msda,
    "msda_softmax": _msda,
    "attn": _attn,
    "attn_softmax": _attn,
    "conv": _conv,
}
WRONG: dict[str, Callable[[Tensor], object]] = {
    "a_dimension_more": lambda t: t.unsqueeze(0),
    "a_dimension_less": lambda t: t[0],
    "no_dimension": lambda t: t.flatten()[0],
    "bool": lambda t: t.bool(),
    "complex": lambda t: t.to(torch.complex64),
    "last_size": lambda t: torch.cat([t, t[..., :1]], -1),
    "on_meta": lambda t: t.to("meta"),
    "sparse": lambda t: t.to_sparse(),
    "none": lambda t: None,
}
OPTIONAL = ("mask", "bias")  # may be None


def operator(backend: str, name: str):
    return getattr(getattr(torch.ops, backend), name)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_operand_is_named(backend, name, backward, wrong):
    tensors, numbers = OPERATORS[name]()
    if not backward:
        del tensors["grad_output"]
    run = operator(backend, f"{name}_backward" if backward else name)
    run(**tensors, **numbers)
    for operand, tensor in tensors.items():
        if (wrong == "none" and operand in OPTIONAL) or (operand, wrong) in LEGAL:
            continue
        if name.startswith("msda") and not backward and (operand, wrong) == ("value", "last_size"):
            continue  # channels of a head, as many as there are
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as refusal:
            run(**{**tensors, operand: WRONG[wrong](tensor)}, **numbers)
        said = str(refusal.value)
        # Of a layout that no kernel is registered for, PyTorch itself says so.
        words = ["Sparse"] if wrong == "sparse" else []
        assert any(word in said for word in (operand, *words, *BLAMED.get((operand, wrong), ())))


# Where the operand is right by itself, another of the two may be the one that is named.
BLAMED = {
    ("weight", "last_size"): ("offset", "mask", "grad_output"),
    ("value", "last_size"): ("group_dims", "weight", "offset", "grad_output", "groups"),
    ("value", "on_meta"): ("locations", "offset", "weight", "spatial_shapes", "grad_output"),
}
# Elements past the points' don't count.
LEGAL = {("offset_mask", "last_size")}
