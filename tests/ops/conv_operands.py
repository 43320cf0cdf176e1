"""Operands of deformable convolution for tests, and what should come out of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Pair = tuple[int, int]
Operands = list[Tensor | None]  # value, offset, mask, weight, bias


@dataclass(frozen=True)
class Case:
    """Sizes of a call. Pairs are height and width; ``channels`` and ``outputs`` are a group's."""

    size: Pair = (6, 7)
    batch: int = 2
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    pad: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1
    channels: int = 8
    outputs: int = 5
    offset_groups: int = 1
    mask: bool = True
    bias: bool = True
    reach: float = 1.5  # standard deviation of offsets, in pixels

    def __str__(self) -> str:
        def pair(numbers: Pair) -> str:
            return "x".join(map(str, numbers))

        sizes = f"b{self.batch}-{pair(self.size)}-k{pair(self.kernel)}-s{pair(self.stride)}"
        steps = f"-p{pair(self.pad)}-d{pair(self.dilation)}"
        groups = f"-g{self.groups}x{self.channels}x{self.outputs}-og{self.offset_groups}"
        return f"{sizes}{steps}{groups}-v{1 + self.mask}{'-bias' * self.bias}"

    @property
    def points(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def output(self) -> Pair:
        """Output rows and columns."""
        axes = zip(self.size, self.kernel, self.stride, self.pad, self.dilation, strict=True)
        height, width = (
            (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, pad, dilation in axes
        )
        return height, width

    @property
    def parameters(self) -> tuple[int, ...]:
        """What follows the tensors in the operators' arguments."""
        return (*self.stride, *self.pad, *self.dilation, self.groups, self.offset_groups)


CASES = [
    Case(channels=16, outputs=12),
    Case((1, 1), 1, (1, 1), pad=(0, 0), channels=1, outputs=1, mask=False, bias=False),
    Case((9, 5), 3, (3, 3), (2, 1), (1, 0), groups=3, channels=7, outputs=2, offset_groups=7),
    Case((5, 8), 1, (5, 3), pad=(2, 1), channels=33, outputs=65, mask=False),
    Case((4, 9), 2, (2, 4), (1, 2), (0, 3), (2, 1), groups=2, channels=12, offset_groups=4),
    Case((7, 7), 1, (7, 7), pad=(3, 3), channels=4, outputs=3, bias=False, reach=3.0),
    Case((3, 4), 1, (3, 3), pad=(3, 2), groups=2, channels=65, outputs=70, offset_groups=2),
    Case((8, 6), 2, (1, 3), pad=(0, 1), groups=8, channels=1, outputs=1, offset_groups=4),
    Case((6, 6), 1, pad=(2, 3), dilation=(2, 3), groups=2, channels=9, offset_groups=6, reach=6.0),
    Case((4, 4), 1, groups=4, channels=6, outputs=3, offset_groups=3, mask=False, bias=False),
    Case((9, 9), 2, channels=24, outputs=40, offset_groups=8),
]


def draw(
    case: Case,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    *,
    offset_dtype: torch.dtype | None = None,
    mask_dtype: torch.dtype | None = None,
    seed: int = 0,
) -> Operands:
    """value ``(B, H, W, Cin)``, offset ``(B, Ho, Wo, og, K, 2)``, mask ``(B, Ho, Wo, og, K)`` or
    None, weight ``(Cout, Cin/g, kH, kW)``, bias ``(Cout,)`` or None; unit-normal but for offsets.

    Points stay away from pixels' centres, where the derivative jumps, even when offsets are
    rounded to 8 bits.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    places = (case.batch, *case.output, case.offset_groups, case.points)
    value = normal(case.batch, *case.size, case.groups * case.channels)
    fraction = torch.rand(*places, 2, generator=generator, dtype=torch.float64)
    offset = (normal(*places, 2) * case.reach).floor() + 0.1 + 0.8 * fraction
    mask = normal(*places)
    weight = normal(case.groups * case.outputs, case.channels, *case.kernel)
    bias = normal(case.groups * case.outputs)
    return [
        value.to(device, dtype),
        offset.to(device, offset_dtype or dtype),
        mask.to(device, mask_dtype or dtype) if case.mask else None,
        weight.to(device, dtype),
        bias.to(device, dtype) if case.bias else None,
    ]


def direction(case: Case, like: Tensor, seed: int = 7) -> Tensor:
    """A gradient of the result, of ``like``'s type and device."""
    shape = case.batch, *case.output, case.groups * case.outputs
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(like)


def call(case: Case, backend: str = "deform", name: str = "conv", **options):
    """The operator as a function of its tensors."""
    operator = getattr(getattr(torch.ops, backend), name)
    return lambda *tensors: operator(*tensors, *case.parameters, **options)


def gradients(case: Case, backend: str, grad: Tensor, operands: Operands) -> list[Tensor]:
    """Of the operands that there are, by the backend's backward operator."""
    results = call(case, backend, "conv_backward")(grad, *operands)
    for result, operand in zip(results, operands, strict=True):
        assert operand is not None or result.shape == (0,)
    return [r for r, operand in zip(results, operands, strict=True) if operand is not None]


def given(operands: Operands) -> list[Tensor]:
    """The operands that there are."""
    return [operand for operand in operands if operand is not None]


def converted(operands: Operands, *to, **how) -> Operands:
    """Each operand that there is, as ``tensor.to(...)`` gives it."""
    return [None if operand is None else operand.detach().to(*to, **how) for operand in operands]


def leaves(operands: Operands) -> Operands:
    """Copies that want gradients."""
    return [None if t is None else t.detach().clone().requires_grad_() for t in operands]


def to_torchvision(value: Tensor, offset: Tensor, mask: Tensor | None):
    """Maps as torchvision's deform_conv2d takes them: (B, C, H, W)."""
    if mask is not None:
        mask = mask.flatten(3).permute(0, 3, 1, 2)
    return value.permute(0, 3, 1, 2), offset.flatten(3).permute(0, 3, 1, 2), mask


def grid_sample_form(
    case: Case,
    value: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """The result by torch's grid_sample, differentiable, of tensors of one type and device.

    Offsets have to be finite.
    """
    (height, width), (kernel_h, kernel_w) = case.size, case.kernel
    (out_height, out_width), groups = case.output, case.offset_groups
    rows = torch.arange(out_height, device=value.device) * case.stride[0] - case.pad[0]
    columns = torch.arange(out_width, device=value.device) * case.stride[1] - case.pad[1]
    lines = torch.arange(kernel_h, device=value.device).repeat_interleave(kernel_w)
    places = torch.arange(kernel_w, device=value.device).repeat(kernel_h)
    y = rows.view(-1, 1, 1, 1) + lines * case.dilation[0] + offset[..., 0]
    x = columns.view(-1, 1, 1) + places * case.dilation[1] + offset[..., 1]
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    grid = grid.permute(0, 3, 1, 2, 4, 5).reshape(-1, out_height, out_width * case.points, 2)
    maps = value.unflatten(-1, (groups, -1)).permute(0, 3, 4, 1, 2).flatten(0, 1)
    sampled = F.grid_sample(maps, grid, align_corners=False)
    sampled = sampled.view(case.batch, groups, -1, out_height, out_width, case.points)
    if mask is not None:
        sampled = sampled * mask.permute(0, 3, 1, 2, 4).unsqueeze(2)
    sampled = sampled.flatten(1, 2).unflatten(1, (case.groups, case.channels))
    matrices = weight.unflatten(0, (case.groups, case.outputs)).flatten(3)
    result = torch.einsum("bgcyxk,gock->byxgo", sampled, matrices).flatten(3)
    return result if bias is None else result + bias


def exact(case: Case, *operands: Tensor | None) -> Tensor:
    """:func:`grid_sample_form` in float64 on the CPU."""
    return grid_sample_form(case, *converted(list(operands), "cpu", torch.float64))


def exact_gradients(case: Case, grad: Tensor, operands: Operands) -> list[Tensor]:
    """Of the operands that there are, by autograd through :func:`grid_sample_form` in float64."""
    inputs = leaves(converted(operands, "cpu", torch.float64))
    result = grid_sample_form(case, *inputs)
    return list(torch.autograd.grad(result, given(inputs), grad.detach().cpu().double()))
