"""The calls of single-scale deformable sampling that are timed, and the peer beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """One call: a square kernel of stride 1, padded so that the map keeps its size.

    Offsets have a standard deviation of one pixel: points stay near their place, as a network's do.
    """

    name: str
    batch: int
    height: int
    width: int
    groups: int
    channels: int  # of a group
    dtype: torch.dtype
    kernel: int = 3

    @property
    def points(self) -> int:
        """Of a group."""
        return self.kernel * self.kernel

    @property
    def parameters(self) -> tuple:
        """What follows the tensors in the operators' arguments."""
        pad = self.kernel // 2
        pairs = (self.kernel, self.kernel, 1, 1, pad, pad, 1, 1)
        return (*pairs, self.groups, self.channels, 1.0, False)


_F32, _F16, _BF16 = torch.float32, torch.float16, torch.bfloat16

# Stages of InternImage-T on a picture of 224 x 224, and of a detector's on 800 x 1280.
CPU_CASES = [
    Case("stage1_224", 1, 56, 56, 4, 16, _F32),
    Case("stage3_224", 1, 14, 14, 16, 16, _F32),
    Case("wide_64", 1, 64, 64, 8, 32, _F32),
    Case("wide_64", 1, 64, 64, 8, 32, _BF16),
    Case("wide_64_k5", 1, 64, 64, 8, 32, _F32, kernel=5),
]
CUDA_CASES = [
    *(
        case
        for dtype in (_BF16, _F16, _F32)
        for case in (
            Case("stage1_224", 64, 56, 56, 4, 16, dtype),
            Case("stage3_224", 64, 14, 14, 16, 16, dtype),
            Case("stage1_800x1280", 1, 200, 320, 4, 16, dtype),
            Case("wide_64", 8, 64, 64, 8, 32, dtype),
        )
    ),
    Case("stage3_800x1280", 1, 50, 80, 16, 16, _BF16),
    Case("wide_64_k5", 8, 64, 64, 8, 32, _BF16, kernel=5),
]


def draw(case: Case, device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor]:
    """value ``(B, H, W, G*D)`` and offset_mask ``(B, H, W, G*K*3)``: unit-normal, case's type."""
    generator = torch.Generator().manual_seed(seed)
    size = case.batch, case.height, case.width
    value = torch.randn(*size, case.groups * case.channels, generator=generator)
    offset_mask = torch.randn(*size, case.groups * case.points * 3, generator=generator)
    return value.to(device, case.dtype), offset_mask.to(device, case.dtype)


def places(case: Case, offset_mask: Tensor) -> Tensor:
    """x and y of every point in pixels: ``(B, H, W, G, K, 2)`` of offset_mask's type."""
    device, dtype = offset_mask.device, offset_mask.dtype
    around = torch.arange(case.kernel, device=device, dtype=dtype) - case.kernel // 2
    grid = torch.cartesian_prod(around, around)  # x is the outer one
    x = torch.arange(case.width, device=device, dtype=dtype).view(1, 1, -1, 1, 1)
    y = torch.arange(case.height, device=device, dtype=dtype).view(1, -1, 1, 1, 1)
    triples = offset_mask.unflatten(-1, (case.groups, case.points, 3))
    return torch.stack([x + grid[:, 0] + triples[..., 0], y + grid[:, 1] + triples[..., 1]], dim=-1)


def grid_sample_form(case: Case, value: Tensor, offset_mask: Tensor, softmax: bool) -> Tensor:
    """The same with torch alone: one grid_sample of all points, then one weighted sum."""
    batch, height, width, _ = value.shape
    groups, points, channels = case.groups, case.points, case.channels
    maps = value.unflatten(-1, (groups, channels)).permute(0, 3, 4, 1, 2).flatten(0, 1)
    x, y = places(case, offset_mask).unbind(-1)
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], dim=-1)
    grid = grid.permute(0, 3, 1, 2, 4, 5).reshape(batch * groups, height * width, points, 2)
    sampled = F.grid_sample(maps, grid, align_corners=False)  # (B*G, D, H*W, K)
    weights = offset_mask.unflatten(-1, (groups, points, 3))[..., 2]
    if softmax:
        weights = weights.softmax(-1)
    weights = weights.permute(0, 3, 1, 2, 4).reshape(batch * groups, 1, height * width, points)
    summed = (sampled * weights).sum(-1)  # (B*G, D, H*W)
    summed = summed.view(batch, groups * channels, height, width)
    return summed.permute(0, 2, 3, 1).contiguous()
