"""The operators in PyTorch's tensor operations, for where there is no operator library.

Any device and float type, differentiable, traceable. With the library, its own forms in
``torch.ops.deform_eager`` are what runs.
"""

from __future__ import annotations

from deform_ops.eager.attn import attn
from deform_ops.eager.conv import conv
from deform_ops.eager.msda import msda

__all__ = ["attn", "conv", "msda"]
