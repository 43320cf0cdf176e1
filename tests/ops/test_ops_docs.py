"""The examples of the operators' documentation, each page as one program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "ops"
PAGES = sorted(DOCS.glob("*.md")) if DOCS.is_dir() else []
# What a page's program needs beside torch.
PACKAGES = {
    "conv": ["torchvision"],
    "integrations": ["transformers", "mmcv"],
    "models": ["transformers"],
}

pytestmark = pytest.mark.skipif(not PAGES, reason="the documentation isn't part of this copy")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: Path, language: str = "python") -> list[tuple[int, str]]:
    """Each block of a page, with the line that it starts on."""
    text = page.read_text()
    return [
        (text.count("\n", 0, found.start(2)), found[2])
        for found in BLOCK.finditer(text)
        if found[1] == language
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run_as_they_stand(page):
    program = examples(page)
    if not program:
        pytest.skip("no example")
    for name in PACKAGES.get(page.stem, []):
        pytest.importorskip(name)
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": page.stem}
    for line, block in program:
        # Blank lines in front make a failure point at the page's own line.
        exec(compile("\n" * line + block, str(page), "exec"), names)


def test_every_page_but_the_papers_has_an_example():
    assert [page.stem for page in PAGES if not examples(page)] == ["citing"]


def test_index_names_every_page():
    index = (DOCS / "README.md").read_text()
    assert [p.name for p in PAGES if p.name != "README.md" and f"({p.name})" not in index] == []


def test_papers_are_complete():
    entries = [
        entry
        for _, block in examples(DOCS / "citing.md", "bibtex")
        for entry in block.split("\n\n")
    ]
    assert len(entries) == 6
    for entry in entries:
        assert all(f"  {field} " in entry for field in ("title", "author", "year")), entry
        assert entry.count("{") == entry.count("}")
