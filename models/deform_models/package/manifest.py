"""package.json: writing it, reading it, and checking a package folder against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deform_models.errors import PackagingError
from deform_models.package.checksums import sha256_of
from deform_models.schema import package_schema

FILE = "package.json"


def write_manifest(manifest: dict[str, Any], folder: Path) -> None:
    """Adds `files` for what `folder` holds, checks everything, and writes package.json there."""
    manifest = {**manifest, "files": _files_of(folder)}
    faults = faults_of(manifest)
    if faults:
        raise PackagingError(f"{FILE}: " + "; ".join(faults))
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a package folder; PackagingError if it isn't one or breaks the schema."""
    if not folder.is_dir():
        raise PackagingError(f"package: there is no folder {folder}")
    path = folder / FILE
    if not path.is_file():
        raise PackagingError(f"package {folder}: {FILE} is missing")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PackagingError(f"{FILE}: not JSON ({error})") from None
    faults = faults_of(manifest)
    if faults:
        raise PackagingError(f"{FILE}: " + "; ".join(faults))
    return manifest


def verify_package(folder: Path) -> dict[str, Any]:
    """The manifest of a package whose schema and checksums hold; PackagingError otherwise."""
    manifest = read_manifest(folder)
    listed, present = manifest["files"], _files_of(folder)
    faults = [f"{name} is missing" for name in sorted(set(listed) - set(present))]
    faults += [f"{name} isn't listed" for name in sorted(set(present) - set(listed))]
    for name in sorted(set(listed) & set(present)):
        if listed[name]["bytes"] != present[name]["bytes"]:
            faults.append(
                f"{name} has {present[name]['bytes']} bytes, listed are {listed[name]['bytes']}"
            )
        elif listed[name]["sha256"] != present[name]["sha256"]:
            faults.append(f"{name} was changed: its SHA-256 is another")
    if faults:
        raise PackagingError("package: " + "; ".join(faults))
    return manifest


def schema_checked() -> bool:
    """Whether this machine can check the JSON schema (the package `jsonschema` is there)."""
    try:
        import jsonschema  # noqa: F401
    except ImportError:
        return False
    return True


def faults_of(manifest: Any) -> list[str]:
    """What is wrong with a manifest, each fault with its JSON path; empty if nothing is.

    Without `jsonschema` only what ties fields to each other is checked.
    """
    if not isinstance(manifest, dict):
        return ["has to be a JSON object"]
    if schema_checked():
        import jsonschema

        validator = jsonschema.Draft202012Validator(package_schema())
        faults = sorted(validator.iter_errors(manifest), key=lambda e: e.json_path)
        if faults:
            return [f"{e.json_path.removeprefix('$.')}: {e.message[:200]}" for e in faults[:8]]
    try:
        return _tied_faults(manifest)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        return [f"incomplete ({type(error).__name__}: {error})"]


def _tied_faults(manifest: dict[str, Any]) -> list[str]:
    """Faults that a schema can't state."""
    faults = []
    ids = [label["id"] for label in manifest["labels"]]
    if ids != sorted(set(ids)):
        faults.append("labels: ids have to ascend")
    categories = [label["category_id"] for label in manifest["labels"]]
    if len(categories) != len(set(categories)):
        faults.append("labels: a category_id is there twice")
    if ids and ids[-1] >= manifest["num_classes"]:
        faults.append(f"labels: id {ids[-1]} with num_classes {manifest['num_classes']}")
    unknown = [label["id"] for label in manifest["labels"] if label["is_thing"] is None]
    if "PANOPTIC" in manifest["tasks"] and unknown:
        faults.append(f"tasks: PANOPTIC, and is_thing of label {unknown[0]} isn't known")
    for label in manifest["postprocess"]["fuse_label_ids"]:
        if label not in ids:
            faults.append(f"postprocess.fuse_label_ids: {label} is no label")
    size = [manifest["preprocess"]["height"], manifest["preprocess"]["width"]]
    for i, tensor in enumerate(manifest["inputs"]):
        if tensor["shape"][-2:] != size:
            faults.append(f"inputs[{i}].shape: has to end in {size}, as preprocess has it")
    for i, artifact in enumerate(manifest["artifacts"]):
        where = f"artifacts[{i}]"
        if [artifact["height"], artifact["width"]] != size:
            faults.append(f"{where}: height and width have to be {size}")
        if artifact["min_batch"] > artifact["max_batch"]:
            faults.append(f"{where}: min_batch is above max_batch")
        if manifest["max_batch"] > artifact["max_batch"]:
            faults.append(f"{where}.max_batch: is below the package's max_batch")
        if artifact["file"] not in manifest["files"]:
            faults.append(f"{where}.file: isn't in files")
        elif manifest["files"][artifact["file"]]["bytes"] != artifact["bytes"]:
            faults.append(f"{where}.bytes: differs from files")
    names = {artifact["file"] for artifact in manifest["artifacts"]}
    if {entry["artifact"] for entry in manifest["parity"]} != names:
        faults.append("parity: has to hold every artifact")
    return faults


def _files_of(folder: Path) -> dict[str, dict[str, Any]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "sha256": sha256_of(path),
            "bytes": path.stat().st_size,
        }
        for path in files
        if path.relative_to(folder).as_posix() != FILE
    }
