"""Changes of light and orientation applied to whole batches on the training device."""

from __future__ import annotations

import torch
from torch import Tensor

from deform_models.shapes.model import MEAN, STD


def _coins(batch: int, generator: torch.Generator, device: torch.device) -> Tensor:
    return torch.rand(batch, generator=generator, device=device) < 0.5


def _orient(pixels: Tensor, flip_x: Tensor, flip_y: Tensor, swap: Tensor) -> Tensor:
    """Mirrors and transposes ``[B, …, S, S]`` picture by picture, as the masks ``[B]`` say."""
    lead = (-1, *[1] * (pixels.dim() - 1))
    pixels = torch.where(flip_x.view(lead), pixels.flip(-1), pixels)
    pixels = torch.where(flip_y.view(lead), pixels.flip(-2), pixels)
    return torch.where(swap.view(lead), pixels.transpose(-1, -2), pixels)


def normalize(images: Tensor) -> Tensor:
    """Pictures 0 … 255 of any type, ``[B, 3, H, W]``, as the network wants them, float32."""
    mean = torch.tensor(MEAN, device=images.device).view(1, 3, 1, 1)
    std = torch.tensor(STD, device=images.device).view(1, 3, 1, 1)
    return (images.float() / 255 - mean) / std


def augment(images: Tensor, maps: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One of eight orientations, then light: gain, offset, contrast and a tint for each picture.

    Takes square uint8 ``images`` ``[B, 3, S, S]`` and ``maps`` ``[B, S, S]``; returns normalised
    float32 images (channels last) and the maps.
    """
    batch, device = images.shape[0], images.device
    coins = [_coins(batch, generator, device) for _ in range(3)]
    images, maps = _orient(images, *coins), _orient(maps, *coins)
    draws = torch.rand(batch, 8, 1, 1, generator=generator, device=device) * 2 - 1
    pixels = images.float()
    mean = pixels.mean(dim=(1, 2, 3), keepdim=True)
    contrast, gain = 1 + 0.25 * draws[:, :1], 1 + 0.2 * draws[:, 1:2]
    pixels = ((pixels - mean) * contrast + mean) * gain * (1 + 0.12 * draws[:, 2:5])
    pixels = (pixels + 20 * draws[:, 5:6]).clamp(0, 255)
    return normalize(pixels).contiguous(memory_format=torch.channels_last), maps
