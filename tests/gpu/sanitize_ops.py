"""Every CUDA op at awkward shapes, for compute-sanitizer to watch: small, odd, at the borders."""

from __future__ import annotations

import os
import sys

import torch

CASES = [  # levels, heads, channels, queries, points, batch
    ([(7, 5)], 1, 1, 3, 1, 1),
    ([(8, 8), (4, 4)], 2, 32, 17, 4, 2),
    ([(16, 12), (8, 6), (4, 3)], 8, 32, 65, 4, 1),
    ([(5, 3), (3, 2)], 3, 7, 9, 3, 2),
    ([(9, 9)], 2, 130, 5, 2, 1),
]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def main() -> int:
    """Runs each case once; results must be finite, and NaN coordinates must not poison others."""
    torch.ops.load_library(os.environ["DEFORM_OPS_LIBRARY"])
    generator = torch.Generator().manual_seed(0)
    runs = 0
    for levels, heads, channels, queries, points, batch in CASES:
        shapes = torch.tensor(levels)
        sizes = shapes.prod(1)
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)[:-1]])
        cells = int(sizes.sum())
        level_count = len(levels)
        # Up to half a map outside on every side, so that each border case occurs.
        locations = (
            torch.rand(batch, queries, heads, level_count, points, 2, generator=generator) * 2 - 0.5
        )
        locations.view(-1)[0] = float("nan")
        locations.view(-1)[-1] = float("inf")
        for dtype in DTYPES:
            value = torch.randn(batch, cells, heads, channels, generator=generator).to(dtype)
            logits = torch.randn(
                batch, queries, heads, level_count * points, generator=generator
            ).to(dtype)
            operands = [t.cuda() for t in (value, shapes, starts, locations, logits)]
            for op in (torch.ops.deform.msda, torch.ops.deform.msda_softmax):
                result = op(*operands)
                torch.cuda.synchronize()
                if not torch.isfinite(result).all():
                    print(f"{op} {dtype} {levels}: not finite")
                    return 1
                runs += 1
    print(f"{runs} launches checked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
