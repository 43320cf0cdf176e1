"""The JSON schema of package.json."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def package_schema() -> dict[str, Any]:
    """The schema, as JSON Schema 2020-12."""
    text = resources.files(__package__).joinpath("package.schema.json").read_text("utf-8")
    return json.loads(text)
