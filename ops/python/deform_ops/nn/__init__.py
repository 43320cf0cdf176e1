"""The operators as layers, with the parameters that predict where they sample."""

from __future__ import annotations

from deform_ops.nn.attn import DeformAttn2d, DeformSample2d
from deform_ops.nn.conv import DeformConv2d
from deform_ops.nn.msda import MultiScaleDeformAttn2d

__all__ = ["DeformAttn2d", "DeformConv2d", "DeformSample2d", "MultiScaleDeformAttn2d"]
