"""Panoptic quality of predictions, computed in memory with numpy.

The definition is that of the COCO panoptic task; ``evaluate`` scores the same predictions with an
independent evaluator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from deform_models.shapes.coco import CATEGORIES

Segments = Iterable[tuple[int, int]]
"""(segment id, category id) pairs."""


@dataclass
class PanopticQuality:
    """Counts matches (same category, IoU > 0.5) picture by picture; id 0 is void."""

    _iou: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    _matched: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _missed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _invented: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(
        self,
        truth: np.ndarray,
        truth_segments: Segments,
        predicted: np.ndarray,
        predicted_segments: Segments,
    ) -> None:
        """Adds one picture: id maps ``[H, W]`` below 2**24 and the segments in them."""
        truth_of, predicted_of = dict(truth_segments), dict(predicted_segments)
        codes = truth.astype(np.uint64) << np.uint64(32) | predicted.astype(np.uint64)
        pairs, counts = np.unique(codes, return_counts=True)
        area = {
            (int(p >> np.uint64(32)), int(p & np.uint64(0xFFFFFFFF))): int(n)
            for p, n in zip(pairs, counts, strict=True)
        }
        truth_area: dict[int, int] = defaultdict(int)
        predicted_area: dict[int, int] = defaultdict(int)
        for (t, p), n in area.items():
            truth_area[t] += n
            predicted_area[p] += n
        open_truth, open_predicted = dict(truth_of), dict(predicted_of)
        for (t, p), n in area.items():
            if t not in truth_of or p not in predicted_of or truth_of[t] != predicted_of[p]:
                continue
            union = truth_area[t] + predicted_area[p] - n - area.get((0, p), 0)
            if n / union > 0.5:
                self._iou[truth_of[t]] += n / union
                self._matched[truth_of[t]] += 1
                del open_truth[t], open_predicted[p]
        for category in open_truth.values():
            self._missed[category] += 1
        for p, category in open_predicted.items():
            if area.get((0, p), 0) <= 0.5 * predicted_area[p]:
                self._invented[category] += 1

    def results(self) -> dict[str, dict[str, float]]:
        """pq, sq, rq and n (categories averaged) for "All", "Things" and "Stuff", and pq, sq, rq,
        tp, fp, fn under each category's name. Categories that never occur are left out."""
        rows: dict[str, dict[str, float]] = {}
        groups: dict[str, list[str]] = {"All": [], "Things": [], "Stuff": []}
        for category in CATEGORIES:
            tp, fn = self._matched[category.id], self._missed[category.id]
            fp, iou = self._invented[category.id], self._iou[category.id]
            if tp + fp + fn == 0:
                continue
            sq, rq = iou / max(tp, 1), tp / (tp + 0.5 * fp + 0.5 * fn)
            rows[category.name] = dict(pq=sq * rq, sq=sq, rq=rq, tp=tp, fp=fp, fn=fn)
            groups["All"].append(category.name)
            groups["Things" if category.is_thing else "Stuff"].append(category.name)
        summary = {
            group: {
                **{k: float(np.mean([rows[n][k] for n in names])) for k in ("pq", "sq", "rq")},
                "n": len(names),
            }
            for group, names in groups.items()
            if names
        }
        return {**summary, **rows}
