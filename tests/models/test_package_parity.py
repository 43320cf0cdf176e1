"""The parity check passes the same network and refuses another one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from deform_models.errors import PackagingError
from deform_models.package import parity
from deform_models.package.checkpoint import load_model, read_checkpoint
from deform_models.package.pictures import network_inputs
from deform_models.package.target import Target

CPU = Target("cpu", "float32", "avx2", None)
SECTION = {"height": 64, "width": 64, "rescale_factor": 1 / 255, "mean": [0.45] * 3}
EXACT = {**SECTION, "std": [0.22] * 3, "mode": "exact", "pixel_mask": False}
FIT = {**EXACT, "height": 96, "width": 96, "mode": "fit", "pixel_mask": True}


@pytest.fixture
def checkpoint(mask2former_folder):
    return read_checkpoint(mask2former_folder)


@pytest.fixture
def model(checkpoint):
    return load_model(checkpoint)


def measure(monkeypatch, checkpoint, model, packaged, section=EXACT):
    """Parity of `model` with an artifact whose runs are `packaged(pictures)`."""

    def run(_artifact, pictures, batches):
        return {b: tuple(packaged(*(tensor[:b] for tensor in pictures))) for b in batches}

    monkeypatch.setattr(parity, "run_packaged", run)
    return parity.measure_parity(
        checkpoint.recipe, model, checkpoint.config, Path("model.pt2"), CPU, section, 3
    )


def test_the_same_network_agrees_and_the_report_says_how_well(monkeypatch, checkpoint, model):
    network = checkpoint.recipe.network(model)
    with torch.inference_mode():
        report = measure(monkeypatch, checkpoint, model, network)
    assert report["batch"] == [1, 2, 3] and report["pictures"] == 6
    assert set(report["max_abs_difference"]) == set(checkpoint.recipe.output_names)
    assert max(report["max_abs_difference"].values()) < 1e-4
    assert report["threshold_sensitive"] == 0
    assert min(report["spread"].values()) > 1e-2


def test_another_output_is_refused_by_name(monkeypatch, checkpoint, model):
    network = checkpoint.recipe.network(model)

    def shifted(pixels):
        logits, masks = network(pixels)
        return logits + 0.05, masks

    with pytest.raises(PackagingError, match="class_queries_logits of picture 0 at batch 1"):
        measure(monkeypatch, checkpoint, model, shifted)


def test_pictures_that_change_places_in_a_batch_are_refused(monkeypatch, checkpoint, model):
    network = checkpoint.recipe.network(model)
    with pytest.raises(PackagingError, match="at batch 2"):
        measure(monkeypatch, checkpoint, model, lambda p: [t.flip(0) for t in network(p)])


def test_values_that_are_no_numbers_are_refused(monkeypatch, checkpoint, model):
    network = checkpoint.recipe.network(model)

    def broken(pixels):
        logits, masks = network(pixels)
        return logits, masks / 0

    with pytest.raises(PackagingError, match="masks_queries_logits at batch 1 isn't finite"):
        measure(monkeypatch, checkpoint, model, broken)


def test_decisions_at_a_threshold_are_accepted_no_further_than_they_reach(
    monkeypatch, checkpoint, model
):
    """Rounding that flips attention masks passes, and is counted; the same size of error elsewhere
    doesn't."""
    network = checkpoint.recipe.network(model)
    monkeypatch.setitem(parity.TOLERANCE, ("cpu", "float32"), 1e-3)

    def flipped(pixels):
        bound = 1e-3 * max(1.0, float(network(pixels)[1].abs().amax()))
        return checkpoint.recipe.rounding_trials(model, (pixels,), bound, 1)[0]

    report = measure(monkeypatch, checkpoint, model, flipped)
    assert 0 < report["threshold_sensitive"] <= report["pictures"]
    reached = report["max_abs_difference"]["class_queries_logits"]
    assert reached > 1e-3

    def wrong(pixels):
        logits, masks = network(pixels)
        return logits + 10 * reached, masks

    with pytest.raises(PackagingError, match="is allowed"):
        measure(monkeypatch, checkpoint, model, wrong)


def test_two_stage_queries_may_change_places_but_not_values(tmp_path, monkeypatch):
    from package_checkpoints import save_deformable_detr

    stages = {"two_stage": True, "with_box_refine": True, "two_stage_num_proposals": 7}
    checkpoint = read_checkpoint(save_deformable_detr(tmp_path / "detr", **stages))
    model = load_model(checkpoint)
    network = checkpoint.recipe.network(model)

    def reordered(*inputs):
        return [tensor.flip(1) for tensor in network(*inputs)]

    report = measure(monkeypatch, checkpoint, model, reordered, FIT)
    assert max(report["max_abs_difference"].values()) < 1e-4

    def moved(*inputs):
        logits, boxes = reordered(*inputs)
        boxes[:, 2] += 0.01
        return logits, boxes

    with pytest.raises(PackagingError, match="pred_boxes"):
        measure(monkeypatch, checkpoint, model, moved, FIT)


def test_single_stage_queries_keep_their_places(detr_folder, monkeypatch):
    checkpoint = read_checkpoint(detr_folder)
    model = load_model(checkpoint)
    network = checkpoint.recipe.network(model)
    with pytest.raises(PackagingError):
        measure(monkeypatch, checkpoint, model, lambda *i: [t.flip(1) for t in network(*i)], FIT)


def test_an_artifact_that_is_no_package_is_an_answer_not_a_crash(tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(b"no archive")
    pictures = network_inputs(EXACT, 1, seed=0)
    with pytest.raises(PackagingError, match="the artifact failed when it was loaded"):
        parity.run_packaged(path, pictures, [1])


def test_pictures_are_seeded_padded_and_masked():
    pixels, mask = network_inputs(FIT, 4, seed=5)
    again, _ = network_inputs(FIT, 2, seed=5)
    assert torch.equal(pixels[:2], again)  # a picture doesn't depend on its neighbours
    assert not torch.equal(pixels, network_inputs(FIT, 4, seed=6)[0])
    assert mask[0].all() and not mask[1].all() and not mask[2].all()
    assert (pixels.abs().sum(1) * (1 - mask)).max() == 0
    assert all(float(p[:, m.bool()].std()) > 0.3 for p, m in zip(pixels, mask, strict=True))
