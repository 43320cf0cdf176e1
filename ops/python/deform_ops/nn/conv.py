"""Deformable convolution as a layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deform_ops.geometry import Pair, pair
from deform_ops.nn.functional import deform_conv2d
from deform_ops.registry import Backend
from deform_ops.registry.backend import check_backend

__all__ = ["DeformConv2d"]


class DeformConv2d(nn.Module):
    """Deformable convolution over NCHW maps; v2 where a mask is given, v1 without.

    Constructor, parameters, first values and ``forward`` are those of
    ``torchvision.ops.DeformConv2d``, with ``backend`` after them; state dicts load both ways.

    Args:
        in_channels: Cin.
        out_channels: Cout.
        kernel_size: one number, or height and width.
        stride: pixels between two outputs.
        padding: pixels of zeros on each side.
        dilation: pixels between two points.
        groups: of the convolution.
        bias: whether to add one.
        backend: who computes; None takes the policy's choice.

    Raises:
        ValueError: if a size isn't positive, or channels aren't a multiple of ``groups``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        backend: Backend | None = None,
    ) -> None:
        """Makes the layer; see the class."""
        super().__init__()
        sizes = {"in_channels": in_channels, "out_channels": out_channels, "groups": groups}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, but is {size}")
            if size % groups:
                raise ValueError(f"{name} must be a multiple of groups, but is {size} of {groups}")
        check_backend(backend)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = pair("kernel_size", kernel_size)
        self.stride = pair("stride", stride)
        self.padding = pair("padding", padding)
        self.dilation = pair("dilation", dilation)
        self.groups = groups
        self.backend = backend
        self.weight = nn.Parameter(
            torch.empty(out_channels, in_channels // groups, *self.kernel_size)
        )
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights and bias, within 1/sqrt of the inputs of one output."""
        bound = 1 / math.sqrt(self.weight[0].numel())
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolves ``input``, each point of the kernel moved by its offset.

        Args:
            input: (B, Cin, H, W).
            offset: (B, offset groups * K * 2, Ho, Wo), dy and dx for each point, rows first.
            mask: (B, offset groups * K, Ho, Wo), a factor on each sample.

        Returns:
            (B, Cout, Ho, Wo), in the input's memory format.

        Raises:
            ValueError: if ``input`` hasn't ``in_channels`` channels, or ``offset`` or ``mask`` not
                a whole number of groups.
            RuntimeError: on other operands that don't fit together, naming the one at fault.
        """
        if input.shape[1] != self.in_channels:
            raise ValueError(
                f"input must have {self.in_channels} channels, but has {input.shape[1]}"
            )
        return deform_conv2d(
            input,
            offset,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            mask,
            backend=self.backend,
        )

    def extra_repr(self) -> str:
        """What the parameters' shapes don't show."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, bias={self.bias is not None}, backend={self.backend}"
        )
