"""Mask2Former and Deformable DETR on the operators, loaded from a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from deform_ops.models import DeformableDETR, Mask2Former  # noqa: E402
from deform_ops.models import mask2former as overrides  # noqa: E402
from deform_ops.registry import Backend  # noqa: E402
from hugging_face_models import MODELS  # noqa: E402

CLASSES = {"mask2former": Mask2Former, "deformable_detr": DeformableDETR}


@pytest.fixture(params=MODELS, scope="module")
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def checkpoint(name, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp(name)
    MODELS[name].make().save_pretrained(path)
    return path


@pytest.fixture
def pixels(device) -> torch.Tensor:
    return torch.randn(2, 3, 96, 64, generator=torch.Generator().manual_seed(1)).to(device)


def answers(model: torch.nn.Module, name: str, *arguments) -> list[torch.Tensor]:
    with torch.no_grad():
        output = model(*arguments)
    return [getattr(output, field) for field in MODELS[name].outputs]


@pytest.mark.parametrize("backend", [None, Backend.EAGER])
def test_loaded_model_answers_as_transformers_does(
    name, checkpoint, backend, pixels, device, monkeypatch
):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    expected = answers(MODELS[name].make().to(device), name, pixels)
    model = CLASSES[name].from_pretrained(checkpoint, backend=backend).eval().to(device)
    for answer, wanted in zip(answers(model, name, pixels), expected, strict=True):
        torch.testing.assert_close(answer, wanted, rtol=1e-4, atol=1e-4)


def test_model_is_patched_and_holds_its_configuration(name, checkpoint):
    model = CLASSES[name].from_pretrained(str(checkpoint), backend=Backend.EAGER)
    modules = [m for m in model.modules() if getattr(m, "backend", None) is Backend.EAGER]
    assert len(modules) == MODELS[name].layers + 1  # and the model itself
    assert model.config.num_queries == model.model.config.num_queries
    original = MODELS[name].make().state_dict()
    assert list(model.model.state_dict()) == list(original)


def test_loading_hands_options_on(name, checkpoint):
    model = CLASSES[name].from_pretrained(checkpoint, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_no_such_checkpoint_is_an_error(name, tmp_path):
    with pytest.raises(OSError):
        CLASSES[name].from_pretrained(tmp_path)


def test_detr_takes_a_pixel_mask(pixels, device):
    theirs = MODELS["deformable_detr"].make().to(device)
    mask = torch.ones(2, 96, 64, dtype=torch.long, device=device)
    mask[:, :, 40:] = 0
    expected = answers(theirs, "deformable_detr", pixels, mask)
    model = DeformableDETR(theirs)
    for answer, wanted in zip(
        answers(model, "deformable_detr", pixels, mask), expected, strict=True
    ):
        torch.testing.assert_close(answer, wanted, rtol=1e-4, atol=1e-4)


def test_mask_predictor_equals_transformers_and_has_no_einsum(device):
    theirs = MODELS["mask2former"].make().to(device).model.transformer_module.decoder.mask_predictor
    features = torch.randn(6, 2, 32, device=device)
    pixels = torch.randn(2, 32, 12, 10, device=device)
    with torch.no_grad():
        logits, barred = theirs(features, pixels, (6, 5))
        theirs.__class__ = overrides.PatchedMask2FormerMaskPredictor
        own_logits, own_barred = theirs(features, pixels, (6, 5))
    torch.testing.assert_close(own_logits, logits, rtol=1e-5, atol=1e-5)
    assert own_barred.shape == barred.shape
    assert (own_barred != barred).sum() == 0
    program = torch.export.export(theirs, (features, pixels, (6, 5)))
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert not [text for text in names if "einsum" in text]


def test_model_trains_with_transformers_own_matcher(device):
    pytest.importorskip("scipy")
    model = Mask2Former(MODELS["mask2former"].make()).to(device).train()
    assert model.pixel_decoder is model.model.model.pixel_level_module.decoder
    masks = [torch.zeros(1, 64, 64, device=device) for _ in range(2)]
    for index, mask in enumerate(masks):
        mask[:, 8 * index : 32] = 1
    labels = [torch.tensor([index], device=device) for index in range(2)]
    output = model(torch.randn(2, 3, 64, 64, device=device), mask_labels=masks, class_labels=labels)
    output.loss.backward()
    offsets = [p for k, p in model.named_parameters() if "sampling_offsets.weight" in k]
    assert offsets and all(p.grad.abs().sum() > 0 for p in offsets)


def test_overrides_import_without_the_models():
    """Importing an override alone loads neither whole model's wrapper of the other family."""
    program = (
        "import sys; from deform_ops.models.deformable_detr import "
        "PatchedMultiScaleDeformableAttention; "
        "print('deform_ops.models.mask2former' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr
