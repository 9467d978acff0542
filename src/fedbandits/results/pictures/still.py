"""The network with every agent in the colour of its leading arm, at one time."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.collections import PathCollection

from fedbandits.results.plots import legend_below, new_axes

from .leaders import Leaders

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def drawn(found: Leaders, snapshot: int, ax: Axes | None) -> Axes:
    """Agents and links on axes, new ones by default."""
    ax = new_axes(4.6, 4.6) if ax is None else ax
    found.network.draw(ax=ax, colours=_colours(found, snapshot))
    _say_round(found, snapshot, ax)
    return ax


def show(found: Leaders, snapshot: int, ax: Axes) -> None:
    """Another snapshot on axes with one."""
    dots = next(c for c in ax.collections if isinstance(c, PathCollection))
    dots.set_facecolor(_colours(found, snapshot))
    _say_round(found, snapshot, ax)


def add_legend(ax: Axes, names: Mapping[str, str]) -> None:
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
