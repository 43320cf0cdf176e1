"""The server's answers against Hugging Face's model and processor, on held-out scenes."""

from __future__ import annotations

import io

import grpc
import numpy as np
import pytest
import reference_model
from answers import Found, ask, assert_same_segments, decode, iou
from PIL import Image

SEEDS = [reference_model.HELD_OUT_SEED + index for index in range(20)]


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.grpc_address) as made:
        yield made


def encoded(seed: int) -> bytes:
    return reference_model.encode_png(reference_model.network_outputs(seed)[1])


def id_map(response) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(response.id_map.png))).astype(np.int64)


@pytest.mark.parametrize("seed", SEEDS)
def test_instance_answer_equals_hugging_face(channel, seed):
    ours = decode(ask(channel, encoded(seed), "INSTANCE", "HF"))
    assert_same_segments(ours, reference_model.instance(seed), min_iou=0.99, score_tolerance=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_panoptic_answer_equals_hugging_face(channel, seed):
    response = ask(channel, encoded(seed), "PANOPTIC", "HF")
    assert_same_segments(
        decode(response), reference_model.panoptic(seed), min_iou=0.99, score_tolerance=1e-3
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_semantic_answer_equals_hugging_face(channel, seed):
    response = ask(channel, encoded(seed), "SEMANTIC", "HF")
    theirs = reference_model.semantic(seed)
    # Classes of a few pixels flip with the last bit of a float: the rest must agree as masks.
    labels = {int(label) for label in np.unique(theirs)}
    ours = {part.label: part for part in decode(response)}
    assert set(ours) == labels
    for label in labels:
        assert iou(ours[label].mask, theirs == label) >= 0.99
    assert (id_map(response) == theirs).mean() >= 0.999


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_default_panoptic_ids_are_distinct_and_fill_the_map(channel, seed):
    response = ask(channel, encoded(seed), "PANOPTIC")
    ids = id_map(response)
    assert len({part.id for part in response.segments}) == len(response.segments)
    assert set(np.unique(ids)) <= {part.id for part in response.segments} | {0}
    for part, found in zip(response.segments, decode(response), strict=True):
        assert (found.mask == (ids == part.id)).all()
        assert part.area == found.mask.sum()
        assert part.category_id != part.label_id, "category ids are the data set's own"


def test_answers_echo_model_task_and_options_in_effect(channel):
    from deform.segmentation.v1 import segmentation_pb2 as pb

    response = ask(channel, encoded(SEEDS[0]), "PANOPTIC", score_threshold=0.25)
    assert (response.model, response.version, response.task) == ("shapes", 1, pb.TASK_PANOPTIC)
    assert response.options.score_threshold == pytest.approx(0.25)
    assert response.options.HasField("overlap_mask_area_threshold")
    assert response.options.compat == pb.COMPAT_DEFAULT
    assert response.times.batch_size >= 1
    assert response.times.compute.ToTimedelta().total_seconds() > 0


@pytest.mark.parametrize("compat", ["DEFAULT", "HF"])
@pytest.mark.parametrize("task", ["INSTANCE", "SEMANTIC", "PANOPTIC"])
def test_options_told_in_an_answer_are_taken_in_the_next_request(channel, task, compat):
    from deform.segmentation.v1 import segmentation_pb2 as pb
    from deform.segmentation.v1 import segmentation_pb2_grpc as rpc

    first = ask(channel, encoded(SEEDS[0]), task, compat)
    request = pb.SegmentRequest(
        model="shapes", task=first.task, encoded=encoded(SEEDS[0]), options=first.options
    )
    again = rpc.SegmentationStub(channel).Segment(request, timeout=120)
    assert again.options == first.options
    assert len(again.segments) == len(first.segments)


def test_comparison_sees_a_wrong_label_a_lost_segment_and_a_moved_mask():
    mask = np.zeros((4, 6), bool)
    mask[1:3, 1:4] = True
    right = [Found(1, 0.9, mask)]
    for wrong in (
        [Found(2, 0.9, mask)],
        [],
        [Found(1, 0.9, np.roll(mask, 1, axis=1))],
        [Found(1, 0.8, mask)],
    ):
        with pytest.raises(AssertionError):
            assert_same_segments(right, wrong, min_iou=0.99, score_tolerance=1e-3)
