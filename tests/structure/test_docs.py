"""Pages that name files name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("models/**/*.md")]
)


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links of a page that lead nowhere."""
    return [
        target
        for target in LINK.findall(text)
        if not target.startswith(("http://", "https://", "mailto:"))
        and not (page.parent / target).exists()
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    assert not broken_links(page, page.read_text())


def test_a_broken_link_is_seen():
    assert broken_links(ROOT / "README.md", "[gone](docs/no_such_page.md)") == [
        "docs/no_such_page.md"
    ]
