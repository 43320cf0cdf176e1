"""One call of each registry operator, for tests of what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from deform_ops.registry import attn, conv, msda
from msda_operands import Case
from msda_operands import draw as draw_msda


@dataclass(frozen=True)
class RegistryCall:
    """An operator, and how to draw float32 operands and options for it."""

    operator: Any
    draw: Callable[[torch.device], tuple[list[torch.Tensor], dict[str, Any]]]

    def __str__(self) -> str:
        return self.operator.name


def _normal(device: torch.device, *size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(size))
    return torch.randn(*size, generator=generator).to(device)


def _msda(device: torch.device) -> tuple[list[torch.Tensor], dict[str, Any]]:
    case = Case(((5, 4), (3, 2)), batch=2, queries=4, heads=2, channels=3, points=2)
    return list(draw_msda(case, device=device)), {}


def _attn(device: torch.device) -> tuple[list[torch.Tensor], dict[str, Any]]:
    operands = [_normal(device, 2, 5, 6, 8), _normal(device, 2, 5, 6, 2 * 9 * 3)]
    return operands, {"groups": 2, "group_dims": 4, "padding": (1, 1)}


def _conv(device: torch.device) -> tuple[list[torch.Tensor], dict[str, Any]]:
    value, offset = _normal(device, 2, 5, 6, 4), _normal(device, 2, 5, 6, 2, 9, 2)
    weight, bias = _normal(device, 6, 4, 3, 3), _normal(device, 6)
    return [value, offset, weight], {"bias": bias, "padding": 1, "offset_groups": 2}


CALLS = [RegistryCall(msda, _msda), RegistryCall(attn, _attn), RegistryCall(conv, _conv)]
