"""A folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deform_models.errors import PackagingError


@contextmanager
def staged_folder(target: Path, *, replace: bool) -> Iterator[Path]:
    """A temporary sibling of `target` that takes its place when the block ends well.

    If the block raises, the sibling goes, and so do parents of `target` that were made for it;
    what was at `target` before is untouched. With `replace` an existing `target` makes way at
    the end; without it PackagingError is raised at the start.
    """
    if target.exists() and not replace:
        raise PackagingError(f"--out: {target} exists; --force replaces it")
    if target.exists() and not target.is_dir():
        raise PackagingError(f"--out: {target} is a file")
    made = _make_parents(target.parent)
    stage = Path(tempfile.mkdtemp(prefix=f".{target.name}.building-", dir=target.parent))
    stage.chmod(0o755)
    try:
        yield stage
        # Another build may have been quicker.
        if target.exists() and not replace:
            raise PackagingError(f"--out: {target} exists now; --force replaces it")
        _swap_in(stage, target)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        for folder in reversed(made):
            if not any(folder.iterdir()):
                folder.rmdir()
        raise


def _make_parents(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir()
    return missing[::-1]


def _swap_in(stage: Path, target: Path) -> None:
    if not target.exists():
        os.rename(stage, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.replaced-", dir=target.parent))
    os.rename(target, old / target.name)
    try:
        os.rename(stage, target)
    except OSError:
        os.rename(old / target.name, target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
