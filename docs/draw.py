"""Draws the pictures that pages make themselves.

    python docs/draw.py

runs the Python of every page that shows a picture of its own, and puts what it draws into
docs/figures. Only files that a page shows are taken.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
FIGURES = DOCS / "figures"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def own_pictures(text: str) -> list[str]:
    """The pictures that a page shows and its own code draws."""
    shown = re.findall(r"\]\((?:\.\./)?figures/([\w.]+)\)", text)
    code = "".join(BLOCK.findall(text))
    return sorted({name for name in shown if f'"{name}"' in code})


def draw(page: Path) -> list[str]:
    """Run a page, keep its pictures; their names."""
    text = page.read_text(encoding="utf-8")
    names = own_pictures(text)
    if names:
        here = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            scope: dict[str, object] = {"__name__": "__main__"}
            for block in BLOCK.findall(text):
                exec(compile(block, str(page), "exec", dont_inherit=True), scope)
            os.chdir(here)
            for name in names:
                shutil.copyfile(Path(folder) / name, FIGURES / name)
    return names


if __name__ == "__main__":
    for page in sorted(DOCS.glob("**/*.md")):
        for name in draw(page):
            sys.stdout.write(f"{page}: {name}\n")
