"""Reading a Hugging Face folder: what it is, and its weights, or a refusal that names the fault."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A checkpoint is what its folder holds; nothing is fetched.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import nn

from deform_models.deformable_detr.recipe import DeformableDetrRecipe
from deform_models.errors import PackagingError
from deform_models.mask2former.recipe import Mask2FormerRecipe
from deform_models.package.checksums import sha256_of
from deform_models.recipe import Recipe

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PREPROCESSOR = "preprocessor_config.json"
RECIPES: tuple[Recipe, ...] = (Mask2FormerRecipe(), DeformableDetrRecipe())

# Bookkeeping that older files carry or lack, and what only training reads.
_NOT_NETWORK = ("num_batches_tracked", "relative_position_index", "position_ids", "criterion.")


@dataclass(frozen=True)
class Checkpoint:
    """A folder that has been looked at, its weights not yet loaded."""

    folder: Path
    recipe: Recipe
    config: Any
    preprocessor: dict[str, Any]
    config_sha256: str
    weights_sha256: str
    preprocessor_sha256: str


def read_checkpoint(folder: Path) -> Checkpoint:
    """Looks at `folder`; raises PackagingError for anything but a packageable model."""
    if not folder.is_dir():
        raise PackagingError(f"checkpoint: there is no folder {folder}")
    _require_files(folder)
    raw = _read_json(folder / CONFIG)
    recipe = _recipe_of(raw)
    config = _build_config(raw, recipe)
    recipe.check_config(config)
    return Checkpoint(
        folder=folder,
        recipe=recipe,
        config=config,
        preprocessor=_read_json(folder / PREPROCESSOR),
        config_sha256=sha256_of(folder / CONFIG),
        weights_sha256=sha256_of(folder / WEIGHTS),
        preprocessor_sha256=sha256_of(folder / PREPROCESSOR),
    )


def load_model(checkpoint: Checkpoint) -> nn.Module:
    """The checkpoint's model on the CPU, float32, in evaluation mode.

    Raises PackagingError if a tensor is missing, left over, of another shape or not finite.
    """
    _check_tensors(checkpoint.folder / WEIGHTS)
    model_class = getattr(transformers, checkpoint.recipe.model_class)
    with _quiet():
        model, info = model_class.from_pretrained(
            checkpoint.folder,
            config=checkpoint.config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    _refuse_misfits(info)
    return model.eval().requires_grad_(False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of transformers: what matters in them is checked and refused here."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        transformers.logging.enable_progress_bar()


def _require_files(folder: Path) -> None:
    missing = [n for n in (CONFIG, WEIGHTS, PREPROCESSOR) if not (folder / n).is_file()]
    if not missing:
        return
    hint = ""
    if WEIGHTS in missing:
        if (folder / f"{WEIGHTS}.index.json").exists():
            hint = f"; the weights are in shards: save them as one {WEIGHTS}"
        elif (folder / "pytorch_model.bin").exists():
            hint = "; pytorch_model.bin is not read: save the model again as safetensors"
    raise PackagingError(f"checkpoint {folder.name}: {', '.join(missing)} is missing{hint}")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise PackagingError(f"{path.name}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise PackagingError(f"{path.name}: has to be a JSON object")
    return value


def _recipe_of(raw: dict[str, Any]) -> Recipe:
    model_type = raw.get("model_type")
    architectures = raw.get("architectures") or []
    for recipe in RECIPES:
        if model_type == recipe.architecture:
            if architectures and recipe.model_class not in architectures:
                raise PackagingError(
                    f"config.json: architectures is {architectures}; "
                    f"only {recipe.model_class} can be packaged"
                )
            return recipe
    raise PackagingError(
        f"config.json: model_type is {json.dumps(model_type)}; "
        f"it has to be one of {', '.join(r.architecture for r in RECIPES)}"
    )


def _build_config(raw: dict[str, Any], recipe: Recipe) -> Any:
    raw = _with_local_backbone(raw)
    config_class = getattr(transformers, recipe.model_class).config_class
    try:
        with _quiet():
            config = config_class.from_dict(raw)
    except Exception as error:  # any fault of the file surfaces here, with many types
        raise PackagingError(f"config.json: {_first_line(error)}") from None
    if hasattr(config, "disable_custom_kernels"):
        config.disable_custom_kernels = True
    return config


def _with_local_backbone(raw: dict[str, Any]) -> dict[str, Any]:
    """The configuration with a backbone that is built from the file alone.

    Older files name a timm network, or one on a model hub, and ask for its pretrained weights;
    the checkpoint's own replace those anyway.
    """
    raw = {k: v for k, v in raw.items() if k not in ("dtype", "torch_dtype")}
    raw.pop("use_pretrained_backbone", None)
    name = raw.get("backbone")
    if isinstance(raw.get("backbone_config"), dict):
        raw.pop("backbone", None)
        raw["backbone_config"] = dict(raw["backbone_config"])
        if raw["backbone_config"].get("model_type") == "timm_backbone":
            raw["backbone_config"]["use_pretrained_backbone"] = False
        return raw
    if name is None:
        return raw
    is_detr = raw["model_type"] == DeformableDetrRecipe.architecture
    if not raw.get("use_timm_backbone", is_detr):
        raise PackagingError(
            f"config.json: backbone is {json.dumps(name)}, a name on a model hub; "
            "a backbone_config is needed"
        )
    options = raw.pop("backbone_kwargs", None) or {}
    if is_detr and not options:
        return raw  # transformers has defaults of its own for this case
    del raw["backbone"]
    raw["backbone_config"] = {
        "model_type": "timm_backbone",
        "backbone": name,
        "features_only": True,
        **options,
        "use_pretrained_backbone": False,
    }
    return raw


def _check_tensors(path: Path) -> None:
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                tensor = file.get_tensor(name)
                if tensor.is_floating_point() and not tensor.isfinite().all():
                    raise PackagingError(f"{path.name}: {name} holds NaN or infinity")
    except (SafetensorError, OSError) as error:
        raise PackagingError(f"{path.name}: can't be read ({_first_line(error)})") from None


def _refuse_misfits(info: dict[str, Any]) -> None:
    faults = []
    mismatched = sorted(info["mismatched_keys"])
    if mismatched:
        shapes = [
            f"{name} is {list(found)}, config.json wants {list(wanted)}"
            for name, found, wanted in mismatched
        ]
        faults.append(f"of another shape: {_few(shapes, '; ')}")
    for key, words in (("missing_keys", "missing"), ("unexpected_keys", "not of this model")):
        names = sorted(k for k in info[key] if not any(part in k for part in _NOT_NETWORK))
        if names:
            faults.append(f"{words}: {_few(names)}")
    if info.get("error_msgs"):
        faults.append(_few(info["error_msgs"]))
    if faults:
        raise PackagingError(f"{WEIGHTS}: tensors " + ". Tensors ".join(faults))


def _few(items: Iterable[str], separator: str = ", ", count: int = 5) -> str:
    items = list(items)
    more = f" and {len(items) - count} more" if len(items) > count else ""
    return separator.join(items[:count]) + more


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split())[:300]
