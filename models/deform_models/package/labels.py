"""Labels of package.json: the network's classes, with the data set's categories where given."""

from __future__ import annotations

import colorsys
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deform_models.errors import PackagingError

# What configurations call a class that nothing was trained for.
_PLACEHOLDER = re.compile(r"^(n/?a|none|label_\d+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Category:
    """One category of a data set, as COCO's panoptic annotations list it."""

    id: int
    name: str
    is_thing: bool | None
    color: tuple[int, int, int] | None


def read_categories(path: Path) -> list[Category]:
    """Categories from a JSON list, or from the `categories` of a COCO annotation file.

    Each has `id` and `name`, and may have `isthing` (0 or 1), `color` (three of 0 to 255) and
    `supercategory`, which is not used. Raises PackagingError naming the entry and the field.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise PackagingError(f"--categories: {path} can't be read") from None
    except ValueError as error:
        raise PackagingError(f"--categories: {path.name} is not JSON ({error})") from None
    if isinstance(value, dict):
        value = value.get("categories")
    if not isinstance(value, list) or not value:
        raise PackagingError("--categories: has to be a non-empty list of COCO categories")
    categories = [_category(entry, f"--categories[{i}]") for i, entry in enumerate(value)]
    for field in ("id", "name"):
        counts = Counter(getattr(c, field) for c in categories)
        twice = [str(key) for key, count in counts.items() if count > 1]
        if twice:
            raise PackagingError(f"--categories: {field} {', '.join(twice)} is there twice")
    unknown = [c.name for c in categories if c.is_thing is None]
    if unknown and len(unknown) < len(categories):
        raise PackagingError(
            f"--categories: isthing is missing for {', '.join(unknown)}, the others have it"
        )
    return categories


def labels_of(id2label: dict[int, str], categories: list[Category] | None) -> list[dict[str, Any]]:
    """Labels in the order of the network's class ids.

    A category belongs to the class of the same name, so neither order nor gaps of either side
    matter. Without categories a class stands for itself. Classes with placeholder names
    ("N/A", "LABEL_7") are left out. Raises PackagingError for a name that only one side has.
    """
    by_label = {int(k): str(v) for k, v in id2label.items()}
    if categories is None:
        named = {k: v for k, v in by_label.items() if not _PLACEHOLDER.match(v.strip())}
        # A model whose classes all have default names was never given any: keep those.
        named = named or by_label
        return [
            _label(label, Category(label, name, None, None))
            for label, name in sorted(named.items())
        ]
    label_of: dict[str, int] = {}
    for label, name in sorted(by_label.items()):
        if name in label_of and name in {c.name for c in categories}:
            raise PackagingError(
                f"config.json: id2label has {json.dumps(name)} for {label_of[name]} and {label}; "
                "a category of that name can't be told apart"
            )
        label_of.setdefault(name, label)
    category_of = {c.name: c for c in categories}
    only_categories = sorted(set(category_of) - set(label_of))
    only_network = sorted(
        n for n in set(label_of) - set(category_of) if not _PLACEHOLDER.match(n.strip())
    )
    faults = []
    if only_categories:
        faults.append(f"no class of the network is called {_quoted(only_categories)}")
    if only_network:
        faults.append(f"no category is called {_quoted(only_network)}")
    if faults:
        raise PackagingError(
            f"--categories: names have to be those of id2label in config.json; {'; '.join(faults)}"
        )
    return [
        _label(label, category_of[name])
        for name, label in sorted(label_of.items(), key=lambda item: item[1])
        if name in category_of
    ]


def _category(entry: Any, where: str) -> Category:
    if not isinstance(entry, dict):
        raise PackagingError(f"{where}: has to be an object")
    identity, name = entry.get("id"), entry.get("name")
    if type(identity) is not int or not 0 <= identity < 2**31:
        raise PackagingError(f"{where}.id: has to be an integer from 0 to 2147483647")
    if not isinstance(name, str) or not name:
        raise PackagingError(f"{where}.name: has to be a non-empty string")
    is_thing = entry.get("isthing")
    if is_thing is not None and is_thing not in (0, 1):
        raise PackagingError(f"{where}.isthing: is {json.dumps(is_thing)}, has to be 0 or 1")
    color = entry.get("color")
    if color is not None and not (
        isinstance(color, list)
        and len(color) == 3
        and all(type(part) is int and 0 <= part <= 255 for part in color)
    ):
        raise PackagingError(f"{where}.color: has to be three integers from 0 to 255")
    return Category(
        id=identity,
        name=name,
        is_thing=None if is_thing is None else bool(is_thing),
        color=None if color is None else (color[0], color[1], color[2]),
    )


def _label(label: int, category: Category) -> dict[str, Any]:
    return {
        "id": label,
        "category_id": category.id,
        "name": category.name,
        "is_thing": category.is_thing,
        "color": list(category.color or _color(label)),
    }


def _color(label: int) -> tuple[int, int, int]:
    """A colour for a class that has none: neighbours in the list get hues far apart."""
    hue = label * 0.618033988749895 % 1.0
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.75 if label % 2 else 0.55, 0.95)
    return round(red * 255), round(green * 255), round(blue * 255)


def _quoted(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:8]) + more
