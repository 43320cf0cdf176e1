"""Each CUDA kernel of msda at awkward shapes, for compute-sanitizer: small, odd, at borders."""

from __future__ import annotations

import itertools
import os
import sys

import torch

CASES = [  # levels, heads, channels, queries, points, batch
    ([(7, 5)], 1, 1, 3, 1, 1),
    ([(8, 8), (4, 4)], 2, 32, 17, 4, 2),
    ([(16, 12), (8, 6), (4, 3)], 8, 32, 65, 4, 1),
    ([(5, 3), (3, 2)], 3, 7, 9, 3, 2),
    ([(9, 9)], 2, 130, 5, 2, 1),
    ([(3, 3), (2, 2)], 2, 1, 5, 40, 1),  # more points than shared memory takes at once
    ([(1, 2)] * 70, 1, 12, 3, 1, 2),  # more levels than that
    ([(2, 2)], 3, 300, 2, 2, 1),
    ([(6, 5), (1, 4)], 3, 64, 11, 5, 2),  # heads of whole packs, points as they come
    ([(5, 6)], 5, 16, 7, 9, 1),
]
BACKENDS = ["deform_cuda", "deform_jit"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def operands(case: tuple, dtype: torch.dtype, generator: torch.Generator) -> list[torch.Tensor]:
    """The result's gradient and the operators' tensors; some points far outside, some nowhere."""
    levels, heads, channels, queries, points, batch = case
    shapes = torch.tensor(levels)
    sizes = shapes.prod(1)
    # Up to half a map outside on every side, so that each border case occurs.
    places = torch.rand(batch, queries, heads, len(levels), points, 2, generator=generator)
    locations = places * 2 - 0.5
    locations.view(-1)[0] = float("nan")
    locations.view(-1)[-1] = float("inf")
    grad = torch.randn(batch, queries, heads * channels, generator=generator)
    value = torch.randn(batch, int(sizes.sum()), heads, channels, generator=generator)
    logits = torch.randn(batch, queries, heads, len(levels) * points, generator=generator)
    tensors = grad.to(dtype), value.to(dtype), shapes, sizes.cumsum(0) - sizes
    return [tensor.cuda() for tensor in (*tensors, locations, logits.to(dtype))]


def main() -> int:
    """Runs each case once; results must be finite, whatever some coordinates are."""
    torch.ops.load_library(os.environ["DEFORM_OPS_LIBRARY"])
    generator = torch.Generator().manual_seed(0)
    runs = 0
    for case in CASES:
        for dtype in DTYPES:
            grad, *tensors = operands(case, dtype, generator)
            for backend, name in itertools.product(BACKENDS, ("msda", "msda_softmax")):
                operators = getattr(torch.ops, backend)
                results = [getattr(operators, name)(*tensors)]
                backward = getattr(operators, f"{name}_backward")
                # Native sums of halves are another kernel; for other types it is the same one.
                for fp32acc in (True, False) if dtype.itemsize == 2 else (True,):
                    results += backward(grad, *tensors, fp32acc=fp32acc)
                torch.cuda.synchronize()
                if not all(torch.isfinite(result).all() for result in results):
                    print(f"{backend}.{name} {dtype} {case}: not finite")
                    return 1
                runs += len(results)
    print(f"{runs} results checked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
