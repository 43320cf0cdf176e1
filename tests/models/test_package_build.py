"""Building a folder: whole or not at all, taken over where nothing changed.

The compile, minutes long, is a stand-in here that writes a file; test_package_compiled has the
real one.
"""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from deform_models.errors import PackagingError
from deform_models.package import build, cli, compiling, exporting, manifest, parity
from deform_models.package.build import BuildRequest, build_package
from deform_models.package.progress import Steps
from deform_models.package.target import choose_target
from package_checkpoints import edit_json

REPORT = {"batch": [1, 2, 4], "max_abs_difference": {"masks_queries_logits": 0.0}, "tolerance": 1.0}


class Stand:
    """Stands in for export, compile and parity, and counts what was asked of it."""

    def __init__(self, monkeypatch):
        self.compiled = self.measured = 0
        self.fails: BaseException | None = None
        monkeypatch.setattr(exporting, "export_network", self._export)
        monkeypatch.setattr(compiling, "compile_program", self._compile)
        monkeypatch.setattr(compiling, "check_artifact", lambda *_: None)
        monkeypatch.setattr(parity, "measure_parity", self._measure)

    def _export(self, _checkpoint, _model, _target, *, height, width, max_batch):
        pixels = {"name": "pixel_values", "dtype": "float32", "shape": [-1, 3, height, width]}
        logits = {"name": "class_queries_logits", "dtype": "float32", "shape": [-1, 8, 4]}
        masks = {"name": "masks_queries_logits", "dtype": "float32", "shape": [-1, 8, 16, 16]}
        return exporting.Exported(None, [pixels], [logits, masks], ["deform::msda"])

    def _compile(self, _exported, target, folder):
        self.compiled += 1
        path = folder / target.file_name
        path.write_bytes(b"code %d" % self.compiled)
        if self.fails:
            raise self.fails
        return compiling.Compiled(path, 1.0)

    def _measure(self, _recipe, _model, _config, artifact, *_):
        self.measured += 1
        assert artifact.exists()
        return {"artifact": artifact.name, **REPORT}


@pytest.fixture
def stand(monkeypatch):
    return Stand(monkeypatch)


@pytest.fixture
def request_(own_mask2former, tmp_path):
    return BuildRequest(
        checkpoint=own_mask2former,
        out=tmp_path / "repository" / "tiny" / "1",
        name="tiny",
        categories=own_mask2former / "categories.json",
        max_batch=4,
    )


def run(request: BuildRequest, **changes) -> str:
    return build_package(dataclasses.replace(request, **changes), Steps(7, io.StringIO()))


def everything_below(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def test_a_package_says_what_the_checkpoint_says(stand, request_):
    assert run(request_, description="small") == "built"
    package = manifest.verify_package(request_.out)
    assert package["tasks"] == ["INSTANCE", "SEMANTIC", "PANOPTIC"]
    assert [label["category_id"] for label in package["labels"]] == [90, 3, 70]
    assert package["postprocess"]["fuse_label_ids"] == [2]
    assert (package["num_queries"], package["num_classes"], package["max_batch"]) == (8, 3, 4)
    assert package["description"] == "small"
    assert package["artifacts"][0]["torch"] == "2.11.0"
    assert (request_.out.stat().st_mode & 0o777) == 0o755


def test_panoptic_needs_things_and_stuff(stand, request_):
    run(request_, categories=None)
    package = manifest.read_manifest(request_.out)
    assert package["tasks"] == ["INSTANCE", "SEMANTIC"]
    assert package["postprocess"]["fuse_label_ids"] == []


@pytest.mark.parametrize("error", [PackagingError("no"), KeyboardInterrupt(), SystemExit(143)])
def test_a_failed_build_leaves_nothing_behind(stand, request_, tmp_path, error):
    stand.fails = error
    with pytest.raises(type(error)):
        run(request_)
    assert not (tmp_path / "repository").exists()


def test_a_failed_rebuild_leaves_the_old_package(stand, request_):
    run(request_)
    before = {p: p.read_bytes() for p in request_.out.iterdir()}
    stand.fails = PackagingError("no")
    with pytest.raises(PackagingError):
        run(request_, force=True)
    assert {p: p.read_bytes() for p in request_.out.iterdir()} == before
    assert everything_below(request_.out.parent) == ["1", *(f"1/{p.name}" for p in sorted(before))]


def test_an_existing_folder_is_replaced_only_by_force(stand, request_):
    run(request_)
    with pytest.raises(PackagingError, match="--force replaces it"):
        run(request_)
    assert stand.compiled == 1
    (request_.out / "stray").write_text("old")
    assert run(request_, force=True) == "built"
    assert stand.compiled == 2
    assert not (request_.out / "stray").exists()
    assert len(list(request_.out.parent.iterdir())) == 1


def test_a_file_in_the_way_is_refused(stand, request_):
    request_.out.parent.mkdir(parents=True)
    request_.out.write_text("a file")
    with pytest.raises(PackagingError, match="is a file"):
        run(request_, force=True)
    assert request_.out.read_text() == "a file"


def test_reuse_does_nothing_while_nothing_changed(stand, request_):
    assert run(request_, reuse=True) == "built"
    stamp = (request_.out / "package.json").stat().st_mtime_ns
    assert run(request_, reuse=True) == "unchanged"
    assert (stand.compiled, stand.measured) == (1, 1)
    assert (request_.out / "package.json").stat().st_mtime_ns == stamp


def test_reuse_keeps_the_artifact_where_only_the_manifest_changes(stand, request_):
    run(request_)
    edit_json(request_.checkpoint / "preprocessor_config.json", image_mean=[0.0, 0.0, 0.0])
    assert run(request_, reuse=True) == "refreshed"
    assert (stand.compiled, stand.measured) == (1, 2)
    assert manifest.verify_package(request_.out)["preprocess"]["mean"] == [0.0, 0.0, 0.0]


def test_reuse_measures_a_new_operator_library_without_a_compile(
    stand, request_, monkeypatch, tmp_path
):
    run(request_)
    library = tmp_path / "libdeform_ops.so"
    library.write_bytes(b"another build")
    monkeypatch.setattr(build.operators, "load_operators", lambda: library)
    assert run(request_, reuse=True) == "refreshed"
    assert (stand.compiled, stand.measured) == (1, 2)


@pytest.mark.parametrize(
    "changes", [{"max_batch": 2}, {"height": 96, "width": 96}, {"cpu_isa": "avx2"}]
)
def test_reuse_compiles_again_for_other_options(stand, request_, changes):
    if choose_target("cpu", "float32", "native").isa == "avx2":
        changes.pop("cpu_isa", None)
        changes.setdefault("max_batch", 3)
    run(request_)
    assert run(request_, reuse=True, **changes) == "built"
    assert stand.compiled == 2


def test_reuse_compiles_again_for_other_weights(stand, request_):
    from safetensors.torch import load_file, save_file

    run(request_)
    path = request_.checkpoint / "model.safetensors"
    save_file({k: v * 1.5 for k, v in load_file(path).items()}, path)
    assert run(request_, reuse=True) == "built"
    assert stand.compiled == 2


def test_reuse_never_takes_over_a_damaged_package(stand, request_):
    run(request_)
    artifact = next(request_.out.glob("*.pt2"))
    artifact.write_bytes(b"damaged")
    assert run(request_, reuse=True) == "built"
    assert manifest.verify_package(request_.out)
    assert stand.compiled == 2


def test_steps_tell_number_name_and_remark():
    stream = io.StringIO()
    steps = Steps(3, stream)
    with steps.step("export"):
        steps.note("2 × deform::msda")
    steps.skip(1, "compile: taken over")
    with pytest.raises(ValueError), steps.step("check"):  # noqa: PT011
        raise ValueError
    first, second, third = stream.getvalue().splitlines()
    assert first.startswith("[1/3] export … ") and first.endswith("s (2 × deform::msda)")
    assert second == "[2-2/3] compile: taken over"
    assert third.startswith("[3/3] check … failed after")


def test_a_refusal_is_one_line_and_exit_code_1(capsys, tmp_path):
    out = tmp_path / "tiny" / "1"
    assert cli.main(["build", str(tmp_path / "none"), "--out", str(out), "--name", "tiny"]) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith("deform-package: checkpoint: there is no folder")
    assert not out.parent.exists()


@pytest.mark.parametrize(
    "arguments",
    [["--name", "a.b"], ["--name", "x", "--max-batch", "0"], ["--name", "x", "--dtype", "int8"]],
)
def test_wrong_options_are_refused_before_anything_is_read(arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(["build", "none", "--out", "none", *arguments])
    assert caught.value.code == 2


def test_what_this_machine_cannot_make_is_refused(monkeypatch):
    with pytest.raises(PackagingError, match="bfloat16 is for --device cuda"):
        choose_target("cpu", "bfloat16", "native")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(PackagingError, match="no usable CUDA GPU"):
        choose_target("cuda", "float32", "native")
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    assert choose_target("cpu", "float32", "native").file_name == "model.cpu-avx2.float32.pt2"
    with pytest.raises(PackagingError, match="avx512, and this machine's processor has avx2"):
        choose_target("cpu", "float32", "avx512")
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    with pytest.raises(PackagingError, match="no AVX2"):
        choose_target("cpu", "float32", "native")


def test_a_gpu_artifact_is_named_by_its_architecture(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: (9, 0))
    target = choose_target("cuda", "bfloat16", "native")
    assert target.file_name == "model.cuda-sm90.bfloat16.pt2"
    assert (target.isa, target.sm, target.host_isa) == (None, "90", "avx2")
    assert json.dumps(dataclasses.asdict(target))
