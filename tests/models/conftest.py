"""Checkpoints that several tests read and none changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session")
def mask2former_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Mask2Former; not to be written to."""
    from package_checkpoints import save_mask2former

    return save_mask2former(tmp_path_factory.mktemp("mask2former"))


@pytest.fixture(scope="session")
def detr_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Deformable DETR; not to be written to."""
    from package_checkpoints import save_deformable_detr

    return save_deformable_detr(tmp_path_factory.mktemp("deformable_detr"))


@pytest.fixture
def own_mask2former(mask2former_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny Mask2Former, to damage."""
    return Path(shutil.copytree(mask2former_folder, tmp_path / "own_mask2former"))


@pytest.fixture
def own_detr(detr_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny Deformable DETR, to damage."""
    return Path(shutil.copytree(detr_folder, tmp_path / "own_detr"))
