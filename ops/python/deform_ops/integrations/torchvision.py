"""``torchvision.ops``' deformable convolution: the same arguments, order and layout.

Results equal torchvision's to rounding.
"""

from __future__ import annotations

from deform_ops.nn.conv import DeformConv2d
from deform_ops.nn.functional import deform_conv2d

__all__ = ["DeformConv2d", "deform_conv2d"]
