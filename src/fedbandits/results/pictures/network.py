"""The network with every agent in the colour of its leading arm: still, or moving."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.common.files import atomic_write
from fedbandits.results.plots import figure_of, legend_below, new_axes, save_figure

from .leaders import Leaders, leaders

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result

FRAMES = 60
"""Of a GIF or MP4 at most: each is drawn anew."""

PER_SECOND = 12

WRITERS = {".gif": "pillow", ".mp4": "ffmpeg"}


def plot_network(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """The agents after the last snapshot."""
    found = leaders(results)
    ax = _drawn(found, len(found.rounds) - 1, ax)
    names = {
        f"{name}: {share:.0%}" if share >= 0.01 else f"{name}: < 1%": colour
        for name, colour, share in found.shares(-1)
        if share > 0
    }
    _add_legend(ax, names)
    return ax


def save_network(results: Mapping[str, Result], ax: Axes, path: Path) -> None:
    """Write all snapshots as one page, as a GIF or MP4, or the last as a figure."""
    if path.suffix == ".html":
        from .network_page import page

        text = page(leaders(results))
        with atomic_write(path) as file:
            file.write(text.encode())
    elif path.suffix in WRITERS:
        _save_film(leaders(results), path)
    else:
        save_figure(figure_of(ax), path)


def _drawn(found: Leaders, snapshot: int, ax: Axes | None) -> Axes:
    ax = new_axes(4.6, 4.6) if ax is None else ax
    found.network.draw(ax=ax, colours=_colours(found, snapshot))
    _say_round(found, snapshot, ax)
    return ax


def _add_legend(ax: Axes, names: Mapping[str, str]) -> None:
    """Names and their colours below."""
    for name, colour in names.items():
        ax.scatter([], [], s=30, color=colour, label=name)
    legend_below(ax, "the arm that an agent would most likely play next; ★: best in hindsight")
    ax.margins(0.03)
    ax.autoscale_view()  # the layout took turns with the equal scales, and left too much room


def _colours(found: Leaders, snapshot: int) -> list[str]:
    return [found.colours[i] for i in found.arm[snapshot]]


def _say_round(found: Leaders, snapshot: int, ax: Axes) -> None:
    words = [*textwrap.wrap(found.title, 46), f"after round {found.rounds[snapshot]:,}"]
    ax.set_title("\n".join(words), fontsize="medium")


def _save_film(found: Leaders, path: Path) -> None:
    """Write an animation by one of matplotlib's writers, whole or not at all."""
    import matplotlib.pyplot as plt
    from matplotlib.animation import writers

    writer = WRITERS[path.suffix]
    if not writers.is_available(writer):
        raise ValueError(
            f"{path.name} needs {writer}, which is not installed; install it, or end the name in "
            ".html or .gif"
        )
    ax = _drawn(found, 0, None)
    figure = figure_of(ax)
    try:
        _add_legend(ax, {name: colour for name, colour, _ in found.shares(-1)})
        figure.set_layout_engine("none")  # as it is: no frame moves against another
        film = writers[writer](fps=PER_SECOND)
        # A writer knows the format by the ending, so the file is made under its own name.
        whole = path.with_name(f".writing-{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _frames(found, ax).save(whole, film, dpi=100)
            whole.replace(path)
        finally:
            whole.unlink(missing_ok=True)
    finally:
        plt.close(figure)


def _frames(found: Leaders, ax: Axes) -> FuncAnimation:
    from matplotlib.animation import FuncAnimation
    from matplotlib.collections import PathCollection

    dots = next(c for c in ax.collections if isinstance(c, PathCollection))
    last = len(found.rounds) - 1
    chosen = np.unique(np.linspace(0, last, min(FRAMES, last + 1)).round().astype(int))

    def show(snapshot: int) -> list[PathCollection]:
        dots.set_facecolor(_colours(found, snapshot))
        _say_round(found, snapshot, ax)
        return [dots]

    return FuncAnimation(figure_of(ax), show, chosen.tolist(), init_func=list)
