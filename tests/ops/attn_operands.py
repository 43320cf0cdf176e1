"""Operands of single-scale deformable sampling for tests, and what should come out of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """Sizes of a call. Pairs are height and width; ``extra`` channels follow the points'."""

    size: Pair = (6, 7)
    batch: int = 2
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    pad: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 2
    channels: int = 8
    spread: float = 1.0
    drop_center: bool = False
    extra: int = 0
    reach: float = 1.5  # standard deviation of offsets, in pixels

    def __str__(self) -> str:
        def pair(numbers: Pair) -> str:
            return "x".join(map(str, numbers))

        sizes = f"b{self.batch}-{pair(self.size)}-k{pair(self.kernel)}-s{pair(self.stride)}"
        more = f"-p{pair(self.pad)}-d{pair(self.dilation)}-g{self.groups}x{self.channels}"
        return f"{sizes}{more}-{self.spread:g}{'-drop' * self.drop_center}{'-extra' * self.extra}"

    @property
    def points(self) -> int:
        return self.kernel[0] * self.kernel[1] - self.drop_center

    @property
    def output(self) -> Pair:
        """Output rows and columns."""
        axes = zip(self.size, self.kernel, self.stride, self.pad, self.dilation, strict=True)
        height, width = (
            max(0, (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1)
            for size, kernel, stride, pad, dilation in axes
        )
        return height, width

    @property
    def parameters(self) -> tuple:
        """What follows the tensors in the operators' arguments."""
        pairs = (*self.kernel, *self.stride, *self.pad, *self.dilation)
        return (*pairs, self.groups, self.channels, self.spread, self.drop_center)


CASES = [
    Case(groups=4, channels=16),
    Case((1, 1), 1, (1, 1), pad=(0, 0), groups=1, channels=1),
    Case((9, 5), 3, (3, 3), (2, 1), (1, 0), groups=3, channels=7, spread=0.7, extra=5),
    Case((5, 8), 1, (5, 3), pad=(2, 1), groups=1, channels=33, spread=1.3, drop_center=True),
    Case((4, 9), 2, (2, 4), (1, 2), (0, 3), (2, 1), groups=2, channels=12, drop_center=True),
    Case((7, 7), 1, (7, 7), pad=(3, 3), groups=2, channels=4, spread=1.5, reach=3.0),
    Case((3, 4), 1, (3, 3), pad=(3, 2), groups=5, channels=130, spread=0.5),
    Case((8, 6), 2, (1, 3), pad=(-1, 1), groups=8, channels=2, reach=6.0),
    Case((6, 6), 1, (3, 3), dilation=(2, 3), pad=(2, 3), groups=16, channels=3, extra=1),
]


def draw(
    case: Case,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    *,
    offset_dtype: torch.dtype | None = None,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """value ``(B, H, W, G*D)`` and offset_mask ``(B, Ho, Wo, G*K*3 + extra)``, unit-normal but for
    offsets. ``offset_dtype`` is `dtype` unless given.

    Points stay away from pixels' centres, where the derivative jumps: with the cases' spreads none
    falls there, even when offsets are rounded to 8 bits.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    value = normal(case.batch, *case.size, case.groups * case.channels)
    used = case.groups * case.points * 3
    offset_mask = normal(case.batch, *case.output, used + case.extra)
    triples = offset_mask[..., :used].unflatten(-1, (-1, 3))
    fraction = torch.rand(*triples[..., :2].shape, generator=generator, dtype=torch.float64)
    triples[..., :2] = (triples[..., :2] * case.reach).floor() + 0.1 + 0.8 * fraction
    return value.to(device, dtype), offset_mask.to(device, offset_dtype or dtype)


def call(case: Case, name: str = "attn", backend: str = "deform", **options):
    """The operator as a function of its tensors."""
    operator = getattr(getattr(torch.ops, backend), name)
    return lambda *tensors: operator(*tensors, *case.parameters, **options)


def grid_sample_form(case: Case, value: Tensor, offset_mask: Tensor, *, softmax: bool) -> Tensor:
    """The result by torch's grid_sample, differentiable, of tensors of one type and device.

    Offsets have to be finite.
    """
    (kernel_h, kernel_w), (height, width) = case.kernel, case.size
    out_height, out_width = case.output
    groups, points = case.groups, case.points
    triples = offset_mask[..., : groups * points * 3].unflatten(-1, (groups, points, 3))
    weights = triples[..., 2].softmax(-1) if softmax else triples[..., 2]
    maps = value.unflatten(-1, (groups, -1)).permute(0, 3, 4, 1, 2).flatten(0, 1)
    rows = torch.arange(out_height, device=value.device).view(1, -1, 1, 1) * case.stride[0]
    columns = torch.arange(out_width, device=value.device).view(1, 1, -1, 1) * case.stride[1]
    centre_y, centre_x = (d * (k - 1) // 2 for d, k in zip(case.dilation, case.kernel, strict=True))

    result, k = 0, 0
    for i in range(kernel_w):
        for j in range(kernel_h):
            if case.drop_center and (i, j) == (kernel_w // 2, kernel_h // 2):
                continue
            dx, dy, weight = triples[..., k, 0], triples[..., k, 1], weights[..., k]
            k += 1
            # The grid around its centre, and the offsets on it, grow by `spread`.
            x = columns - case.pad[1] + centre_x
            x = x + case.spread * (i * case.dilation[1] - centre_x + dx)
            y = rows - case.pad[0] + centre_y
            y = y + case.spread * (j * case.dilation[0] - centre_y + dy)
            grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
            grid = grid.permute(0, 3, 1, 2, 4).flatten(0, 1)  # (B*G, Ho, Wo, 2)
            sampled = F.grid_sample(maps, grid, align_corners=False)
            sampled = sampled.unflatten(0, (-1, groups)).permute(0, 3, 4, 1, 2)
            result = result + weight.unsqueeze(-1) * sampled
    return result.flatten(3)


def exact(case: Case, value: Tensor, offset_mask: Tensor, *, softmax: bool) -> Tensor:
    """:func:`grid_sample_form` in float64 on the CPU."""
    tensors = (tensor.detach().cpu().double() for tensor in (value, offset_mask))
    return grid_sample_form(case, *tensors, softmax=softmax)


def exact_gradients(
    case: Case, grad: Tensor, value: Tensor, offset_mask: Tensor, *, softmax: bool
) -> list[Tensor]:
    """Of value and offset_mask, by autograd through :func:`grid_sample_form` in float64."""
    leaves = [tensor.detach().cpu().double().requires_grad_() for tensor in (value, offset_mask)]
    result = grid_sample_form(case, *leaves, softmax=softmax)
    return list(torch.autograd.grad(result, leaves, grad.detach().cpu().double()))
