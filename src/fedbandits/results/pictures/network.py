"""The network with every agent in the colour of its leading arm: still, or moving."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.collections import PathCollection

from fedbandits.common.files import atomic_write, save_figure
from fedbandits.results.plots import figure_of, legend_below, new_axes

from .leaders import Leaders, leaders

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result


def plot_network(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the agents after the last snapshot."""
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


def drawn(found: Leaders, snapshot: int, ax: Axes | None) -> Axes:
    """Draw agents and links on axes, new ones by default."""
    ax = new_axes(4.6, 4.6) if ax is None else ax
    found.network.draw(ax=ax, colours=_colours(found, snapshot))
    _title(found, snapshot, ax)
    return ax


def show(found: Leaders, snapshot: int, ax: Axes) -> None:
    """Replace the snapshot on axes that `drawn` has filled."""
    dots = next(c for c in ax.collections if isinstance(c, PathCollection))
    dots.set_facecolor(_colours(found, snapshot))
    _title(found, snapshot, ax)


def add_legend(ax: Axes, names: Mapping[str, str]) -> None:
    """Add names and their colours below the axes."""
    for name, colour in names.items():
        ax.scatter([], [], s=30, color=colour, label=name)
    legend_below(ax, "the arm that an agent would most likely play next; ★: best in hindsight")
    ax.margins(0.03)
    ax.autoscale_view()  # the layout of equal scales leaves too much room


def _colours(found: Leaders, snapshot: int) -> list[str]:
    return [found.colours[i] for i in found.arm[snapshot]]


def _title(found: Leaders, snapshot: int, ax: Axes) -> None:
    words = [*textwrap.wrap(found.title, 46), f"after round {found.rounds[snapshot]:,}"]
    ax.set_title("\n".join(words), fontsize="medium")
