"""The calls of deformable convolution that are timed, and the peer beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """One call: a square kernel, padded so that with stride 1 the map keeps its size.

    With a mask (v2) and a bias. Offsets have a standard deviation of two pixels.
    """

    name: str
    batch: int
    height: int
    width: int
    channels: int
    out_channels: int
    dtype: torch.dtype
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    offset_groups: int = 1

    @property
    def points(self) -> int:
        """Of the kernel."""
        return self.kernel * self.kernel

    @property
    def output(self) -> tuple[int, int]:
        """Output rows and columns."""
        height, width = ((n - 1) // self.stride + 1 for n in (self.height, self.width))
        return height, width

    @property
    def outputs(self) -> int:
        """Pixels of the output, over the batch."""
        return self.batch * self.output[0] * self.output[1]

    @property
    def parameters(self) -> tuple[int, ...]:
        """What follows the tensors in the operators' arguments."""
        pad = self.kernel // 2
        return (self.stride, self.stride, pad, pad, 1, 1, self.groups, self.offset_groups)

    @property
    def flops(self) -> int:
        """Of the product with weight: a multiplication and an addition for each factor."""
        return 2 * self.outputs * self.points * self.channels * self.out_channels // self.groups


_F32, _F16, _BF16 = torch.float32, torch.float16, torch.bfloat16

CPU_CASES = [
    Case("3x3_256_64", 1, 64, 64, 256, 256, _F32),
    Case("3x3_256_64", 1, 64, 64, 256, 256, _BF16),
    Case("3x3_128_32_s2", 1, 32, 32, 128, 128, _F32, stride=2),
    Case("3x3_256_64_g4", 1, 64, 64, 256, 256, _F32, groups=4, offset_groups=4),
    Case("7x7_64_32", 1, 32, 32, 64, 64, _F32, kernel=7),
    Case("1x1_256_16", 1, 16, 16, 256, 256, _F32, kernel=1),
]
# Stages of a ResNet-50 with deformable convolutions on 800 x 1280, and a square one.
CUDA_CASES = [
    *(
        case
        for dtype in (_BF16, _F16, _F32)
        for case in (
            Case("3x3_256_64", 8, 64, 64, 256, 256, dtype),
            Case("res3_800x1280", 2, 100, 160, 128, 128, dtype),
            Case("res5_800x1280", 2, 25, 40, 512, 512, dtype),
        )
    ),
    Case("3x3_256_64", 1, 64, 64, 256, 256, _BF16),
    Case("3x3_256_64_g4", 8, 64, 64, 256, 256, _BF16, groups=4, offset_groups=4),
    Case("7x7_64_64", 8, 64, 64, 64, 64, _BF16, kernel=7),
]


@dataclass
class Operands:
    """The operator's, in its order, and a gradient of the result."""

    value: Tensor
    offset: Tensor
    mask: Tensor
    weight: Tensor
    bias: Tensor
    grad: Tensor

    def to(self, dtype: torch.dtype) -> Operands:
        """All of another type."""
        return Operands(**{name: tensor.to(dtype) for name, tensor in vars(self).items()})

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The operator's."""
        return self.value, self.offset, self.mask, self.weight, self.bias


def draw(case: Case, device: torch.device, seed: int = 0) -> Operands:
    """Unit-normal but for weight, whose products with a sample sum up to unit variance."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator).to(device, case.dtype)

    places = (case.batch, *case.output, case.offset_groups, case.points)
    group_channels = case.channels // case.groups
    weight = normal(case.out_channels, group_channels, case.kernel, case.kernel)
    return Operands(
        value=normal(case.batch, case.height, case.width, case.channels),
        offset=2 * normal(*places, 2),
        mask=torch.rand(*places, generator=generator).to(device, case.dtype),
        weight=weight / (group_channels * case.points) ** 0.5,
        bias=normal(case.out_channels),
        grad=normal(case.batch, *case.output, case.out_channels),
    )


def to_nchw(tensor: Tensor) -> Tensor:
    """(B, H, W, …) with all channels in dimension 1, contiguous."""
    return tensor.flatten(3).permute(0, 3, 1, 2).contiguous()


def torchvision_call(case: Case, operands: Operands):
    """torchvision's deform_conv2d of operands in its own layout, and those operands.

    In float32 where the type is bfloat16, which it doesn't take.
    """
    from torchvision.ops import deform_conv2d

    operands = operands.to(_F32) if case.dtype == _BF16 else operands
    value, offset, mask = (to_nchw(t) for t in (operands.value, operands.offset, operands.mask))
    inputs = [value, offset, operands.weight, operands.bias, mask]
    pad = case.kernel // 2

    def run(value: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        return deform_conv2d(value, offset, weight, bias, case.stride, pad, 1, mask)

    return run, inputs, to_nchw(operands.grad)
