"""Mask2Former's set loss, computed for all decoder layers at once.

Dimensions: L predictions (one before the first decoder layer and one after each), B pictures,
Q queries, N segment places a picture, C classes, h×w the mask logits' size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional

CLASS_WEIGHT, MASK_WEIGHT, DICE_WEIGHT = 2.0, 5.0, 5.0
NO_OBJECT_WEIGHT = 0.1
BOUNDARY_WEIGHT = 6.0
"""How much more a pixel near a boundary between segments counts in the mask loss."""


@dataclass(frozen=True)
class Targets:
    """The truth of a batch.

    ``labels`` ``[B, N]`` int64, −1 where a picture has fewer segments; ``fine`` and ``coarse``
    ``[B, N, ·, ·]`` float32: each segment's share of every cell at twice the mask logits' size
    and at their size; ``weights`` ``[B, 2h, 2w]``: the mask loss's weight of each fine cell.
    """

    labels: Tensor
    fine: Tensor
    coarse: Tensor
    weights: Tensor


def make_targets(segment_map: Tensor, labels: Tensor, mask_size: tuple[int, int]) -> Targets:
    """Builds the targets from ``segment_map`` ``[B, H, W]`` uint8 (positions in ``labels``).

    H and W must be multiples of twice the ``mask_size`` (h, w).
    """
    positions = torch.arange(labels.shape[1], device=labels.device, dtype=segment_map.dtype)
    members = (segment_map[:, None] == positions[None, :, None, None]).float()
    stride = segment_map.shape[-2] // (2 * mask_size[0])
    fine = functional.avg_pool2d(members, stride) if stride > 1 else members
    mixed = (fine.amax(dim=1, keepdim=True) < 1).float()
    band = functional.max_pool2d(mixed, 3, stride=1, padding=1)[:, 0]
    return Targets(labels, fine, functional.avg_pool2d(fine, 2), 1 + BOUNDARY_WEIGHT * band)


@torch.no_grad()
def matching_costs(class_logits: Tensor, mask_logits: Tensor, targets: Targets) -> Tensor:
    """The cost ``[L, B, Q, N]`` float32 of giving each query each segment.

    ``class_logits`` is ``[L, B, Q, C + 1]``, ``mask_logits`` ``[L, B, Q, h, w]``.
    """
    layers, batch, queries = mask_logits.shape[:3]
    logits = mask_logits.float().transpose(0, 1).reshape(batch, layers * queries, -1)
    truth = targets.coarse.flatten(2).transpose(1, 2)
    probabilities = logits.sigmoid()
    # softplus(−x)·t + softplus(x)·(1 − t) = softplus(x) − x·t, summed as one product.
    entropy = functional.softplus(logits).sum(-1, keepdim=True) - logits @ truth
    overlap = 2 * (probabilities @ truth) + 1
    dice = 1 - overlap / (probabilities.sum(-1, keepdim=True) + truth.sum(1, keepdim=True) + 1)
    pair = MASK_WEIGHT * entropy / logits.shape[-1] + DICE_WEIGHT * dice
    pair = pair.view(batch, layers, queries, -1).transpose(0, 1)
    index = targets.labels.clamp(min=0)[None, :, None].expand(layers, batch, queries, -1)
    return pair - CLASS_WEIGHT * class_logits.float().softmax(-1).gather(-1, index)


def match(costs: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Cheapest assignment for each layer and picture.

    ``costs`` ``[L, B, Q, N]``, ``counts`` ``[B]`` how many of the N places are filled. Returns
    rows (layer, picture, query, place) as ``[4, M]`` int64.
    """
    layers, batch = costs.shape[:2]
    columns: list[np.ndarray] = []
    for layer in range(layers):
        for picture in range(batch):
            pair = linear_sum_assignment(costs[layer, picture, :, : counts[picture]])
            row = np.empty((4, len(pair[0])), np.int64)
            row[0], row[1], row[2], row[3] = layer, picture, pair[0], pair[1]
            columns.append(row)
    return np.concatenate(columns, axis=1)


def match_on_host(costs: Tensor, labels: Tensor) -> Tensor:
    """:func:`match` for tensors on any device, with one copy to the host and one back."""
    counts = (labels >= 0).sum(1)
    packed = torch.cat([costs.nan_to_num(1e4, 1e4, -1e4).flatten(), counts.float()]).cpu()
    host = packed.double().numpy()
    batch = labels.shape[0]
    matched = match(host[:-batch].reshape(costs.shape), host[-batch:].astype(np.int64))
    return torch.from_numpy(matched).to(costs.device, non_blocking=True)


def set_loss(
    class_logits: Tensor, mask_logits: Tensor, targets: Targets
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss summed over layers, and its parts (class, mask, dice), unweighted, averaged over
    layers and detached.

    Shapes as in :func:`matching_costs`.
    """
    layers, batch, queries, height, width = mask_logits.shape
    costs = matching_costs(class_logits, mask_logits, targets)
    layer, picture, query, place = match_on_host(costs, targets.labels)

    classes = class_logits.shape[-1] - 1
    wanted = torch.full((layers, batch, queries), classes, device=class_logits.device)
    wanted[layer, picture, query] = targets.labels[picture, place]
    class_weights = torch.ones(classes + 1, device=class_logits.device)
    class_weights[-1] = NO_OBJECT_WEIGHT
    class_loss = functional.cross_entropy(
        class_logits.float().flatten(0, 2), wanted.flatten(), class_weights
    )

    rows = (layer * batch + picture) * queries + query
    chosen = mask_logits.reshape(-1, 1, height, width).index_select(0, rows).float()
    logits = functional.interpolate(
        chosen, size=targets.fine.shape[-2:], mode="bilinear", align_corners=False
    ).flatten(1)
    truth = targets.fine.flatten(0, 1).flatten(1)
    truth = truth.index_select(0, picture * targets.fine.shape[1] + place)
    weights = targets.weights.flatten(1)
    weights = (weights / weights.sum(1, keepdim=True)).index_select(0, picture)
    entropy = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    mask_loss = (entropy * weights).sum(1).mean()
    probabilities = logits.sigmoid()
    overlap = 2 * (probabilities * truth).sum(1) + 1
    dice_loss = (1 - overlap / (probabilities.sum(1) + truth.sum(1) + 1)).mean()

    mean = CLASS_WEIGHT * class_loss + MASK_WEIGHT * mask_loss + DICE_WEIGHT * dice_loss
    parts = {"class": class_loss, "mask": mask_loss, "dice": dice_loss}
    return layers * mean, {name: value.detach() for name, value in parts.items()}
