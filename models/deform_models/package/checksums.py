"""SHA-256 of files and of JSON values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_of_sources(paths: Iterable[Path]) -> str:
    """One SHA-256 over the names and bytes of source files."""
    rows = sorted((path.name, sha256_of(path)) for path in paths)
    return sha256_of_json(rows)
