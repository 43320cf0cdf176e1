"""Single-scale deformable sampling as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deform_ops.geometry import output_size
from deform_ops.registry import Backend, Method, attn
from deform_ops.registry.backend import check_backend

__all__ = ["DeformAttn2d", "DeformSample2d"]

Projection = Callable[[int, int], nn.Module]


def _same_padding(kernel_size: int, dilation: int) -> int:
    return dilation * (kernel_size - 1) // 2


class DeformAttn2d(nn.Module):
    """Single-scale deformable sampling (the operator of DCNv3, InternImage).

    For each output, a linear map of the query predicts an offset and a weight for each group and
    point of a square kernel; the projected value is read there, summed and projected. A new layer
    has offsets and weights of 0.

    Args:
        dim: channels of query, value and result.
        kernel_size: points in height and in width.
        stride: pixels between two outputs.
        padding: pixels of zeros on each side; "same" keeps the size where ``stride`` is 1.
        dilation: pixels between two points.
        groups: parts of the channels with points of their own.
        spread: factor on grid and offset alike, about the kernel's centre.
        center_gate: mixes each output with the value at its kernel's centre, by a sigmoid gate for
            each group that is a linear map of the output.
        drop_center: leaves out the point in the kernel's middle.
        project: makes the projections of value and result, as ``project(dim, dim)``; None leaves
            both out.
        method: "linear" takes the predicted weights as they are, "softmax" normalises them over a
            group's points.
        backend: who computes; None takes the policy's choice.
        norm: applied to the result.
        activation: applied last.

    Raises:
        ValueError: if ``dim`` isn't a multiple of ``groups``, or ``center_gate`` meets an even
            kernel or so much padding that a kernel's centre lies outside.
    """

    def __init__(
        self,
        dim: int,
        kernel_size: int = 3,
        *,
        stride: int = 1,
        padding: int | Literal["same"] = "same",
        dilation: int = 1,
        groups: int = 4,
        spread: float = 1.0,
        center_gate: bool = False,
        drop_center: bool = False,
        project: Projection | None = nn.Linear,
        method: Method | str = Method.LINEAR,
        backend: Backend | None = None,
        norm: nn.Module | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        """Makes the layer; see the class."""
        super().__init__()
        if dim < 1 or groups < 1 or dim % groups:
            raise ValueError(f"dim must be a multiple of groups, but is {dim} of {groups}")
        same = _same_padding(kernel_size, dilation)
        if center_gate and kernel_size % 2 == 0:
            raise ValueError(f"center_gate needs an odd kernel_size, but it is {kernel_size}")
        if center_gate and padding != "same" and padding > same:
            raise ValueError(
                f"center_gate needs each kernel's centre inside the value: padding must be at most "
                f"{same}, but is {padding}"
            )
        check_backend(backend)
        self.dim = dim
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = same if padding == "same" else padding
        self.dilation = dilation
        self.groups = groups
        self.group_dims = dim // groups
        self.spread = spread
        self.center_gate = center_gate
        self.drop_center = drop_center
        self.method = Method(method)
        self.backend = backend

        numbers = groups * (kernel_size**2 - int(drop_center)) * 3
        # Up to a multiple of 8, which matrix units like; the operator ignores the rest.
        self.proj_offset_mask = nn.Linear(dim, -(-numbers // 8) * 8)
        self.proj_value = None if project is None else project(dim, dim)
        self.proj_output = None if project is None else project(dim, dim)
        self.center_scale = _Gate(dim, groups) if center_gate else None
        self.norm = norm
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """No offsets and no weights; projections as their own class starts them."""
        nn.init.zeros_(self.proj_offset_mask.weight)
        nn.init.zeros_(self.proj_offset_mask.bias)
        for projection in (self.proj_value, self.proj_output):
            reset = getattr(projection, "reset_parameters", None)
            if reset is not None:
                reset()
                continue
            weight, bias = getattr(projection, "weight", None), getattr(projection, "bias", None)
            if isinstance(weight, Tensor):
                nn.init.xavier_uniform_(weight)
            if isinstance(bias, Tensor):
                nn.init.zeros_(bias)

    def forward(
        self,
        query: Tensor,
        value: Tensor,
        shape: torch.Size | tuple[int, int] | None = None,
    ) -> Tensor:
        """Reads ``value`` where ``query`` says.

        Args:
            query: (B, dim, Ho, Wo), or (B, Ho*Wo, dim).
            value: (B, dim, H, W), or (B, H*W, dim).
            shape: H and W, required where ``value`` has three dimensions.

        Returns:
            The result in the query's layout.

        Raises:
            ValueError: if ``shape`` is missing.
            RuntimeError: on operands that don't fit together, naming the one at fault.
        """
        is_map = query.dim() == 4
        if value.dim() == 4:
            shape = value.shape[-2:] if shape is None else shape
            value = value.permute(0, 2, 3, 1).flatten(1, 2)
        if shape is None:
            raise ValueError("shape must say height and width of a value of three dimensions")
        if is_map:
            size = tuple(query.shape[-2:])
            query = query.permute(0, 2, 3, 1)
        else:
            size = tuple(self._output_size(length) for length in shape)
            query = query.unflatten(1, size)
        if self.proj_value is not None:
            value = self.proj_value(value)
        value = value.unflatten(1, tuple(shape))

        result = attn(
            value,
            self.proj_offset_mask(query),
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            group_dims=self.group_dims,
            spread=self.spread,
            method=self.method,
            drop_center=self.drop_center,
            backend=self.backend,
        )
        if self.center_scale is not None:
            gate = self.center_scale(result).repeat_interleave(self.group_dims, -1)
            result = result * (1 - gate) + self._at_centres(value, size) * gate
        if is_map:
            if self.proj_output is not None:
                result = self.proj_output(result)
            result = result.permute(0, 3, 1, 2).contiguous()
        else:
            result = result.flatten(1, 2)
            if self.proj_output is not None:
                result = self.proj_output(result)
        if self.norm is not None:
            result = self.norm(result)
        return result if self.activation is None else self.activation(result)

    def _output_size(self, size: int) -> int:
        return output_size(size, self.kernel_size, self.stride, self.padding, self.dilation)

    def _at_centres(self, value: Tensor, size: tuple[int, ...]) -> Tensor:
        first = self.dilation * (self.kernel_size // 2) - self.padding
        rows = value[:, first :: self.stride][:, : size[0]]
        return rows[:, :, first :: self.stride][:, :, : size[1]]

    def extra_repr(self) -> str:
        """The geometry, which the submodules don't show."""
        return (
            f"dim={self.dim}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, groups={self.groups}, "
            f"spread={self.spread}, drop_center={self.drop_center}, method={self.method}, "
            f"backend={self.backend}"
        )


class DeformSample2d(nn.Module):
    """Reads a map at points that it predicts itself, by way of a depthwise convolution.

    The convolution has the geometry of the sampling and makes the query of a
    :class:`DeformAttn2d`, which is ``sample``. Arguments, defaults and errors are those of that
    class.
    """

    def __init__(
        self,
        dim: int,
        kernel_size: int = 3,
        *,
        stride: int = 1,
        padding: int | Literal["same"] = "same",
        dilation: int = 1,
        groups: int = 4,
        spread: float = 1.0,
        center_gate: bool = False,
        drop_center: bool = False,
        project: Projection | None = nn.Linear,
        method: Method | str = Method.LINEAR,
        backend: Backend | None = None,
        norm: nn.Module | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        """Makes the layer; see the class."""
        super().__init__()
        if padding == "same":
            padding = _same_padding(kernel_size, dilation)
        self.offset = nn.Conv2d(
            dim,
            dim,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=dim,
        )
        self.sample = DeformAttn2d(
            dim,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            spread=spread,
            center_gate=center_gate,
            drop_center=drop_center,
            project=project,
            method=method,
            backend=backend,
            norm=norm,
            activation=activation,
        )
        nn.init.kaiming_normal_(self.offset.weight, a=1)
        if self.offset.bias is not None:
            nn.init.zeros_(self.offset.bias)

    def forward(self, input: Tensor, shape: torch.Size | tuple[int, int] | None = None) -> Tensor:
        """Reads ``input`` at points of its own.

        Args:
            input: (B, dim, H, W), or (B, H*W, dim).
            shape: H and W of an input of three dimensions; to be left out for one of four.

        Returns:
            (B, dim, Ho, Wo), or (B, Ho*Wo, dim), as the input is.

        Raises:
            ValueError: if ``shape`` is missing, or given for an input of four dimensions.
        """
        if (shape is None) != (input.dim() == 4):
            raise ValueError("shape must be given for an input of three dimensions, and only there")
        if shape is None:
            return self.sample(self.offset(input), input)
        query = self.offset(input.unflatten(1, tuple(shape)).permute(0, 3, 1, 2))
        return self.sample(query.permute(0, 2, 3, 1).flatten(1, 2), input, shape)


class _Gate(nn.Module):
    """A number in (0, 1) for each group, even at first."""

    def __init__(self, dim: int, groups: int) -> None:
        super().__init__()
        self.scale_weight = nn.Parameter(torch.zeros(groups, dim))
        self.scale_bias = nn.Parameter(torch.zeros(groups))

    def forward(self, query: Tensor) -> Tensor:
        """(…, dim) to (…, groups)."""
        return F.linear(query, self.scale_weight, self.scale_bias).sigmoid()
