"""The network with every agent in the colour of its leading arm: still, or moving."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.common.figures import save_figure
from fedbandits.common.files import atomic_write
from fedbandits.results.plots import figure_of

from .leaders import leaders

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result


def plot_network(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """The agents after the last snapshot."""
    from .still import add_legend, drawn

    found = leaders(results)
    ax = drawn(found, len(found.rounds) - 1, ax)
    names = {
        f"{name}: {share:.0%}" if share >= 0.01 else f"{name}: < 1%": colour
        for name, colour, share in found.shares(-1)
        if share > 0
    }
    add_legend(ax, names)
    return ax


def save_network(results: Mapping[str, Result], ax: Axes, path: Path) -> None:
    """Write all snapshots as one page, as a GIF or MP4, or the last as a figure."""
    if path.suffix == ".html":
        from .network_page import page

        text = page(leaders(results))
        with atomic_write(path) as file:
            file.write(text.encode())
    elif path.suffix in (".gif", ".mp4"):
        from .film import save_film

        save_film(leaders(results), path)
    else:
        save_figure(figure_of(ax), path)
