"""Each CUDA kernel of conv at awkward shapes, for compute-sanitizer: small, odd, at borders."""

from __future__ import annotations

import os
import sys

import torch

# height, width, kernel_h, kernel_w, stride, pad, dilation, groups, offset_groups, channels, outs
CASES = [
    (1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1),
    (5, 7, 3, 3, 1, 1, 1, 2, 1, 8, 9),
    (7, 5, 3, 2, 2, 2, 2, 1, 3, 9, 65),
    (9, 9, 1, 1, 1, 0, 1, 1, 1, 70, 3),
    (4, 3, 2, 3, 1, 1, 1, 3, 2, 4, 2),
    (3, 3, 5, 5, 1, 2, 1, 1, 1, 17, 1),
]
# Forward only: sums and results enough for the usual kernel, the last with outputs for large tiles.
LARGE = [
    (12, 11, 3, 3, 1, 1, 1, 1, 1, 32, 256),
    (20, 25, 3, 3, 1, 1, 1, 4, 4, 32, 64),
    (66, 66, 3, 1, 1, 1, 1, 1, 1, 96, 128),
]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def operands(case: tuple, dtype: torch.dtype, generator: torch.Generator) -> list[torch.Tensor]:
    """The result's gradient, then value, offset, mask, weight and bias."""
    height, width, kernel_h, kernel_w, stride, pad, dilation, groups, og, channels, outs = case
    rows = (height + 2 * pad - dilation * (kernel_h - 1) - 1) // stride + 1
    columns = (width + 2 * pad - dilation * (kernel_w - 1) - 1) // stride + 1
    points = (2, rows, columns, og, kernel_h * kernel_w)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator)

    offset = normal(*points, 2) * 2
    offset.view(-1)[0] = float("nan")
    offset.view(-1)[-1] = float("inf")
    tensors = [
        normal(2, rows, columns, groups * outs),
        normal(2, height, width, groups * channels),
        offset,
        torch.rand(points, generator=generator),
        normal(groups * outs, channels, kernel_h, kernel_w),
        normal(groups * outs),
    ]
    return [tensor.to("cuda", dtype) for tensor in tensors]


def main() -> int:
    """Runs each case with and without a mask; results must be finite."""
    torch.ops.load_library(os.environ["DEFORM_OPS_LIBRARY"])
    generator = torch.Generator().manual_seed(0)
    runs = 0
    for case in (*CASES, *LARGE):
        _, _, _, _, stride, pad, dilation, groups, offset_groups, _, _ = case
        geometry = (stride, stride, pad, pad, dilation, dilation, groups, offset_groups)
        for dtype in DTYPES:
            grad, value, offset, mask, weight, bias = operands(case, dtype, generator)
            for given in ((mask, bias), (None, None)):
                tensors = (value, offset, given[0], weight, given[1])
                for operators in (torch.ops.deform_cuda, torch.ops.deform_jit):
                    results = [operators.conv(*tensors, *geometry)]
                    if case in CASES:
                        results += operators.conv_backward(grad, *tensors, *geometry)
                    torch.cuda.synchronize()
                    if not all(torch.isfinite(result).all() for result in results):
                        print(f"{operators.name} {dtype} {case}: not finite")
                        return 1
                    runs += len(results)
    print(f"{runs} results checked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
