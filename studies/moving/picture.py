"""The picture of the trackers: how well they follow a moving best arm, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbandits.common.statistics import Interval
from fedbandits.paper.pictures import Picture, error_bars, legend_under, new_panels
from fedbandits.results.plots import COLOURS, plain_log

from .trackers import (
    BEST,
    GOAL_MOVING,
    GOAL_OF_ONE,
    GOAL_STILL,
    PLAIN,
    SHARING,
    TRACKER,
    Played,
    curves,
    labels,
    largest,
    ratio,
)

PICTURE = Picture(
    "moving",
    "Up: regret above the best sequence of arms, if the best arm moves, over that of the best pair "
    "(memory, constant rate) of each case, geometric mean over cases. Right: regret above the best "
    "arm, if it stays, over that of FedExp3(), which never forgets; in the left panel the "
    "geometric mean over cases, in the right panel the largest of all cases. Bars are 95%, over "
    "draws of the losses. The lines: the tracker with more and more weight on remembering forever, "
    "and single memories from the shortest to one without end. Dashed: the three goals, met by "
    "points below and to the left.",
    "Two panels with one point for each contender: its ratio for a moving best arm upwards; for a "
    "staying one to the right, in the left panel the mean over cases, in the right the largest.",
)
TICKS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100)
"""Of ratios, on log axes that may be short."""


def draw(moving: Sequence[Played], still: Sequence[Played]) -> Figure:
    """Draw a point for each contender: with the mean, and with the largest staying case."""
    figure, panels = new_panels(1, 2, 3.6, sharey=True)
    moves = {label: ratio(moving, label, BEST) for label in labels(moving)}
    means = {label: ratio(still, label, PLAIN) for label in moves}
    most = {label: largest(still, label, PLAIN)[0] for label in moves}
    shown = ((means, GOAL_STILL, "mean"), (most, GOAL_OF_ONE, "largest"))
    for ax, (stays, goal, which) in zip(panels, shown, strict=True):
        _trade_off(ax, stays, moves)
        ax.axhline(GOAL_MOVING, color="0.5", ls="--", lw=0.8, zorder=0)
        ax.axvline(goal, color="0.5", ls="--", lw=0.8, zorder=0)
        _ratio_axes(ax)
        ax.set_xlabel(f"it stays, {which}: regret / FedExp3()'s")
    panels[0].set_ylabel("the best arm moves:\nregret / best pair's")
    legend_under(figure, panels[0], 3)
    return figure


def _trade_off(ax: Axes, x: Mapping[str, Interval], y: Mapping[str, Interval]) -> None:
    """Draw a point for each contender, and labelled lines through the points of a curve."""

    def point(who: str, **style: Any) -> None:
        across, up = error_bars([x[who]]), error_bars([y[who]])
        ax.errorbar(across[0], up[0], up[1], across[1], elinewidth=0.8, **style)

    alone = {
        PLAIN: {"fmt": "o", "ms": 6, "color": COLOURS[0]},
        TRACKER: {"fmt": "*", "ms": 9, "color": COLOURS[1]},
        SHARING: {"fmt": "D", "ms": 5, "color": COLOURS[2]},
    }
    for i, (name, curve) in enumerate(curves().items()):
        there = {label: (x[label].mean, y[label].mean) for label in curve if label in x}
        ordinary = [label for label in there if label not in alone]
        if not ordinary:
            continue
        colour = COLOURS[1] if TRACKER in curve else COLOURS[3]
        ax.plot(*zip(*there.values(), strict=True), color=colour, lw=1, alpha=0.5, zorder=0)
        for k, label in enumerate(ordinary):
            point(label, fmt="sv"[i], ms=4, color=colour, **({"label": name} if k == 0 else {}))
        style: dict[str, Any] = {"fontsize": "x-small", "color": colour}
        for label, place in there.items():
            ax.annotate(curve[label], place, (5, 3), textcoords="offset points", **style)
    for label, how in alone.items():
        if label in x:
            point(label, label=label, **how)


def _ratio_axes(ax: Axes) -> None:
    """Set log axes with the ticks of ratios."""
    plain_log(ax)
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        shown = [tick for tick in TICKS if limits[0] <= tick <= limits[1]]
        axis.set_ticks(shown, [f"{tick:g}" for tick in shown])
        axis.set_ticks([], minor=True)
