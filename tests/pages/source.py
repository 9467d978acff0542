"""The pages as they are written: where they are, and the code on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("docs/**/*.md"),
    }
    - set(ROOT.glob("docs/gallery/**/*.md"))  # made by `make docs`
)


def name_of(page: Path) -> str:
    """A page by its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code in a language, in the order of the page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    """A page's text, without blocks of code, code in lines, and comments."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    return re.sub(r"`[^`\n]*`", "", text)
