"""The preprocess section says what the checkpoint's own processor does, or packaging refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from deform_models.deformable_detr.recipe import DeformableDetrRecipe
from deform_models.errors import PackagingError
from deform_models.mask2former.recipe import Mask2FormerRecipe
from deform_models.package.preprocess import preprocess_section
from torchvision.transforms.v2 import functional as vision
from transformers import DeformableDetrImageProcessor, Mask2FormerImageProcessor

MASK2FORMER, DETR = Mask2FormerRecipe(), DeformableDetrRecipe()


def saved(processor, folder) -> dict:
    processor.save_pretrained(folder)
    return json.loads((folder / "preprocessor_config.json").read_text())


def treated(picture: np.ndarray, section: dict) -> torch.Tensor:
    """A picture [h, w, 3] uint8 as a server treats it in mode exact."""
    pixels = torch.from_numpy(picture).permute(2, 0, 1)
    pixels = vision.resize(pixels, [section["height"], section["width"]], antialias=True)
    mean = torch.tensor(section["mean"]).view(3, 1, 1)
    std = torch.tensor(section["std"]).view(3, 1, 1)
    return (pixels * section["rescale_factor"] - mean) / std


@pytest.mark.parametrize(
    "fields",
    [
        {"size": {"height": 64, "width": 96}},
        {"size": {"height": 65, "width": 70}, "size_divisor": 32},
        {"size": {"height": 65, "width": 70}, "size_divisor": 0},
        {"size": {"height": 65, "width": 70}},
        {"size": {"height": 64, "width": 64}, "do_rescale": False, "do_normalize": False},
        {"size": {"height": 64, "width": 64}, "do_normalize": False},
        {
            "size": {"height": 64, "width": 64},
            "rescale_factor": 1 / 127.5,
            "image_mean": [1.0, 1.0, 1.0],
            "image_std": [1.0, 1.0, 1.0],
        },
    ],
)
def test_exact_mode_gives_what_the_processor_gives(tmp_path, fields):
    processor = Mask2FormerImageProcessor(**fields)
    section = preprocess_section(saved(processor, tmp_path), MASK2FORMER)
    picture = np.random.default_rng(0).integers(0, 256, (50, 83, 3), dtype=np.uint8)
    wanted = processor(images=picture, return_tensors="pt")["pixel_values"][0].float()
    found = treated(picture, section)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, atol=1e-5)
    assert section["mode"] == "exact" and section["pixel_mask"] is False


def test_a_short_edge_needs_a_size_and_becomes_fit(tmp_path):
    raw = saved(DeformableDetrImageProcessor(), tmp_path)
    with pytest.raises(PackagingError, match="--height and --width"):
        preprocess_section(raw, DETR)
    section = preprocess_section(raw, DETR, height=800, width=1333)
    assert (section["mode"], section["height"], section["width"]) == ("fit", 800, 1333)
    assert section["pixel_mask"] is True


def test_the_first_published_size_field_is_a_short_edge():
    raw = {"feature_extractor_type": "DeformableDetrFeatureExtractor", "size": 800}
    section = preprocess_section({**raw, "max_size": 1333}, DETR, height=640, width=640)
    assert section["mode"] == "fit"
    assert section["mean"] == [0.485, 0.456, 0.406]


def test_a_padded_size_is_the_size_of_fit():
    raw = {"size": {"shortest_edge": 480, "longest_edge": 640}}
    section = preprocess_section({**raw, "pad_size": {"height": 640, "width": 608}}, DETR)
    assert (section["mode"], section["height"], section["width"]) == ("fit", 640, 608)


def test_the_options_replace_size_and_mode():
    raw = {"size": {"height": 64, "width": 64}}
    section = preprocess_section(raw, MASK2FORMER, mode="fit", height=96, width=128)
    assert (section["mode"], section["height"], section["width"]) == ("fit", 96, 128)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"do_resize": False}, "do_resize is false"),
        ({"resample": 3}, "resample is 3"),
        ({"resample": "bicubic"}, "resample"),
        ({"do_center_crop": True}, "do_center_crop"),
        ({"do_grayscale": True}, "do_grayscale"),
        ({"image_processor_type": "ViTImageProcessor"}, "ViTImageProcessor"),
        ({"data_format": "channels_last"}, "data_format"),
        ({"size": {"height": 64}}, "size is"),
        ({"size": {"height": 64, "width": "64"}}, "size.width"),
        ({"size": {"height": 0, "width": 64}}, "size.height"),
        ({"size": "large"}, "size is"),
        ({"pad_size": {"height": 128, "width": 128}}, "pad_size is 128×128"),
        ({"rescale_factor": 0}, "rescale_factor"),
        ({"rescale_factor": "1/255"}, "rescale_factor"),
        ({"image_mean": [0.5, 0.5]}, "image_mean"),
        ({"image_std": [0.5, 0.5, 0]}, "image_std"),
        ({"size_divisor": "32"}, "size_divisor"),
    ],
)
def test_what_cannot_be_stated_is_refused_by_name(changes, words):
    with pytest.raises(PackagingError) as caught:
        preprocess_section({"size": {"height": 64, "width": 64}, **changes}, MASK2FORMER)
    assert words in str(caught.value)


def test_a_step_that_is_switched_off_is_no_obstacle():
    raw = {"size": {"height": 64, "width": 64}, "do_center_crop": False, "do_reduce_labels": True}
    assert preprocess_section(raw, MASK2FORMER)["mode"] == "exact"


def test_sizes_that_the_processor_would_round_are_refused():
    with pytest.raises(PackagingError, match="--width: 100 is no multiple of size_divisor 32"):
        preprocess_section({}, MASK2FORMER, height=96, width=100)


def test_one_side_alone_is_refused():
    with pytest.raises(PackagingError, match="give both or neither"):
        preprocess_section({}, MASK2FORMER, height=96)


def test_fit_without_padding_is_refused():
    with pytest.raises(PackagingError, match="do_pad is false"):
        preprocess_section({"do_pad": False}, DETR, height=96, width=96)
