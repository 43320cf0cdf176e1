"""Hostile and odd pictures through the real server: each answer as its manifest says."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from server_process import ServerProcess

DATA = Path(__file__).resolve().parents[1] / "data" / "images"
CASES = json.loads((DATA / "manifest.json").read_text())["cases"]


def segment(server: ServerProcess, channel: grpc.Channel, encoded: bytes):
    from deform.segmentation.v1 import segmentation_pb2 as pb
    from deform.segmentation.v1 import segmentation_pb2_grpc as rpc

    stub = rpc.SegmentationStub(channel)
    return stub.Segment(
        pb.SegmentRequest(model="shapes", task=pb.TASK_PANOPTIC, encoded=encoded), timeout=60
    )


def outcome(server: ServerProcess, channel: grpc.Channel, encoded: bytes):
    """("ok", response) or (name of the code, error)."""
    try:
        return "ok", segment(server, channel, encoded)
    except grpc.RpcError as error:
        return error.code().name, error


@pytest.fixture(scope="module")
def channel(server: ServerProcess):
    options = [("grpc.max_receive_message_length", 64 << 20)]
    with grpc.insecure_channel(server.grpc_address, options=options) as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_each_picture_is_answered_as_its_manifest_says(server, channel, case):
    got, answer = outcome(server, channel, (DATA / case["file"]).read_bytes())
    allowed = {case["status"], *case["also_acceptable"]}
    if got == "ok":
        assert any(status.startswith("ok") for status in allowed), case["note"]
        if case["width"] is not None:
            assert (answer.width, answer.height) == (case["width"], case["height"])
        for part in answer.segments:
            assert list(part.coco_rle.size) == [answer.height, answer.width]
    else:
        assert got in allowed, f"{got}: {answer.details()}"
        assert "/" not in answer.details().replace("image/", ""), "a message holds no path"


def test_server_is_healthy_after_every_bad_picture(server, channel):
    for case in CASES:
        outcome(server, channel, (DATA / case["file"]).read_bytes())
    assert server.is_ready()
    good = (DATA / "base_420.jpg").read_bytes()
    assert outcome(server, channel, good)[0] == "ok"


def test_resident_memory_stays_level_over_sixty_rounds_of_bad_pictures(own_server):
    rounds = [(DATA / case["file"]).read_bytes() for case in CASES if case["status"] != "ok"]
    with grpc.insecure_channel(own_server.grpc_address) as channel:
        resident = []
        for _ in range(60):
            for encoded in rounds:
                outcome(own_server, channel, encoded)
            resident.append(own_server.resident_bytes())
    before = sum(resident[20:40]) / 20
    last = sum(resident[40:]) / 20
    assert last <= before * 1.02, f"{before / 1e6:.1f} MB grew to {last / 1e6:.1f} MB"
