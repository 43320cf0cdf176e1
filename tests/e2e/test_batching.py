"""Many clients at once: pictures share batches, and answers stay the picture's own."""

from __future__ import annotations

import concurrent.futures

import grpc
import reference_model
from answers import ask, decode, iou
from scipy.optimize import linear_sum_assignment

CLIENTS = 32
PICTURES_EACH = 4


def test_32_clients_share_batches_and_each_gets_its_own_answer(own_server):
    seeds = [reference_model.HELD_OUT_SEED + index for index in range(8)]
    from deform_models.shapes.scenes import generate_scene

    encoded = [reference_model.encode_png(generate_scene(seed).image) for seed in seeds]
    with grpc.insecure_channel(own_server.grpc_address) as channel:
        alone = [ask(channel, picture, "INSTANCE") for picture in encoded]
    before = own_server.metrics()

    def client(number: int) -> list[tuple[int, object]]:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(own_server.grpc_address, options=options) as channel:
            order = [(number + step) % len(encoded) for step in range(PICTURES_EACH)]
            return [(which, ask(channel, encoded[which], "INSTANCE")) for which in order]

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        answers = [answer for part in pool.map(client, range(CLIENTS)) for answer in part]

    after = own_server.metrics()
    label = '{device="cpu",model="shapes"}'

    def gained(name: str) -> float:
        return after[f"{name}{label}"] - before.get(f"{name}{label}", 0.0)

    batches = gained("deform_batch_size_count")
    pictures = gained("deform_batch_size_sum")
    assert pictures == CLIENTS * PICTURES_EACH
    assert pictures / batches > 2, f"{pictures:.0f} pictures in {batches:.0f} batches"

    for which, answer in answers:
        assert_same_picture(alone[which], answer)


def assert_same_picture(alone, shared) -> None:
    """As the contract says of a trained model: mask IoU >= 0.999 and scores within 1e-4."""
    ours, theirs = decode(shared), decode(alone)
    assert len(ours) == len(theirs)
    if not ours:
        return
    gain = [
        [(iou(a.mask, b.mask) - 2 * (a.label != b.label)) - abs(a.score - b.score) for b in theirs]
        for a in ours
    ]
    rows, columns = linear_sum_assignment([[-value for value in row] for row in gain])
    for row, column in zip(rows, columns, strict=True):
        a, b = ours[row], theirs[column]
        assert a.label == b.label
        assert iou(a.mask, b.mask) >= 0.999
        assert abs(a.score - b.score) <= 1e-4
