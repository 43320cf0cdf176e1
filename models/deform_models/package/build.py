"""Checkpoint to package folder, step by step."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from deform_models.errors import PackagingError
from deform_models.package import compiling, exporting, manifest, operators, parity, toolchain
from deform_models.package.checkpoint import Checkpoint, load_model, read_checkpoint
from deform_models.package.checksums import sha256_of, sha256_of_json, sha256_of_sources
from deform_models.package.describe import parity_line
from deform_models.package.labels import labels_of, read_categories
from deform_models.package.preprocess import preprocess_section
from deform_models.package.progress import Steps
from deform_models.package.staging import staged_folder
from deform_models.package.target import Target, choose_target

_STEPS = 7


@dataclass(frozen=True)
class PostprocessDefaults:
    """What a request that says nothing gets."""

    compat: str = "DEFAULT"
    score_threshold: float = 0.5
    mask_threshold: float = 0.5
    overlap_mask_area_threshold: float = 0.8
    max_results: int = 100


@dataclass(frozen=True)
class BuildRequest:
    """What `deform-package build` was asked for."""

    checkpoint: Path
    out: Path
    name: str
    categories: Path | None = None
    device: str = "cpu"
    dtype: str = "float32"
    cpu_isa: str = "native"
    mode: str | None = None
    height: int | None = None
    width: int | None = None
    max_batch: int = 8
    description: str | None = None
    postprocess: PostprocessDefaults = field(default_factory=PostprocessDefaults)
    force: bool = False
    reuse: bool = False


@dataclass(frozen=True)
class _Plan:
    """Everything that is known before anything slow happens."""

    request: BuildRequest
    checkpoint: Checkpoint
    target: Target
    labels: list[dict[str, Any]]
    preprocess: dict[str, Any]
    source: dict[str, Any]


def build_package(request: BuildRequest, steps: Steps | None = None) -> str:
    """Makes the package; "built", or with `reuse` "unchanged" or "refreshed".

    "refreshed": the compiled artifact was taken over, and parity measured anew. Raises
    PackagingError, and leaves nothing behind, for whatever the user can put right.
    """
    if request.out.exists() and not (request.force or request.reuse):
        raise PackagingError(f"--out: {request.out} exists; --force replaces it")
    steps = steps or Steps(_STEPS)
    with steps.step("read checkpoint"):
        plan = _plan(request)
        steps.note(f"{plan.checkpoint.recipe.architecture}, {len(plan.labels)} labels")
    old = _reusable(request, plan)
    if old and old["source"].get("build_key_sha256") == plan.source["build_key_sha256"]:
        return "unchanged"
    with staged_folder(request.out, replace=request.force or request.reuse) as stage:
        with steps.step("load weights"):
            model = load_model(plan.checkpoint)
            parameters = sum(p.numel() for p in model.parameters())
            steps.note(f"{parameters / 1e6:.1f} M parameters")
        if old:
            artifact, borders = _take_over(old, request.out, stage)
            steps.skip(3, "export, compile and check artifact: taken over")
        else:
            artifact, borders = _make_artifact(plan, model, stage, steps)
        with steps.step("measure parity"):
            report = parity.measure_parity(
                plan.checkpoint.recipe,
                model,
                plan.checkpoint.config,
                stage / artifact["file"],
                plan.target,
                plan.preprocess,
                request.max_batch,
            )
            steps.note(parity_line(report))
        with steps.step("write package"):
            manifest.write_manifest(_manifest(plan, artifact, borders, report), stage)
    return "refreshed" if old else "built"


def _plan(request: BuildRequest) -> _Plan:
    checkpoint = read_checkpoint(request.checkpoint)
    categories = read_categories(request.categories) if request.categories else None
    labels = labels_of(checkpoint.config.id2label, categories)
    preprocess = preprocess_section(
        checkpoint.preprocessor,
        checkpoint.recipe,
        mode=request.mode,
        height=request.height,
        width=request.width,
    )
    target = choose_target(request.device, request.dtype, request.cpu_isa)
    return _Plan(
        request=request,
        checkpoint=checkpoint,
        target=target,
        labels=labels,
        preprocess=preprocess,
        source=_source(request, checkpoint, target, preprocess),
    )


def _source(
    request: BuildRequest, checkpoint: Checkpoint, target: Target, preprocess: dict[str, Any]
) -> dict[str, Any]:
    """Where a package comes from, and two keys that tell whether it has to be made again.

    The compile key covers what the artifact depends on: not the operator library, which the
    artifact calls by name, and not what package.json alone says.
    """
    library = operators.load_operators()
    compile_key = {
        "config": checkpoint.config_sha256,
        "weights": checkpoint.weights_sha256,
        "target": asdict(target),
        "size": [preprocess["height"], preprocess["width"], request.max_batch],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "compiler": toolchain.compiler_version(),
        "options": compiling.INDUCTOR_OPTIONS,
        "sources": sha256_of_sources(_compile_sources()),
    }
    source = {
        "architecture_config_sha256": checkpoint.config_sha256,
        "weights_sha256": checkpoint.weights_sha256,
        "preprocessor_config_sha256": checkpoint.preprocessor_sha256,
        "categories_sha256": sha256_of(request.categories) if request.categories else None,
        "op_library_sha256": sha256_of(library),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "compile_key_sha256": sha256_of_json(compile_key),
    }
    build_key = {
        **source,
        "name": request.name,
        "description": request.description,
        "preprocess": preprocess,
        "postprocess": asdict(request.postprocess),
        "sources": sha256_of_sources(Path(__file__).parent.glob("*.py")),
    }
    return {**source, "build_key_sha256": sha256_of_json(build_key)}


def _compile_sources() -> list[Path]:
    """The files of this code that decide what an artifact computes."""
    import deform_ops.integrations.transformers as integration

    here = Path(__file__).parent
    files = [here / f"{name}.py" for name in ("exporting", "compiling", "toolchain", "target")]
    recipes = [here.parent / name / "recipe.py" for name in ("mask2former", "deformable_detr")]
    return [*files, *recipes, Path(integration.__file__)]


def _reusable(request: BuildRequest, plan: _Plan) -> dict[str, Any] | None:
    """The manifest of a sound package at `out` whose artifact can be taken over."""
    if not request.reuse or not request.out.exists():
        return None
    try:
        old = manifest.verify_package(request.out)
    except PackagingError:
        return None
    same = old["source"].get("compile_key_sha256") == plan.source["compile_key_sha256"]
    return old if same and len(old["artifacts"]) == 1 else None


def _take_over(
    old: dict[str, Any], folder: Path, stage: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    artifact = old["artifacts"][0]
    shutil.copyfile(folder / artifact["file"], stage / artifact["file"])
    return artifact, {"inputs": old["inputs"], "outputs": old["outputs"]}


def _make_artifact(
    plan: _Plan, model: torch.nn.Module, stage: Path, steps: Steps
) -> tuple[dict[str, Any], dict[str, Any]]:
    recipe, preprocess = plan.checkpoint.recipe, plan.preprocess
    with steps.step("export"):
        exported = exporting.export_network(
            plan.checkpoint,
            model,
            plan.target,
            height=preprocess["height"],
            width=preprocess["width"],
            max_batch=plan.request.max_batch,
        )
        calls = recipe.operator_calls(plan.checkpoint.config)
        steps.note(f"{calls} × {', '.join(exported.operators)}")
    with steps.step("compile"):
        compiled = compiling.compile_program(exported, plan.target, stage)
        size = compiled.path.stat().st_size
        steps.note(f"{compiled.path.name}, {size / 1e6:.1f} MB")
    with steps.step("check artifact"):
        compiling.check_artifact(compiled.path, plan.target, calls)
    artifact = {
        "file": compiled.path.name,
        "device": plan.target.device,
        "isa": plan.target.isa,
        "sm": plan.target.sm,
        "dtype": plan.target.dtype,
        "height": preprocess["height"],
        "width": preprocess["width"],
        "min_batch": 1,
        "max_batch": plan.request.max_batch,
        "torch": torch.__version__.split("+")[0],
        "ops": exported.operators,
        "compile_seconds": round(compiled.compile_seconds, 1),
        "bytes": size,
    }
    return artifact, {"inputs": exported.inputs, "outputs": exported.outputs}


def _manifest(
    plan: _Plan, artifact: dict[str, Any], borders: dict[str, Any], report: dict[str, Any]
) -> dict[str, Any]:
    request, recipe, config = plan.request, plan.checkpoint.recipe, plan.checkpoint.config
    panoptic = all(label["is_thing"] is not None for label in plan.labels)
    stuff = [label["id"] for label in plan.labels if label["is_thing"] is False]
    description = {"description": request.description} if request.description else {}
    return {
        "schema_version": 1,
        "name": request.name,
        "architecture": recipe.architecture,
        **description,
        "tasks": recipe.tasks(panoptic),
        "labels": plan.labels,
        "preprocess": plan.preprocess,
        "postprocess": {**asdict(request.postprocess), "fuse_label_ids": stuff},
        "num_queries": recipe.num_queries(config),
        "num_classes": config.num_labels,
        "max_batch": request.max_batch,
        **borders,
        "artifacts": [artifact],
        "source": plan.source,
        "parity": [report],
    }
