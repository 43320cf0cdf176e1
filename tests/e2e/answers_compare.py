"""Comparing the segments of two sources; needs numpy and scipy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment


@dataclass
class Found:
    """One segment: network label, score and boolean mask [height, width]."""

    label: int
    score: float
    mask: np.ndarray


def iou(first: np.ndarray, second: np.ndarray) -> float:
    """Intersection over union; two empty masks agree."""
    union = np.logical_or(first, second).sum()
    return 1.0 if union == 0 else float(np.logical_and(first, second).sum() / union)


def assert_same_segments(
    ours: list[Found], theirs: list[Found], *, min_iou: float, score_tolerance: float
) -> None:
    """One to one, none left over: same labels, masks and scores within the bounds."""
    assert len(ours) == len(theirs), f"{len(ours)} segments against {len(theirs)}"
    if not ours:
        return
    gain = np.array(
        [[iou(a.mask, b.mask) if a.label == b.label else -1.0 for b in theirs] for a in ours]
    )
    # Among equal masks (duplicates of one object) the nearest scores belong together.
    nearness = np.array([[-abs(a.score - b.score) for b in theirs] for a in ours])
    rows, columns = linear_sum_assignment(-(gain + 1e-3 * nearness))
    for row, column in zip(rows, columns, strict=True):
        a, b = ours[row], theirs[column]
        assert gain[row, column] >= min_iou, (
            f"label {a.label} score {a.score:.4f}: IoU {gain[row, column]:.4f} "
            f"with label {b.label} score {b.score:.4f}"
        )
        assert abs(a.score - b.score) <= score_tolerance, f"{a.score} against {b.score}"
