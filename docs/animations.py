"""Animations on the gallery's pages: what a script wrote as .html is shown there, in a frame.

A script gives the file a name, as in `page = Path(...); result.plot(kind="network", path=page)`.
The frame holds the whole of it, so that nothing else is loaded.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def frame(page: Path) -> str:
    """A file's text as a frame, in reStructuredText."""
    held = html.escape(page.read_text(encoding="utf-8")).replace("\n", "&#10;")
    return (
        ".. raw:: html\n\n"
        f'    <iframe class="animation" title="An animation" srcdoc="{held}"></iframe>\n\n'
    )


def scrape(_: Any, block_vars: Mapping[str, Any], __: Mapping[str, Any]) -> str:
    """The frames of what a block of a script wrote; for Sphinx-Gallery, as its own scrapers are."""
    found = block_vars["example_globals"]
    shown = found.setdefault("__shown__", set())
    pages = {value for value in found.values() if isinstance(value, Path)} - shown
    new = sorted(page for page in pages if page.suffix == ".html" and page.exists())
    shown.update(new)
    return "".join(map(frame, new))


def _get_sg_image_scraper() -> Any:
    """Where Sphinx-Gallery looks for it, given the name of this module."""
    return scrape
