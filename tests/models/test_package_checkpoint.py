"""Which folders can be packaged, and what those that can't are told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from deform_models.errors import PackagingError
from deform_models.package.checkpoint import load_model, read_checkpoint
from package_checkpoints import deformable_detr, edit_json, mask2former, randomise, save
from safetensors.torch import load_file, save_file
from transformers import (
    DeformableDetrConfig,
    DeformableDetrForObjectDetection,
    DeformableDetrImageProcessor,
)


def refusal(folder: Path) -> str:
    with pytest.raises(PackagingError) as caught:
        load_model(read_checkpoint(folder))
    return str(caught.value)


def edit_weights(folder: Path, edit) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def test_a_sound_folder_loads_with_the_weights_it_holds(mask2former_folder, detr_folder):
    for folder, model in ((mask2former_folder, mask2former()), (detr_folder, deformable_detr())):
        loaded = load_model(read_checkpoint(folder))
        assert not loaded.training
        state = loaded.state_dict()
        assert state.keys() == model.state_dict().keys()
        for name, tensor in model.state_dict().items():
            assert torch.equal(state[name], tensor), name


def test_a_missing_folder_is_named(tmp_path):
    assert "no folder" in refusal(tmp_path / "nowhere")
    assert "nowhere" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "preprocessor_config.json"])
def test_a_missing_file_is_named(own_mask2former, name):
    (own_mask2former / name).unlink()
    assert f"{name} is missing" in refusal(own_mask2former)


def test_pickled_and_sharded_weights_are_told_from_missing_ones(own_mask2former):
    weights = own_mask2former / "model.safetensors"
    weights.rename(own_mask2former / "pytorch_model.bin")
    assert "pytorch_model.bin is not read" in refusal(own_mask2former)
    (own_mask2former / "model.safetensors.index.json").write_text("{}")
    assert "shards" in refusal(own_mask2former)


def test_another_kind_of_model_is_named(own_mask2former):
    edit_json(own_mask2former / "config.json", model_type="maskformer")
    message = refusal(own_mask2former)
    assert '"maskformer"' in message and "mask2former, deformable_detr" in message
    edit_json(own_mask2former / "config.json", model_type=None)
    assert "model_type is null" in refusal(own_mask2former)


def test_a_model_without_its_heads_is_refused(own_mask2former):
    edit_json(own_mask2former / "config.json", architectures=["Mask2FormerModel"])
    assert "Mask2FormerForUniversalSegmentation" in refusal(own_mask2former)


def test_a_config_that_is_not_json_or_not_valid_is_named(own_mask2former):
    path = own_mask2former / "config.json"
    good = path.read_text()
    path.write_text(good[: len(good) // 2])
    assert "config.json: not JSON" in refusal(own_mask2former)
    path.write_text(good)
    edit_json(path, hidden_dim="wide")
    assert "hidden_dim" in refusal(own_mask2former)


def test_a_missing_tensor_is_named(own_mask2former):
    edit_weights(own_mask2former, lambda tensors: tensors.pop("class_predictor.bias"))
    assert refusal(own_mask2former) == ("model.safetensors: tensors missing: class_predictor.bias")


def test_a_tensor_of_no_use_is_named(own_detr):
    edit_weights(own_detr, lambda tensors: tensors.update(extra=torch.zeros(2)))
    assert refusal(own_detr) == "model.safetensors: tensors not of this model: extra"


def test_a_tensor_of_another_shape_is_named_with_both_shapes(own_mask2former):
    edit_weights(
        own_mask2former, lambda tensors: tensors.update({"class_predictor.bias": torch.zeros(9)})
    )
    message = refusal(own_mask2former)
    assert "class_predictor.bias is [9], config.json wants [4]" in message


def test_many_missing_tensors_are_counted_not_listed(own_mask2former):
    def drop(tensors):
        for name in [n for n in tensors if "mask_predictor" in n or "layernorm" in n]:
            del tensors[name]

    edit_weights(own_mask2former, drop)
    message = refusal(own_mask2former)
    assert " more" in message and message.count(",") < 8


def test_half_a_weights_file_is_refused(own_mask2former):
    path = own_mask2former / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "model.safetensors: can't be read" in refusal(own_mask2former)


def test_weights_that_are_no_numbers_are_named(own_mask2former):
    edit_weights(own_mask2former, lambda t: t["class_predictor.bias"].fill_(float("nan")))
    assert "class_predictor.bias holds NaN" in refusal(own_mask2former)


def test_half_precision_weights_are_computed_with_in_float32(own_mask2former):
    def halve(tensors):
        for name, tensor in tensors.items():
            tensors[name] = tensor.half() if tensor.is_floating_point() else tensor

    edit_weights(own_mask2former, halve)
    edit_json(own_mask2former / "config.json", dtype="float16")
    model = load_model(read_checkpoint(own_mask2former))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    stored = load_file(own_mask2former / "model.safetensors")["class_predictor.bias"]
    assert torch.equal(model.class_predictor.bias, stored.float())


def test_projections_that_no_checkpoint_stores_are_refused(own_mask2former):
    edit_json(own_mask2former / "config.json", enforce_input_projection=True)
    assert "enforce_input_projection" in refusal(own_mask2former)
    edit_json(own_mask2former / "config.json", enforce_input_projection=False, feature_size=64)
    assert "feature_size is 64 and hidden_dim is 32" in refusal(own_mask2former)


def test_a_backbone_on_a_model_hub_is_refused_without_asking_the_hub(own_mask2former):
    path = own_mask2former / "config.json"
    edit_json(path, backbone_config=None, backbone="microsoft/resnet-18", use_timm_backbone=False)
    assert "microsoft/resnet-18" in refusal(own_mask2former)


def test_a_published_timm_layout_loads_without_a_network(tmp_path):
    """Key names, bookkeeping tensors and the pretrained flag of the first published models."""
    config = DeformableDetrConfig(
        backbone_config={
            "model_type": "timm_backbone",
            "backbone": "test_resnet",
            "out_indices": [2, 3, 4],
            "use_pretrained_backbone": False,
        },
        **{
            key: getattr(deformable_detr().config, key)
            for key in ("d_model", "encoder_layers", "decoder_layers", "num_queries")
        },
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_labels=5,
    )
    model = DeformableDetrForObjectDetection(config)
    randomise(model)
    folder = save(model, DeformableDetrImageProcessor(), tmp_path / "published")
    wanted = {k: v.clone() for k, v in model.state_dict().items()}

    stored = load_file(folder / "model.safetensors")
    old = {}
    for name, tensor in stored.items():
        if name.startswith("model.backbone.model."):
            name = name.replace("model.backbone.model.", "model.backbone.conv_encoder.model.")
        old[name] = tensor
        if name.endswith("running_var"):
            old[name.replace("running_var", "num_batches_tracked")] = torch.tensor(7)
    assert any("conv_encoder" in name for name in old)
    save_file(old, folder / "model.safetensors")
    edit_json(
        folder / "config.json",
        backbone_config=None,
        backbone="test_resnet",
        use_timm_backbone=True,
        use_pretrained_backbone=True,
    )
    loaded = load_model(read_checkpoint(folder)).state_dict()
    assert loaded.keys() == wanted.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in wanted.items())


def test_checksums_tell_what_changed(mask2former_folder, tmp_path):
    folder = Path(shutil.copytree(mask2former_folder, tmp_path / "copy"))
    before = read_checkpoint(folder)
    edit_json(folder / "preprocessor_config.json", image_mean=[0.0, 0.0, 0.0])
    after = read_checkpoint(folder)
    assert after.preprocessor_sha256 != before.preprocessor_sha256
    assert after.config_sha256 == before.config_sha256
    assert after.weights_sha256 == before.weights_sha256
