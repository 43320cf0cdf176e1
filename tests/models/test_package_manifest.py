"""package.json under its schema, and a folder under package.json."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
from deform_models.errors import PackagingError
from deform_models.package import cli, manifest
from deform_models.schema import package_schema

SHA = "0" * 64
ARTIFACT = "model.cpu-avx2.float32.pt2"


def example() -> dict:
    """A manifest that holds; `files` is what an artifact of four bytes gives."""
    return {
        "schema_version": 1,
        "name": "tiny",
        "architecture": "mask2former",
        "tasks": ["INSTANCE", "SEMANTIC", "PANOPTIC"],
        "labels": [
            {"id": 0, "category_id": 9, "name": "disk", "is_thing": True, "color": [1, 2, 3]},
            {"id": 2, "category_id": 4, "name": "grass", "is_thing": False, "color": [4, 5, 6]},
        ],
        "preprocess": {
            "mode": "exact",
            "height": 64,
            "width": 96,
            "resample": "bilinear",
            "antialias": True,
            "rescale_factor": 1 / 255,
            "mean": [0.5, 0.5, 0.5],
            "std": [0.2, 0.2, 0.2],
            "pixel_mask": False,
        },
        "postprocess": {
            "compat": "DEFAULT",
            "score_threshold": 0.5,
            "mask_threshold": 0.5,
            "overlap_mask_area_threshold": 0.8,
            "max_results": 100,
            "fuse_label_ids": [2],
        },
        "num_queries": 8,
        "num_classes": 3,
        "max_batch": 8,
        "inputs": [{"name": "pixel_values", "dtype": "float32", "shape": [-1, 3, 64, 96]}],
        "outputs": [
            {"name": "class_queries_logits", "dtype": "float32", "shape": [-1, 8, 4]},
            {"name": "masks_queries_logits", "dtype": "float32", "shape": [-1, 8, 16, 24]},
        ],
        "artifacts": [
            {
                "file": ARTIFACT,
                "device": "cpu",
                "isa": "avx2",
                "sm": None,
                "dtype": "float32",
                "height": 64,
                "width": 96,
                "min_batch": 1,
                "max_batch": 8,
                "torch": "2.11.0",
                "ops": ["deform::msda"],
                "compile_seconds": 1.5,
                "bytes": 4,
            }
        ],
        "files": {
            ARTIFACT: {
                "sha256": "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7",
                "bytes": 4,
            }
        },
        "source": {"architecture_config_sha256": SHA, "weights_sha256": SHA},
        "parity": [
            {
                "artifact": ARTIFACT,
                "batch": [1, 2, 8],
                "max_abs_difference": {"class_queries_logits": 1e-6},
                "tolerance": 1e-4,
            }
        ],
    }


def changed(path: str, value) -> dict:
    """The example with one field set, or removed where `value` is `...`."""
    result = copy.deepcopy(example())
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = result
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return result


@pytest.fixture
def package(tmp_path):
    (tmp_path / ARTIFACT).write_bytes(b"data")
    manifest.write_manifest(example(), tmp_path)
    return tmp_path


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(package_schema())


def test_a_sound_manifest_has_no_faults():
    assert manifest.faults_of(example()) == []
    assert manifest.faults_of({**example(), "description": "small"}) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 2),
        ("name", "tiny.image"),
        ("name", ""),
        ("architecture", "detr"),
        ("tasks", []),
        ("tasks", ["DETECTION"]),
        ("labels/0/color", [0, 0, 256]),
        ("labels/0/is_thing", ...),
        ("labels/0/extra", 1),
        ("preprocess/mode", "crop"),
        ("preprocess/height", 0),
        ("preprocess/std", [0.2, 0.2, 0]),
        ("preprocess/pixel_mask", True),
        ("postprocess/score_threshold", 1.5),
        ("postprocess/compat", "hf"),
        ("inputs/0/shape", [8, 3, 64, 96]),
        ("inputs/0/dtype", "float16"),
        ("artifacts", []),
        ("artifacts/0/file", "../model.pt2"),
        ("artifacts/0/file", ".hidden"),
        ("artifacts/0/isa", None),
        ("artifacts/0/sm", "90"),
        ("artifacts/0/device", "cuda"),
        ("artifacts/0/ops", ["deform_cpu::msda"]),
        (f"files/{ARTIFACT}/sha256", "00"),
        ("source/weights_sha256", ...),
        ("parity", []),
        ("unknown", 1),
        *((key, ...) for key in example()),
    ],
)
def test_the_schema_refuses(path, value):
    faults = manifest.faults_of(changed(path, value))
    assert faults
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), package_schema())


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("labels/1/id", 0, "labels: ids have to ascend"),
        ("labels/1/category_id", 9, "category_id is there twice"),
        ("num_classes", 2, "labels: id 2 with num_classes 2"),
        ("labels/0/is_thing", None, "PANOPTIC, and is_thing of label 0"),
        ("postprocess/fuse_label_ids", [1], "fuse_label_ids: 1 is no label"),
        ("preprocess/height", 32, "inputs[0].shape: has to end in [32, 96]"),
        ("artifacts/0/width", 64, "artifacts[0]: height and width"),
        ("artifacts/0/min_batch", 9, "min_batch is above max_batch"),
        ("max_batch", 16, "artifacts[0].max_batch: is below"),
        ("artifacts/0/file", "other.pt2", "artifacts[0].file: isn't in files"),
        ("artifacts/0/bytes", 5, "artifacts[0].bytes: differs"),
        ("parity/0/artifact", "other.pt2", "parity: has to hold every artifact"),
    ],
)
def test_fields_have_to_agree_with_each_other(path, value, words):
    value = changed(path, value)
    jsonschema.validate(value, package_schema())  # a schema can't tell
    assert any(words in fault for fault in manifest.faults_of(value))


def test_a_fault_is_named_by_its_path():
    (fault,) = manifest.faults_of(changed("labels/1/color", [0, 0, 999]))
    assert fault.startswith("labels[1].color[2]: 999")


def test_a_package_that_holds_passes(package, capsys):
    assert manifest.verify_package(package)["name"] == "tiny"
    assert cli.main(["verify", str(package)]) == 0
    assert ARTIFACT in capsys.readouterr().out


def test_one_changed_byte_is_noticed(package, capsys):
    (package / ARTIFACT).write_bytes(b"dATa")
    assert cli.main(["verify", str(package)]) == 1
    assert f"{ARTIFACT} was changed" in capsys.readouterr().err


def test_another_size_is_noticed(package):
    (package / ARTIFACT).write_bytes(b"dat")
    with pytest.raises(PackagingError, match="has 3 bytes, listed are 4"):
        manifest.verify_package(package)


def test_a_missing_and_an_extra_file_are_noticed(package):
    (package / ARTIFACT).rename(package / "other.pt2")
    with pytest.raises(PackagingError) as caught:
        manifest.verify_package(package)
    assert f"{ARTIFACT} is missing" in str(caught.value)
    assert "other.pt2 isn't listed" in str(caught.value)


def test_an_edited_manifest_is_noticed(package):
    path = package / "package.json"
    path.write_text(json.dumps(changed("max_batch", 64)))
    with pytest.raises(PackagingError, match="max_batch"):
        manifest.verify_package(package)


def test_what_is_no_package_is_named(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert cli.main(["inspect", str(tmp_path)]) == 1
    assert "package.json is missing" in capsys.readouterr().err
    (tmp_path / "package.json").write_text("{")
    assert cli.main(["inspect", str(tmp_path)]) == 1
    assert "not JSON" in capsys.readouterr().err


def test_inspect_shows_what_a_person_asks_for(package, capsys):
    assert cli.main(["inspect", str(package)]) == 0
    shown = capsys.readouterr().out
    for words in ("2 (1 things, 1 stuff): disk, grass", "exact 64×96", "deform::msda", "[B, 8, 4]"):
        assert words in shown


def test_a_manifest_with_faults_is_not_written(tmp_path):
    (tmp_path / ARTIFACT).write_bytes(b"data")
    with pytest.raises(PackagingError, match="compat"):
        manifest.write_manifest(changed("postprocess/compat", "hf"), tmp_path)
    assert not (tmp_path / "package.json").exists()


def test_without_jsonschema_fields_are_still_checked_against_each_other(monkeypatch):
    monkeypatch.setattr(manifest, "schema_checked", lambda: False)
    assert manifest.faults_of(example()) == []
    assert manifest.faults_of(changed("num_classes", 2))
    assert manifest.faults_of(changed("labels", ...)) == ["incomplete (KeyError: 'labels')"]
