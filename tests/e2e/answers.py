"""Asking the server for masks from Python."""

from __future__ import annotations

import grpc
from answers_compare import Found, assert_same_segments, iou
from pycocotools import mask as coco_mask

__all__ = ["Found", "ask", "assert_same_segments", "decode", "iou"]


def ask(channel: grpc.Channel, encoded: bytes, task: str, compat: str = "DEFAULT", **options):
    """The server's SegmentResponse for one encoded picture; task and compat by their names."""
    from deform.segmentation.v1 import segmentation_pb2 as pb
    from deform.segmentation.v1 import segmentation_pb2_grpc as rpc

    request = pb.SegmentRequest(
        model="shapes",
        task=pb.Task.Value(f"TASK_{task}"),
        encoded=encoded,
        options=pb.SegmentOptions(compat=pb.Compat.Value(f"COMPAT_{compat}"), **options),
    )
    return rpc.SegmentationStub(channel).Segment(request, timeout=120)


def decode(response) -> list[Found]:
    """The segments of an answer with their masks, decoded by pycocotools."""
    return [
        Found(
            part.label_id,
            part.score,
            coco_mask.decode(
                {"size": list(part.coco_rle.size), "counts": part.coco_rle.counts.encode()}
            ).astype(bool),
        )
        for part in response.segments
    ]
