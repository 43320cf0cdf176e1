"""Registers the tensor-operation forms as ``torch.ops.deform`` and ``torch.ops.deform_eager``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deform_ops.eager.attn import attn
from deform_ops.eager.conv import conv
from deform_ops.eager.msda import msda

__all__ = ["register"]

_MSDA = (
    "(Tensor value, Tensor spatial_shapes, Tensor level_start_index, Tensor sampling_locations, "
    "Tensor attention_weights) -> Tensor"
)
_ATTN = (
    "(Tensor value, Tensor offset_mask, int kernel_h, int kernel_w, int stride_h, int stride_w, "
    "int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int group_dims, "
    "float spread, bool drop_center) -> Tensor"
)
_CONV = (
    "(Tensor value, Tensor offset, Tensor? mask, Tensor weight, Tensor? bias, int stride_h, "
    "int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, "
    "int offset_groups) -> Tensor"
)
# A library that is collected takes its operators with it.
_libraries: list[torch.library.Library] = []


def _msda(softmax: bool) -> Callable[..., Tensor]:
    return functools.partial(msda, softmax=softmax)


def _attn(softmax: bool) -> Callable[..., Tensor]:
    form: Callable[..., Tensor] = functools.partial(attn, softmax=softmax)

    def run(value: Tensor, offset_mask: Tensor, *numbers: Any) -> Tensor:
        pairs = [numbers[i : i + 2] for i in range(0, 8, 2)]
        return form(value, offset_mask, *pairs, *numbers[8:])

    return run


def _conv(
    value: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    *numbers: Any,
) -> Tensor:
    pairs: list[Any] = [numbers[i : i + 2] for i in range(0, 6, 2)]
    return conv(value, offset, mask, weight, bias, *pairs, *numbers[6:])


def register() -> None:
    """Defines the operators; the library's own must not be loaded in the same process."""
    for namespace in ("deform", "deform_eager"):
        library = torch.library.Library(namespace, "FRAGMENT")
        for name, schema, function in (
            ("msda", _MSDA, _msda(False)),
            ("msda_softmax", _MSDA, _msda(True)),
            ("attn", _ATTN, _attn(False)),
            ("attn_softmax", _ATTN, _attn(True)),
            ("conv", _CONV, _conv),
        ):
            library.define(name + schema)
            library.impl(name, function, "CompositeImplicitAutograd")
        _libraries.append(library)
