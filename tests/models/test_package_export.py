"""Exported programs: the operator stays one node, any batch runs, the numbers are the model's."""

from __future__ import annotations

import pytest
import torch
from deform_models.errors import PackagingError
from deform_models.package import exporting, operators
from deform_models.package.checkpoint import load_model, read_checkpoint
from deform_models.package.pictures import network_inputs
from deform_models.package.target import Target
from package_checkpoints import save_deformable_detr
from torch._subclasses.fake_tensor import FakeTensorMode

CPU = Target("cpu", "float32", "avx2", None)
MEAN_STD = {"rescale_factor": 1 / 255, "mean": [0.45] * 3, "std": [0.22] * 3}


@pytest.fixture(scope="module", autouse=True)
def deform_operators():
    operators.load_operators()


def exported(folder, size=(64, 64), max_batch=5):
    checkpoint = read_checkpoint(folder)
    model = load_model(checkpoint)
    program = exporting.export_network(
        checkpoint, model, CPU, height=size[0], width=size[1], max_batch=max_batch
    )
    return checkpoint, model, program


def pictures(checkpoint, size, count):
    mask = checkpoint.recipe.takes_pixel_mask
    section = {"mode": "fit" if mask else "exact", "height": size[0], "width": size[1]}
    return network_inputs({**section, **MEAN_STD, "pixel_mask": mask}, count, seed=3)


def assert_program_is_the_model(folder, size, tolerance=2e-5):
    checkpoint, model, result = exported(folder, size)
    network = checkpoint.recipe.network(model)
    inputs = pictures(checkpoint, size, 5)
    for batch in (1, 3, 5):
        shown = tuple(tensor[:batch] for tensor in inputs)
        with torch.no_grad():
            found = result.program.module()(*shown)
            with operators.no_public_operators():  # the model itself stays as it was
                wanted = network(*shown)
        for left, right in zip(found, wanted, strict=True):
            # Pictures must matter, or nothing is being compared.
            assert batch == 1 or (right[0] - right[1]).abs().max() > 1e-2
            assert torch.allclose(left, right, atol=tolerance * max(1, float(right.abs().max())))
    return result


def test_mask2former_calls_one_operator_a_layer_and_samples_no_other_way(mask2former_folder):
    result = assert_program_is_the_model(mask2former_folder, (64, 64))
    assert operators.operator_calls(result.program) == {"deform::msda": 2}
    assert result.operators == ["deform::msda"]
    targets = {str(node.target) for node in result.program.graph.nodes}
    assert not any("grid_sampler" in target or "rand" in target for target in targets)
    assert result.inputs == [{"name": "pixel_values", "dtype": "float32", "shape": [-1, 3, 64, 64]}]
    assert result.outputs == [
        {"name": "class_queries_logits", "dtype": "float32", "shape": [-1, 8, 4]},
        {"name": "masks_queries_logits", "dtype": "float32", "shape": [-1, 8, 16, 16]},
    ]


def test_deformable_detr_takes_a_pixel_mask_and_honours_it(detr_folder):
    # Sides that no stride divides: masks have to shrink as the model shrinks them.
    result = assert_program_is_the_model(detr_folder, (75, 109))
    assert operators.operator_calls(result.program) == {"deform::msda": 4}
    assert [tensor["name"] for tensor in result.inputs] == ["pixel_values", "pixel_mask"]
    assert result.inputs[1] == {"name": "pixel_mask", "dtype": "int64", "shape": [-1, 75, 109]}
    assert [tensor["shape"] for tensor in result.outputs] == [[-1, 9, 5], [-1, 9, 4]]
    run = result.program.module()
    pixels = torch.randn(1, 3, 75, 109, generator=torch.Generator().manual_seed(0))
    whole = torch.ones(1, 75, 109, dtype=torch.int64)
    half = whole.clone()
    half[:, :, 60:] = 0
    assert (run(pixels, whole)[1] - run(pixels, half)[1]).abs().max() > 1e-3


def test_a_picture_too_small_for_its_proposals_is_refused(tmp_path):
    stages = {"two_stage": True, "with_box_refine": True, "two_stage_num_proposals": 500}
    folder = save_deformable_detr(tmp_path / "detr", **stages)
    with pytest.raises(PackagingError, match="can't take a batch of 1 to 5 at 96×96"):
        exported(folder, (96, 96))


@pytest.mark.parametrize(
    "variant",
    [
        {"two_stage": True, "with_box_refine": True, "two_stage_num_proposals": 7},
        {"num_feature_levels": 1},
    ],
    ids=["two_stage", "single_scale"],
)
def test_every_kind_of_deformable_detr_exports(tmp_path, variant):
    folder = save_deformable_detr(tmp_path / "detr", **variant)
    _, _, result = exported(folder, (96, 96))
    assert operators.operator_calls(result.program) == {"deform::msda": 4}
    assert result.outputs[0]["shape"][1] == variant.get("two_stage_num_proposals", 9)


def test_deformable_detr_keeps_a_dynamic_batch_on_cuda_in_half_precision(detr_folder):
    """Traced with CUDA's rules on tensors that hold no numbers, so no GPU is needed."""
    checkpoint = read_checkpoint(detr_folder)
    model = load_model(checkpoint)
    operators.put_in_operators(model)
    network = checkpoint.recipe.network(model)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in network.modules():
            for name, tensor in list(module._parameters.items()):
                if tensor is not None:
                    fake = torch.empty(tensor.shape, dtype=torch.bfloat16, device="cuda")
                    module._parameters[name] = torch.nn.Parameter(fake, requires_grad=False)
            for name, tensor in list(module._buffers.items()):
                fake = torch.empty(tensor.shape, dtype=torch.bfloat16, device="cuda")
                module._buffers[name] = fake
        example = (
            torch.empty(2, 3, 96, 96, device="cuda"),
            torch.ones(2, 96, 96, dtype=torch.int64, device="cuda"),
        )
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.no_grad(), checkpoint.recipe.tracing():
        program = torch.export.export(network, example, dynamic_shapes=({0: batch}, {0: batch}))
    (bounds,) = program.range_constraints.values()
    assert (bounds.lower, bounds.upper) == (1, 8)
    logits, boxes = (node.meta["val"] for node in program.graph.output_node().args[0])
    assert not isinstance(logits.shape[0], int) and logits.dtype == boxes.dtype == torch.float32


def test_a_reference_that_calls_a_public_operator_is_noticed(mask2former_folder):
    checkpoint = read_checkpoint(mask2former_folder)
    model = load_model(checkpoint)
    operators.put_in_operators(model)
    with pytest.raises(AssertionError, match="msda"):  # noqa: SIM117
        with torch.no_grad(), operators.no_public_operators():
            checkpoint.recipe.network(model)(torch.zeros(1, 3, 64, 64))


def test_a_batch_of_one_only_is_possible(mask2former_folder):
    _, _, result = exported(mask2former_folder, max_batch=1)
    assert result.outputs[0]["shape"][0] == -1
    assert result.program.module()(torch.zeros(1, 3, 64, 64))[0].shape == (1, 8, 4)


def test_a_layer_that_kept_its_own_sampling_is_refused(mask2former_folder, monkeypatch):
    def only_the_first(model):
        from deform_ops.integrations.transformers import patch

        encoder = model.get_submodule("model.pixel_level_module.decoder.encoder")
        patch(encoder.layers[0])

    monkeypatch.setattr(operators, "put_in_operators", only_the_first)
    with pytest.raises(PackagingError, match="grid_sampler"):
        exported(mask2former_folder)


def test_operators_that_no_server_has_are_refused():
    with pytest.raises(PackagingError, match="torchvision::nms, which a server"):
        operators.check_operator_calls({"deform::msda": 2, "torchvision::nms": 1}, 3, "export")
    with pytest.raises(PackagingError, match="deform_cpu::msda"):
        operators.check_operator_calls({"deform_cpu::msda": 2}, 2, "export")
    with pytest.raises(PackagingError, match="2 times where the network has 3"):
        operators.check_operator_calls({"deform::msda": 2}, 3, "export")
