"""Each CUDA kernel of attn at awkward shapes, for compute-sanitizer: small, odd, at borders."""

from __future__ import annotations

import itertools
import os
import sys

import torch

# height, width, kernel_h, kernel_w, stride, pad, dilation, groups, channels, drop_center, extra
CASES = [
    (1, 1, 1, 1, 1, 0, 1, 1, 1, False, 0),
    (5, 7, 3, 3, 1, 1, 1, 4, 16, False, 0),
    (7, 5, 3, 3, 2, 2, 2, 3, 7, True, 2),
    (4, 3, 2, 3, 1, 1, 1, 2, 12, True, 1),
    (3, 3, 5, 5, 1, 2, 1, 2, 1, False, 0),  # more points than fit in shared memory at once
    (2, 3, 13, 13, 1, 6, 1, 1, 2, False, 0),
    (3, 2, 3, 3, 1, 1, 1, 1, 130, False, 0),
    (2, 2, 1, 2, 1, 1, 1, 3, 300, False, 5),
]
BACKENDS = ["deform_cuda", "deform_jit"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def operands(case: tuple, dtype: torch.dtype, generator: torch.Generator) -> list[torch.Tensor]:
    """The result's gradient, value and offset_mask; points up to far outside, some nowhere."""
    height, width, kernel_h, kernel_w, stride, pad, dilation, groups, channels, drop, extra = case
    rows = (height + 2 * pad - dilation * (kernel_h - 1) - 1) // stride + 1
    columns = (width + 2 * pad - dilation * (kernel_w - 1) - 1) // stride + 1
    used = groups * (kernel_h * kernel_w - drop) * 3
    offset_mask = torch.randn(2, rows, columns, used + extra, generator=generator)
    triples = offset_mask[..., :used].unflatten(-1, (-1, 3))
    triples[..., :2] *= 2
    triples[0, 0, 0, 0, 0] = float("nan")
    triples[-1, -1, -1, -1, 1] = float("inf")
    grad = torch.randn(2, rows, columns, groups * channels, generator=generator)
    value = torch.randn(2, height, width, groups * channels, generator=generator)
    return [tensor.to("cuda", dtype) for tensor in (grad, value, offset_mask)]


def main() -> int:
    """Runs each case once; results must be finite, whatever some coordinates are."""
    torch.ops.load_library(os.environ["DEFORM_OPS_LIBRARY"])
    generator = torch.Generator().manual_seed(0)
    runs = 0
    for case in CASES:
        _, _, kernel_h, kernel_w, stride, pad, dilation, groups, channels, drop, _ = case
        pairs = (kernel_h, kernel_w, stride, stride, pad, pad, dilation, dilation)
        parameters = (*pairs, groups, channels, 0.75, drop)
        for dtype in DTYPES:
            grad, value, offset_mask = operands(case, dtype, generator)
            for backend, name in itertools.product(BACKENDS, ("attn", "attn_softmax")):
                forward = getattr(getattr(torch.ops, backend), name)
                backward = getattr(getattr(torch.ops, backend), f"{name}_backward")
                results = [forward(value, offset_mask, *parameters)]
                # Native sums of halves are another kernel; for other types it is the same one.
                for fp32acc in (True, False) if dtype.itemsize == 2 else (True,):
                    results += backward(grad, value, offset_mask, *parameters, fp32acc=fp32acc)
                torch.cuda.synchronize()
                if not all(torch.isfinite(result).all() for result in results):
                    print(f"{backend}.{name} {dtype} {case}: not finite")
                    return 1
                runs += len(results)
    print(f"{runs} results checked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
