"""Figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, *paths: str | Path) -> None:
    """Write a figure, in the format each name ends in, whole or not at all."""
    for path in map(Path, paths):
        kind = path.suffix.lstrip(".")
        known = figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise ValueError(
                f"cannot save a figure as {path.name}; known endings: {', '.join(sorted(known))}"
            )
        with atomic_write(path) as file:
            figure.savefig(file, format=kind, dpi=200)
