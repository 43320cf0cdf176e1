"""A real deform-server for end-to-end tests, and stubs of its protocols for grpcio."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from server_process import BUILD, REPOSITORY, ServerProcess, generate_stubs  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    generate_stubs()


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """One server on the shapes package, shared by the tests that leave it as it was."""
    assert (BUILD / "bin/deform-server").exists(), "build deform-server first: ./dev build"
    assert (REPOSITORY / "shapes/1/package.json").exists(), "package it first: ./dev package"
    with ServerProcess() as process:
        yield process


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own, to stop or to disturb."""
    with ServerProcess() as process:
        yield process
