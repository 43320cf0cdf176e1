"""Seeded pictures that look enough like photographs to compare two forms of a network on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def network_inputs(
    preprocess: dict[str, Any], count: int, seed: int
) -> tuple[Tensor] | tuple[Tensor, Tensor]:
    """`count` preprocessed pictures, as the server would hand them to the network.

    `pixel_values [count, 3, H, W]` float32 and, where the network takes it, `pixel_mask
    [count, H, W]` int64. In mode "fit" every picture but the first has an aspect of its own and
    is padded with zeros at the bottom or on the right. A picture depends on `seed` and its place
    in the list alone.
    """
    height, width = preprocess["height"], preprocess["width"]
    mean = torch.tensor(preprocess["mean"]).view(3, 1, 1)
    std = torch.tensor(preprocess["std"]).view(3, 1, 1)
    pixels = torch.zeros(count, 3, height, width)
    mask = torch.zeros(count, height, width, dtype=torch.int64)
    for index in range(count):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        rows, columns = height, width
        if preprocess["mode"] == "fit" and index > 0:
            share = 0.4 + 0.6 * float(torch.rand((), generator=generator))
            if index % 2:
                rows = max(1, round(height * share))
            else:
                columns = max(1, round(width * share))
        picture = _picture(rows, columns, generator) * preprocess["rescale_factor"]
        pixels[index, :, :rows, :columns] = (picture - mean) / std
        mask[index, :rows, :columns] = 1
    return (pixels, mask) if preprocess["pixel_mask"] else (pixels,)


def _picture(height: int, width: int, generator: torch.Generator) -> Tensor:
    """`[3, height, width]`, whole numbers from 0 to 255: soft ground, hard-edged things, noise."""
    ground = torch.zeros(3, height, width)
    for cells in (3, 9, 27):
        coarse = torch.rand(1, 3, cells, cells, generator=generator)
        ground += functional.interpolate(coarse, (height, width), mode="bicubic")[0] / cells**0.5
    ground = (ground - ground.amin()) / (ground.amax() - ground.amin()) * 255
    y = torch.linspace(0, 1, height).view(-1, 1)
    x = torch.linspace(0, 1, width).view(1, -1)
    for _ in range(8):
        cy, cx, ry, rx, power = torch.rand(5, generator=generator).tolist()
        power = 2 if power < 0.5 else 8  # an ellipse, or nearly a rectangle
        ry, rx = 0.04 + 0.2 * ry, 0.04 + 0.2 * rx
        inside = ((y - cy) / ry).abs() ** power + ((x - cx) / rx).abs() ** power < 1
        color = torch.rand(3, 1, 1, generator=generator) * 255
        ground = torch.where(inside, color + 0.15 * (ground - 128), ground)
    noise = torch.randn(3, height, width, generator=generator) * 4
    return (ground + noise).round().clamp(0, 255)
