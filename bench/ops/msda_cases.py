"""The calls of multi-scale deformable attention that are timed, and the peer beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Levels = tuple[tuple[int, int], ...]

SQUARES: Levels = ((64, 64), (32, 32), (16, 16), (8, 8))  # 5,440 rows
LARGE_SQUARES: Levels = ((128, 128), (64, 64), (32, 32), (16, 16))  # 21,760 rows
MASK2FORMER_384: Levels = ((48, 48), (24, 24), (12, 12))  # strides 8, 16, 32
MASK2FORMER_1024: Levels = ((128, 128), (64, 64), (32, 32))
DETR_800: Levels = ((100, 167), (50, 84), (25, 42), (13, 21))  # 800 x 1333


@dataclass(frozen=True)
class Case:
    """One call: 8 heads of 32 channels, 4 points on each level.

    ``queries`` None is an encoder: a query for each row, looking around its own place with offsets
    of two pixels' standard deviation. Otherwise queries look anywhere.
    """

    name: str
    levels: Levels
    batch: int
    queries: int | None
    dtype: torch.dtype
    heads: int = 8
    channels: int = 32
    points: int = 4


_F32, _F16, _BF16 = torch.float32, torch.float16, torch.bfloat16

CPU_CASES = [
    Case("encoder_5440", SQUARES, 1, None, _F32),
    Case("anywhere_5440", SQUARES, 1, 5440, _F32),
    Case("encoder_5440", SQUARES, 1, None, _BF16),
    Case("encoder_21760", LARGE_SQUARES, 1, None, _F32),
    Case("m2f_encoder_384", MASK2FORMER_384, 1, None, _F32),
    Case("ddetr_decoder", DETR_800, 1, 300, _F32),
]
CUDA_CASES = [
    *(
        case
        for dtype in (_BF16, _F16, _F32)
        for case in (
            Case("m2f_encoder", MASK2FORMER_1024, 1, None, dtype),
            Case("m2f_encoder", MASK2FORMER_1024, 4, None, dtype),
            Case("ddetr_encoder", DETR_800, 1, None, dtype),
        )
    ),
    Case("m2f_anywhere", MASK2FORMER_1024, 1, 21504, _BF16),
    Case("m2f_encoder_384", MASK2FORMER_384, 8, None, _BF16),
    Case("ddetr_decoder", DETR_800, 1, 300, _BF16),
    Case("ddetr_decoder", DETR_800, 8, 300, _BF16),
]


@dataclass
class Operands:
    """value, level table, float32 locations, logits and their softmax in value's type."""

    value: Tensor
    spatial_shapes: Tensor
    level_start_index: Tensor
    locations: Tensor
    logits: Tensor
    weights: Tensor


def draw(case: Case, device: torch.device, seed: int = 0) -> Operands:
    """Unit-normal values and logits, the same for a seed on every run."""
    generator = torch.Generator().manual_seed(seed)
    shapes = torch.tensor(case.levels)
    sizes = shapes.prod(1)
    rows = int(sizes.sum())
    queries = case.queries or rows
    grid = (case.batch, queries, case.heads, len(shapes), case.points, 2)
    if case.queries is None:
        centres = []
        for height, width in case.levels:
            y = (torch.arange(height) + 0.5) / height
            x = (torch.arange(width) + 0.5) / width
            centres.append(torch.cartesian_prod(y, x).flip(-1))
        pixel = 1 / shapes.flip(-1)[:, None, :]
        offsets = 2 * torch.randn(grid, generator=generator) * pixel
        locations = torch.cat(centres)[None, :, None, None, None, :] + offsets
    else:
        locations = torch.rand(grid, generator=generator)
    value = torch.randn(case.batch, rows, case.heads, case.channels, generator=generator)
    logits = torch.randn(*grid[:3], len(shapes) * case.points, generator=generator)
    return Operands(
        value.to(device, case.dtype),
        shapes.to(device),
        (sizes.cumsum(0) - sizes).to(device),
        locations.to(device),
        logits.to(device, case.dtype),
        logits.softmax(-1).to(device, case.dtype),
    )


def grid_sample_form(levels: Levels, operands: Operands, weights: Tensor) -> Tensor:
    """What Hugging Face's models run: grid_sample on each level, then one weighted sum."""
    value, locations = operands.value, operands.locations.to(operands.value.dtype)
    batch, _, heads, channels = value.shape
    _, queries, _, level_count, points, _ = locations.shape
    grids = 2 * locations - 1
    samples = []
    rows_by_level = value.split([height * width for height, width in levels], dim=1)
    for index, ((height, width), rows) in enumerate(zip(levels, rows_by_level, strict=True)):
        maps = rows.flatten(2).transpose(1, 2).reshape(batch * heads, channels, height, width)
        grid = grids[:, :, :, index].transpose(1, 2).flatten(0, 1)
        samples.append(F.grid_sample(maps, grid, align_corners=False))
    share = weights.transpose(1, 2).reshape(batch * heads, 1, queries, level_count * points)
    summed = (torch.stack(samples, dim=-2).flatten(-2) * share).sum(-1)
    return summed.view(batch, heads * channels, queries).transpose(1, 2).contiguous()
