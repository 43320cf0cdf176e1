"""The `preprocess` section of package.json, from preprocessor_config.json."""

from __future__ import annotations

import json
import math
from typing import Any

from deform_models.errors import PackagingError
from deform_models.recipe import Recipe

_IMAGENET_MEAN = [0.485, 0.456, 0.406]
_IMAGENET_STD = [0.229, 0.224, 0.225]
_BILINEAR = (2, "bilinear", "BILINEAR")
_FILE = "preprocessor_config.json"


def preprocess_section(
    raw: dict[str, Any],
    recipe: Recipe,
    *,
    mode: str | None = None,
    height: int | None = None,
    width: int | None = None,
) -> dict[str, Any]:
    """How the server has to treat a picture so that the network sees what it was trained on.

    `mode`, `height` and `width` (pixels) replace what the file says about size. Raises
    PackagingError, naming the field, for a step that a package has no way to state.
    """
    _check_processor(raw, recipe)
    if (height is None) != (width is None):
        raise PackagingError("--height and --width: give both or neither")
    own_mode, own_size = _own_size(raw, recipe)
    mode = mode or own_mode
    if height is None or width is None:
        if own_size is None:
            raise PackagingError(
                f"{_FILE}: size is {json.dumps(raw.get('size'))}, which has no fixed height and "
                "width; give --height and --width"
            )
        height, width = own_size
    else:
        divisor = _size_divisor(raw, recipe)
        for option, value in (("--height", height), ("--width", width)):
            if divisor and value % divisor:
                raise PackagingError(
                    f"{option}: {value} is no multiple of size_divisor {divisor} in {_FILE}"
                )
    if mode == "fit" and raw.get("do_pad") is False:
        raise PackagingError(f"{_FILE}: do_pad is false, and mode fit pads")
    rescale = raw.get("do_rescale", True)
    normalize = raw.get("do_normalize", True)
    return {
        "mode": mode,
        "height": height,
        "width": width,
        "resample": "bilinear",
        "antialias": True,
        "rescale_factor": _number(raw, "rescale_factor", 1 / 255) if rescale else 1.0,
        "mean": _colors(raw, "image_mean", _IMAGENET_MEAN) if normalize else [0.0, 0.0, 0.0],
        "std": _colors(raw, "image_std", _IMAGENET_STD) if normalize else [1.0, 1.0, 1.0],
        "pixel_mask": recipe.takes_pixel_mask,
    }


def _check_processor(raw: dict[str, Any], recipe: Recipe) -> None:
    kind = raw.get("image_processor_type") or raw.get("feature_extractor_type")
    if kind is not None and kind not in recipe.processor_types:
        raise PackagingError(
            f"{_FILE}: image_processor_type is {json.dumps(kind)}; for {recipe.architecture} it "
            f"has to be one of {', '.join(sorted(recipe.processor_types))}"
        )
    if raw.get("do_resize") is False:
        raise PackagingError(f"{_FILE}: do_resize is false, and the network has one fixed size")
    known = {"do_resize", "do_rescale", "do_normalize", "do_pad", "do_convert_rgb"}
    # These two treat annotations, not pictures.
    known |= {"do_reduce_labels", "do_convert_annotations"}
    for field, value in sorted(raw.items()):
        if field.startswith("do_") and field not in known and value:
            raise PackagingError(f"{_FILE}: {field} is not something that a package can state")
    resample = raw.get("resample", 2)
    if resample not in _BILINEAR:
        raise PackagingError(f"{_FILE}: resample is {json.dumps(resample)}, has to be 2 (bilinear)")
    if raw.get("data_format", "channels_first") not in ("channels_first", None):
        raise PackagingError(f"{_FILE}: data_format has to be channels_first")


def _own_size(raw: dict[str, Any], recipe: Recipe) -> tuple[str, tuple[int, int] | None]:
    """Mode and, where the file fixes them, height and width."""
    size = raw.get("size")
    if size is None or isinstance(size, int):
        return "fit", _pad_size(raw)  # the shortest edge, as older files have it
    if not isinstance(size, dict):
        raise PackagingError(f"{_FILE}: size is {json.dumps(size)}, has to be an object")
    keys = {key for key, value in size.items() if value is not None}
    if keys == {"height", "width"}:
        sides = (_side(size, "height"), _side(size, "width"))
        divisor = _size_divisor(raw, recipe)
        if divisor:
            # The processor rounds both sides up after it has computed them.
            sides = tuple(math.ceil(side / divisor) * divisor for side in sides)
        padded = _pad_size(raw)
        if padded is not None and padded != sides:
            raise PackagingError(
                f"{_FILE}: pad_size is {padded[0]}×{padded[1]}, size {sides[0]}×{sides[1]}; "
                "resizing to one size and padding to another can't be stated"
            )
        return "exact", sides
    if keys in ({"shortest_edge"}, {"shortest_edge", "longest_edge"}, {"longest_edge"}):
        return "fit", _pad_size(raw)
    if keys == {"max_height", "max_width"}:
        return "fit", _pad_size(raw) or (_side(size, "max_height"), _side(size, "max_width"))
    raise PackagingError(
        f"{_FILE}: size is {json.dumps(size)}; it has to hold height and width, "
        "shortest_edge and longest_edge, or max_height and max_width"
    )


def _pad_size(raw: dict[str, Any]) -> tuple[int, int] | None:
    size = raw.get("pad_size")
    if not isinstance(size, dict):
        return None
    return _side(size, "height", "pad_size"), _side(size, "width", "pad_size")


def _side(size: dict[str, Any], key: str, field: str = "size") -> int:
    value = size.get(key)
    if type(value) is not int or not 1 <= value <= 16384:
        raise PackagingError(
            f"{_FILE}: {field}.{key} is {json.dumps(value)}, has to be an integer from 1 to 16384"
        )
    return value


def _size_divisor(raw: dict[str, Any], recipe: Recipe) -> int:
    value = raw.get("size_divisor", raw.get("size_divisibility", recipe.default_size_divisor))
    if value is None:
        return 0
    if type(value) is not int or value < 0:
        raise PackagingError(f"{_FILE}: size_divisor is {json.dumps(value)}, has to be an integer")
    return value


def _number(raw: dict[str, Any], field: str, default: float) -> float:
    value = raw.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise PackagingError(f"{_FILE}: {field} is {json.dumps(value)}, has to be a number above 0")
    return float(value)


def _colors(raw: dict[str, Any], field: str, default: list[float]) -> list[float]:
    value = raw.get(field, default)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [value] * 3
    if (
        not isinstance(value, list)
        or len(value) != 3
        or not all(isinstance(v, int | float) and math.isfinite(v) for v in value)
        or (field == "image_std" and not all(v > 0 for v in value))
    ):
        raise PackagingError(f"{_FILE}: {field} is {json.dumps(value)}, has to be three numbers")
    return [float(v) for v in value]
