"""Links within the repository lead somewhere: to a file that is there, and to a heading on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .source import PAGES, ROOT, name_of, without_code

LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def links(page: Path) -> list[str]:
    """Addresses on a page, but for those outside."""
    text = without_code(page.read_text(encoding="utf-8"))
    found = [one or other for one, other in LINK.findall(text)]
    return [address for address in found if not re.match(r"[a-z]+:", address)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(words)
    return found


def lost(page: Path, address: str) -> str | None:
    """What is wrong with a link, or None."""
    path, _, anchor = address.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{name_of(page)}: there is no {address}"
    if anchor and anchor not in anchors(target):
        return f"{name_of(page)}: {target.name} has no heading {anchor!r}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert [wrong for address in links(page) if (wrong := lost(page, address))] == []


def test_there_are_links() -> None:
    assert sum(len(links(page)) for page in PAGES) > 50


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("LICENSE", None),
        ("nowhere.md", "README.md: there is no nowhere.md"),
        ("CONTRIBUTING.md#a-new-algorithm", None),
        ("CONTRIBUTING.md#an-old-one", "README.md: CONTRIBUTING.md has no heading 'an-old-one'"),
        ("#promises", None),
        ("#threats", "README.md: README.md has no heading 'threats'"),
    ],
)
def test_lost_links_are_found(address: str, wrong: str | None) -> None:
    assert lost(ROOT / "README.md", address) == wrong
