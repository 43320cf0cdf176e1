"""Deformable DETR: detection."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deform_models.errors import PackagingError
from deform_models.recipe import Recipe


class DeformableDetrNetwork(nn.Module):
    """Pictures to class logits and boxes, float32.

    Takes `pixel_values [B, 3, H, W]` float32 and `pixel_mask [B, H, W]` int64, 1 on content.
    Logits are `[B, queries, classes]`; boxes `[B, queries, 4]` are centre x, centre y, width and
    height as shares of the content's size. Inside, the model computes in its own dtype.
    """

    def __init__(self, model: nn.Module) -> None:
        """Wraps `model`, a DeformableDetrForObjectDetection."""
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor, pixel_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Runs the network."""
        out = self.model(pixel_values=pixel_values.to(self.model.dtype), pixel_mask=pixel_mask)
        return out.logits.float(), out.pred_boxes.float()


class _PixelMaskByIndex(TorchFunctionMode):
    """Shrinks pixel masks by picking rows and columns.

    The model hands its masks to `interpolate` as one picture whose channels are the batch. CUDA's
    tracing rule for `interpolate` asks whether there are fewer than four channels, which would
    tie the program to the example's batch. Nearest neighbour is a fixed choice of rows and
    columns, so an index does the same at any batch.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.interpolate:
            picture = args[0] if args else kwargs["input"]
            size = args[1] if len(args) > 1 else kwargs.get("size")
            nearest = kwargs.get("mode", "nearest") == "nearest"
            if nearest and size is not None and picture.dim() == 4 and picture.shape[0] == 1:
                rows = _nearest(picture.shape[2], size[0], picture.device)
                columns = _nearest(picture.shape[3], size[1], picture.device)
                return picture.index_select(2, rows).index_select(3, columns)
        return func(*args, **kwargs)


def _nearest(length: int, target: int, device: torch.device) -> Tensor:
    """The element that `interpolate` takes for each of `target` places: `[target]` int64."""
    # float32, as interpolate computes it, so that ties fall on the same side.
    step = np.float32(length) / np.float32(target)
    index = np.floor(np.arange(target, dtype=np.float32) * step).astype(np.int64)
    return torch.tensor(np.minimum(index, length - 1).tolist(), device=device)


class DeformableDetrRecipe(Recipe):
    """Single-scale and multi-scale, plain, with box refinement, and two-stage."""

    architecture = "deformable_detr"
    model_class = "DeformableDetrForObjectDetection"
    processor_types = frozenset(
        {
            "DeformableDetrImageProcessor",
            "DeformableDetrImageProcessorFast",
            "DeformableDetrImageProcessorPil",
            "DeformableDetrFeatureExtractor",
            "DetrImageProcessor",
            "DetrImageProcessorFast",
            "DetrFeatureExtractor",
        }
    )
    takes_pixel_mask = True
    default_size_divisor = 0
    output_names = ("logits", "pred_boxes")

    def check_config(self, config: Any) -> None:
        """Refuses other numbers of colour channels than three."""
        if config.num_channels != 3:
            raise PackagingError(
                f"config.json: num_channels is {config.num_channels}; pictures have 3"
            )

    def network(self, model: nn.Module) -> nn.Module:
        """See DeformableDetrNetwork."""
        return DeformableDetrNetwork(model)

    def operator_calls(self, config: Any) -> int:
        """One in each layer of encoder and decoder."""
        return config.encoder_layers + config.decoder_layers

    def num_queries(self, config: Any) -> int:
        """Queries of one picture: the proposals where the model has two stages."""
        return config.two_stage_num_proposals if config.two_stage else config.num_queries

    def logits_per_query(self, config: Any) -> int:
        """Classes; "no object" is no class here."""
        return config.num_labels

    def query_order_is_free(self, config: Any) -> bool:
        """Two-stage queries are ranked by score, where near ties swap."""
        return config.two_stage

    def tasks(self, panoptic: bool) -> list[str]:
        """DETECTION, whatever is known of things and stuff."""
        return ["DETECTION"]

    def tracing(self) -> AbstractContextManager[Any]:
        """See _PixelMaskByIndex."""
        return _PixelMaskByIndex()
