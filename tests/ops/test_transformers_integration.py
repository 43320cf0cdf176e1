"""Hugging Face models whose deformable attention runs as one operator."""

from __future__ import annotations

import copy
import importlib

import pytest
import torch
from deform_ops.errors import NothingPatchedError
from deform_ops.registry import Backend
from hugging_face_models import MODELS, Outputs
from msda_operands import Case, draw

pytest.importorskip("transformers")
integration = importlib.import_module("deform_ops.integrations.transformers")

LAYERS = {name: model.layers for name, model in MODELS.items()}


@pytest.fixture(params=MODELS)
def name(request) -> str:
    return request.param


@pytest.fixture
def model(name, device, monkeypatch) -> Outputs:
    # TensorFloat-32 would blow the last bit of one layer up to the tenth of the next.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    made = MODELS[name].make()
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            # Fresh offsets lie on whole pixels, where bilinear sampling has no derivative.
            if key.endswith("sampling_offsets.bias"):
                parameter += torch.rand_like(parameter)
    return Outputs(made.to(device), MODELS[name].outputs)


@pytest.fixture
def pixels(device) -> torch.Tensor:
    return torch.randn(3, 3, 96, 64, generator=torch.Generator().manual_seed(1)).to(device)


def test_patched_model_answers_alike(model, name, pixels):
    keys = list(model.state_dict())
    with torch.no_grad():
        expected = model(pixels)
        assert integration.patch(model) == LAYERS[name]
        answers = model(pixels)
    for answer, wanted in zip(answers, expected, strict=True):
        torch.testing.assert_close(answer, wanted, rtol=1e-4, atol=1e-4)
    assert list(model.state_dict()) == keys


def test_patched_model_calls_the_operator(model, name, pixels):
    integration.patch(model)
    with torch.no_grad(), torch.profiler.profile() as profile:
        model(pixels)
    calls = {event.key: event.count for event in profile.key_averages()}
    assert calls.get(f"deform_{pixels.device.type}::msda") == LAYERS[name]
    assert "aten::grid_sampler_2d" not in calls


def test_only_the_given_model_changes(model, name, pixels):
    other = copy.deepcopy(model)
    integration.patch(model)
    with torch.no_grad(), torch.profiler.profile() as profile:
        other(pixels)
    assert not [event.key for event in profile.key_averages() if event.key.startswith("deform")]


def test_patching_twice_or_copying_changes_nothing_more(model, name, pixels):
    integration.patch(model)
    assert integration.patch(model) == LAYERS[name]
    with torch.no_grad():
        for answer, wanted in zip(copy.deepcopy(model)(pixels), model(pixels), strict=True):
            torch.testing.assert_close(answer, wanted, rtol=0, atol=0)


def test_patched_model_trains(model, name, pixels):
    gradients = []
    for _ in range(2):
        model.zero_grad()
        sum(answer.float().square().mean() for answer in model(pixels)).backward()
        wanted = {k: p.grad for k, p in model.named_parameters() if p.grad is not None}
        gradients.append({key: gradient.clone() for key, gradient in wanted.items()})
        integration.patch(model)
    assert gradients[0].keys() == gradients[1].keys()
    assert any("sampling_offsets" in key for key in gradients[0])
    for key, wanted in gradients[0].items():
        scale = wanted.abs().max().item()
        torch.testing.assert_close(gradients[1][key], wanted, rtol=1e-3, atol=1e-3 * scale + 1e-7)


def test_patched_model_exports_with_a_dynamic_batch(model, name, pixels):
    if name == "deformable_detr" and pixels.is_cuda:
        pytest.skip("the model's own pixel-mask resize fixes the batch on CUDA; packaging mends it")
    integration.patch(model)
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.no_grad():
        program = torch.export.export(model, (pixels,), dynamic_shapes=[{0: batch}])
        targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
        assert targets.count(torch.ops.deform.msda.default) == LAYERS[name]
        single = pixels[:1]
        for answer, wanted in zip(program.module()(single), model(single), strict=True):
            torch.testing.assert_close(answer, wanted, rtol=1e-4, atol=1e-4)


def test_patched_model_takes_the_backend_that_was_asked_for(model, name, pixels):
    with torch.no_grad():
        integration.patch(model)
        expected = model(pixels)
        assert integration.patch(model, backend=Backend.EAGER) == LAYERS[name]
        with torch.profiler.profile() as profile:
            answers = model(pixels)
    calls = {event.key: event.count for event in profile.key_averages()}
    assert not [key for key in calls if key.startswith("deform") and "eager" not in key]
    for answer, wanted in zip(answers, expected, strict=True):
        torch.testing.assert_close(answer, wanted, rtol=1e-4, atol=1e-4)


def test_patched_model_compiles_in_one_graph(model, name, pixels):
    integration.patch(model)
    graphs = []

    def keep(graph, example):
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    with torch.no_grad():
        answers = torch.compile(model, fullgraph=True, backend=keep)(pixels)
        for answer, wanted in zip(answers, model(pixels), strict=True):
            torch.testing.assert_close(answer, wanted, rtol=1e-4, atol=1e-4)
    targets = [node.target for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.deform.msda) == LAYERS[name]


# Models that hold a copy of Deformable DETR's module.
COPIES = ["grounding_dino", "lw_detr", "mm_grounding_dino", "omdet_turbo", "rt_detr"]


@pytest.mark.parametrize("family", COPIES)
def test_copies_of_the_module_are_replaced_too(family, device):
    name = f"transformers.models.{family}.modeling_{family}"
    attention = importlib.import_module(name).MultiScaleDeformableAttention
    operands = draw(Case(((5, 4), (3, 2)), heads=2, channels=4), device=device)
    weights = operands.attention_weights.unflatten(-1, (2, -1))
    table = operands.spatial_shapes, list(operands.levels), operands.level_start_index
    arguments = (operands.value, *table, operands.sampling_locations, weights, 64)
    holder = torch.nn.Sequential(attention())
    expected = holder[0](*arguments)
    assert integration.patch(holder) == 1
    torch.testing.assert_close(holder[0](*arguments), expected, rtol=1e-5, atol=1e-5)
    without_starts = (*arguments[:3], None, *arguments[4:])
    torch.testing.assert_close(holder[0](*without_starts), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, NothingPatchedError])
def test_model_without_deformable_attention_is_refused(kind):
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with pytest.raises(kind, match="Sequential has no deformable attention"):
        integration.patch(plain)
    assert integration.patch(plain, strict=False) == 0
