"""What deformops' documentation shows, with this package's names: its users' code keeps working.

Renamed: the package, `Backend.JIT` for `TRITON`, the namespace `deform`. A checkpoint of random
numbers stands for the hub's, and the CPU for a GPU that isn't there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch


@pytest.fixture
def own_backend(device):
    from deform_ops.registry import Backend

    return Backend.CUDA if device.type == "cuda" else Backend.CPU


@pytest.fixture
def pyramid(device) -> tuple[torch.Tensor, torch.Tensor]:
    shapes = torch.tensor([[64, 64], [32, 32], [16, 16], [8, 8]]).to(device)
    starts = torch.tensor([0, 4096, 5120, 5376]).to(device)
    return shapes, starts


@pytest.fixture
def small(device) -> tuple[torch.Tensor, ...]:
    value = torch.randn(1, 80, 4, 8)
    shapes = torch.tensor([[8, 8], [4, 4]])
    starts = torch.tensor([0, 64])
    locations = torch.rand(1, 10, 4, 2, 4, 2)
    weights = torch.rand(1, 10, 4, 2 * 4)
    return tuple(tensor.to(device) for tensor in (value, shapes, starts, locations, weights))


@pytest.fixture(scope="module")
def mask2former_checkpoint(tmp_path_factory) -> Path:
    pytest.importorskip("transformers")
    from hugging_face_models import mask2former

    path = tmp_path_factory.mktemp("mask2former")
    mask2former().save_pretrained(path)
    return path


def test_backends_are_named():
    from deform_ops.registry import Backend

    assert set(Backend) == {Backend.CUDA, Backend.JIT, Backend.CPU, Backend.EAGER}


def test_kernels_load_before_the_first_call(own_backend):
    from deform_ops.registry import msda

    assert msda.load(own_backend).backend is own_backend


@pytest.mark.parametrize("named", [False, True])
def test_multi_scale_layer(named, own_backend, pyramid, device):
    from deform_ops.nn import MultiScaleDeformAttn2d

    layer = MultiScaleDeformAttn2d(
        dim=256, num_heads=8, num_levels=4, num_points=4, backend=own_backend if named else None
    ).to(device)
    query = torch.randn(1, 300, 256).to(device)
    reference = torch.rand(1, 300, 4, 2).to(device)
    value = torch.randn(1, 5440, 256).to(device)
    out = layer(query, reference, value, *pyramid)
    assert out.shape == (1, 300, 256)


def test_multi_scale_function(pyramid, device):
    from deform_ops.registry import msda

    value = torch.randn(1, 5440, 8, 32).to(device)
    locations = torch.rand(1, 300, 8, 4, 4, 2).to(device)
    weights = torch.rand(1, 300, 8, 4 * 4).to(device)
    out = msda(value, *pyramid, locations, weights, method="softmax")
    assert out.shape == (1, 300, 256)


def test_single_scale_layer(device):
    from deform_ops.nn import DeformSample2d

    layer = DeformSample2d(dim=64, kernel_size=3, groups=4).to(device)
    x = torch.randn(1, 64, 32, 32).to(device)
    assert layer(x).shape == (1, 64, 32, 32)


def test_convolution_layer_and_torchvisions_function(device):
    from deform_ops.integrations.torchvision import deform_conv2d
    from deform_ops.nn import DeformConv2d

    layer = DeformConv2d(64, 64, kernel_size=3, padding=1).to(device)
    x = torch.randn(1, 64, 32, 32).to(device)
    offset = torch.randn(1, 2 * 9, 32, 32).to(device)
    mask = torch.rand(1, 9, 32, 32).to(device)
    y = layer(x, offset, mask)
    assert y.shape == (1, 64, 32, 32)
    same = deform_conv2d(x, offset, layer.weight, layer.bias, padding=layer.padding, mask=mask)
    assert torch.equal(same, y)


def test_policy_is_importable_and_reports(small, device, capsys):
    from deform_ops.registry import msda
    from deform_ops.registry.msda import select_backend

    assert callable(select_backend)
    print(msda.resolve(*small))
    assert capsys.readouterr().out.splitlines()[0] == f"msda: {device.type}"


def test_eager_backend_is_callable_by_name(small):
    from deform_ops.registry import Backend, msda

    out = msda(*small, method="softmax", backend=Backend.EAGER)
    torch.testing.assert_close(out, torch.ops.deform.msda_softmax(*small), rtol=1e-5, atol=1e-5)


def test_references_are_callable_and_no_backend(small):
    from deform_ops.registry import Backend, attn, conv, msda

    torch.testing.assert_close(msda.reference(*small), msda(*small), rtol=1e-5, atol=1e-5)
    assert callable(attn.reference) and callable(conv.reference)
    assert "reference" not in set(Backend)


def test_overrides_and_integrations_import_under_their_names():
    pytest.importorskip("transformers")
    from deform_ops.integrations.transformers import MultiScaleDeformableAttention
    from deform_ops.integrations.transformers import patch as patch_transformers
    from deform_ops.models.deformable_detr import PatchedMultiScaleDeformableAttention
    from deform_ops.models.mask2former import (
        DEFAULT_CHECKPOINT,
        PatchedMask2FormerHungarianMatcher,
        PatchedMask2FormerLoss,
        PatchedMask2FormerMaskPredictor,
        PatchedMask2FormerPixelDecoderEncoderMultiscaleDeformableAttention,
    )

    assert PatchedMultiScaleDeformableAttention is MultiScaleDeformableAttention
    assert callable(patch_transformers)
    assert DEFAULT_CHECKPOINT == "facebook/mask2former-swin-base-coco-instance"
    for kind in (
        PatchedMask2FormerHungarianMatcher,
        PatchedMask2FormerLoss,
        PatchedMask2FormerMaskPredictor,
        PatchedMask2FormerPixelDecoderEncoderMultiscaleDeformableAttention,
    ):
        assert issubclass(kind, torch.nn.Module)


def test_mmcv_integration_imports_under_its_name():
    pytest.importorskip("mmcv", reason="mmcv-lite isn't installed")
    from deform_ops.integrations.mmcv import MultiScaleDeformableAttention as MMCVAttention
    from deform_ops.integrations.mmcv import patch

    assert issubclass(MMCVAttention, torch.nn.Module) and callable(patch)


def test_whole_model_runs_from_a_checkpoint(mask2former_checkpoint, device):
    from deform_ops.models.mask2former import Mask2Former

    model = Mask2Former.from_pretrained(mask2former_checkpoint).eval().to(device)
    pixel_values = torch.randn(1, 3, 128, 128).to(device)
    with torch.no_grad():
        outputs = model(pixel_values)
    assert outputs.class_queries_logits.shape == (1, 6, 4)
    assert outputs.masks_queries_logits.shape == (1, 6, 32, 32)


def test_model_compiles_in_one_graph(mask2former_checkpoint, device):
    from deform_ops.models.mask2former import Mask2Former

    model = Mask2Former.from_pretrained(mask2former_checkpoint).eval().to(device)
    image = torch.randn(1, 3, 64, 64).to(device)
    torch.compiler.reset()
    with torch.no_grad():
        outputs = torch.compile(model, fullgraph=True, backend="aot_eager")(image)
        expected = model(image)
    for key in ("class_queries_logits", "masks_queries_logits"):
        torch.testing.assert_close(outputs[key], expected[key], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_package_on_a_named_backend_is_served(
    mask2former_checkpoint, own_backend, device, tmp_path
):
    from deform_ops.models import Mask2Former
    from deform_ops.registry import msda

    model = Mask2Former.from_pretrained(mask2former_checkpoint, backend=own_backend)
    model = model.to(device).eval()
    image = torch.randn(2, 3, 96, 96, device=device)
    batch = torch.export.Dim("batch", min=1, max=16)
    with torch.no_grad():
        shapes = {"pixel_values": {0: batch}}
        program = torch.export.export(model, (image,), dynamic_shapes=shapes)
        expected = model(image)
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count(f"deform_{own_backend}.msda.default") == 2
    path = str(tmp_path / "mask2former.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path)

    # In the process that serves the package:
    msda.load(own_backend)
    served = torch._inductor.aoti_load_package(path)
    for key, answer in served(image).items():
        torch.testing.assert_close(answer, expected[key], rtol=1e-3, atol=1e-3)
