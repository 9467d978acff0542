"""How far agents are from each other, over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedbandits.results.plots import (
    draw_band,
    legend_below,
    new_axes,
    short_rounds,
    what_bands_cover,
)

from .given import snapshots_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result


def plot_disagreement(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """The mean distance of agents' distributions from their mean, with its 95% band.

    0 where all would do the same; 1 - 1/N where each has an arm of its own.
    """
    every = {
        name: snapshots_of(name, result, "disagreement")["snapshot"]
        for name, result in results.items()
    }
    ax = new_axes() if ax is None else ax
    for name, result in results.items():
        draw_band(ax, name, every[name], result, "disagreement")
    ax.set_xlabel("round $t$")
    ax.set_ylabel("disagreement: distance from\nthe mean agent's distribution")
    ax.margins(x=0)
    ax.set_xlim(left=0)
    ax.set_ylim(0, min(1.0, ax.get_ylim()[1]))  # a band may leave what is possible
    short_rounds(ax)
    legend_below(ax, "\n".join(what_bands_cover(results)) or None)
    return ax
