"""Makes golden.npz: operands, results and gradients of deformops 3.0.1, for test_golden.py.

    PYTHONPATH=<folder with deformops> python3 make_golden.py golden.npz

Needs Python 3.12 or newer, a CUDA GPU, torch and the wheel deformops==3.0.1. Attention runs its
Triton kernels on the GPU; its convolution runs the eager backend there, since the Triton kernel
tunes itself for minutes before its first result. The operands are stored beside the results, so
that nothing hangs on a random generator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from deformops.registry import Backend, conv  # registers torch.ops.deformops, too
from torch import Tensor

GENERATOR = torch.Generator().manual_seed(7)


def normal(*size: int) -> Tensor:
    """Unit normal, float32."""
    return torch.randn(*size, generator=GENERATOR)


def msda_operands() -> list[Tensor]:
    """Two levels, two heads of 16 channels, four points, some of them outside."""
    shapes = torch.tensor([[6, 5], [3, 4]])
    locations = torch.rand(2, 7, 2, 2, 4, 2, generator=GENERATOR) * 1.4 - 0.2
    return [normal(2, 42, 2, 16), shapes, torch.tensor([0, 30]), locations, normal(2, 7, 2, 8)]


def attn_operands(points: int) -> list[Tensor]:
    """A map of 6 x 5, two groups of 16 channels, channels to spare in the offsets."""
    return [normal(2, 6, 5, 32), normal(2, 6, 5, 2 * points * 3 + 2)]


def conv_operands(mask: bool) -> list[Tensor | None]:
    """Stride 2, two groups, two offset groups, 3 x 3."""
    modulation = torch.rand(2, 3, 3, 2, 9, generator=GENERATOR) if mask else None
    value, offset = normal(2, 6, 5, 32), normal(2, 3, 3, 2, 9, 2)
    return [value, offset, modulation, normal(32, 16, 3, 3) / 12, normal(32)]


# (kernel, stride, pad, dilation) h and w, groups, group_dims, spread, drop_center
ATTN_GEOMETRY = (3, 3, 1, 1, 1, 1, 1, 1, 2, 16, 1.5, False)
ATTN_WITHOUT_CENTER = (3, 3, 1, 1, 1, 1, 1, 1, 2, 16, 0.7, True)
# stride, pad, dilation h and w, groups, offset_groups
CONV_GEOMETRY = (2, 2, 1, 1, 1, 1, 2, 2)

CASES: dict[str, tuple[str, Callable[[], list], tuple]] = {
    "msda": ("msda", msda_operands, ()),
    "msda_softmax": ("msda_softmax", msda_operands, ()),
    "attn": ("attn", lambda: attn_operands(9), ATTN_GEOMETRY),
    "attn_softmax": ("attn_softmax", lambda: attn_operands(9), ATTN_GEOMETRY),
    "attn_without_center": ("attn", lambda: attn_operands(8), ATTN_WITHOUT_CENTER),
    "attn_softmax_without_center": ("attn_softmax", lambda: attn_operands(8), ATTN_WITHOUT_CENTER),
    "conv_v1": ("conv", lambda: conv_operands(False), CONV_GEOMETRY),
    "conv_v2": ("conv", lambda: conv_operands(True), CONV_GEOMETRY),
}


def run(op: str, operands: list[Tensor | None], geometry: tuple) -> Tensor:
    """One call; operands and geometry in the order of the public operators."""
    if op != "conv":
        return getattr(torch.ops.deformops, op)(*operands, *geometry)
    value, offset, mask, weight, bias = operands
    stride, padding, dilation = geometry[0:2], geometry[2:4], geometry[4:6]
    groups = {"groups": geometry[6], "offset_groups": geometry[7]}
    return conv(
        value,
        offset,
        weight,
        bias,
        mask,
        stride,
        padding,
        dilation,
        **groups,
        backend=Backend.EAGER,
    )


def main() -> int:
    """Writes every case's operands, geometry, result, and gradients for a random cotangent."""
    arrays: dict[str, np.ndarray] = {}
    for name, (op, draw, geometry) in CASES.items():
        operands = draw()
        cuda = [None if o is None else o.cuda() for o in operands]
        for operand in cuda:
            if operand is not None and operand.is_floating_point():
                operand.requires_grad_()
        result = run(op, cuda, geometry)
        cotangent = normal(*result.shape)
        result.backward(cotangent.cuda())
        for index, (operand, on_gpu) in enumerate(zip(operands, cuda, strict=True)):
            if operand is None:
                continue
            arrays[f"{name}/operand{index}"] = operand.numpy()
            if on_gpu.grad is not None:
                arrays[f"{name}/gradient{index}"] = on_gpu.grad.cpu().numpy()
        arrays[f"{name}/geometry"] = np.array(geometry, dtype=np.float64)
        arrays[f"{name}/result"] = result.detach().cpu().numpy()
        arrays[f"{name}/cotangent"] = cotangent.numpy()
        print(name, tuple(result.shape), float(result.detach().abs().max()))
    np.savez_compressed(sys.argv[1], **arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main())
