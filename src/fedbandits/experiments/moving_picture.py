"""The trade-off of `moving` as a picture: following a best arm that moves, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .measure import Interval
from .moving import (
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
from .section import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE = Picture(
    "moving",
    "What following a best arm that moves is worth, and what being ready for it costs where it "
    "stays. Up: regret above the best sequence over that of the best pair (memory, constant rate) "
    "of each case, geometric mean over cases. Right: regret above the best arm over that of "
    "FedExp3(), which never forgets; on the left the geometric mean over cases, on the right the "
    "largest of all cases. Bars are 95%, over draws of the losses. The lines: the tracker with "
    "more and more weight on remembering forever, and single memories from the shortest to one "
    "without end. Dashed: the three goals, met by who lies below and to the left.",
    "Two panels with one point for each contender: its ratio where the best arm moves upwards; "
    "where it stays to the right, on the left the mean over cases, on the right the largest.",
)
TICKS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100)
"""Of ratios, on log axes that may be short."""


def draw(moving: Sequence[Played], still: Sequence[Played]) -> Figure:
    """The trade-off, a point for each contender: in the mean, and in the largest staying case."""
    import matplotlib.pyplot as plt

    figure, (first, second) = plt.subplots(
        1, 2, sharey=True, figsize=(7.2, 3.6), layout="constrained"
    )
    moves = {label: ratio(moving, label, BEST) for label in labels(moving)}
    panels = (
        (first, {label: ratio(still, label, PLAIN) for label in moves}, GOAL_STILL, "mean"),
        (
            *(second, {label: largest(still, label, PLAIN)[0] for label in moves}),
            *(GOAL_OF_ONE, "largest"),
        ),
    )
    for ax, stays, goal, which in panels:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
        _trade_off(ax, stays, moves)
        ax.axhline(GOAL_MOVING, color="0.5", ls="--", lw=0.8, zorder=0)
        ax.axvline(goal, color="0.5", ls="--", lw=0.8, zorder=0)
        _ratio_axes(ax)
        ax.set_xlabel(f"it stays, {which}: regret / FedExp3()'s")
    first.set_ylabel("the best arm moves:\nregret / best pair's")
    figure.legend(
        *first.get_legend_handles_labels(),
        **{"loc": "outside lower center", "ncols": 3, "fontsize": "small", "frameon": False},
    )
    return figure


def _trade_off(ax: Axes, x: Mapping[str, Interval], y: Mapping[str, Interval]) -> None:
    """A point for each contender; a line through those that differ in one number, told beside."""
    from fedbandits.results.plots import COLOURS

    def point(who: str, **how: Any) -> None:
        xerr, yerr = (
            np.maximum([[each.mean - each.low], [each.high - each.mean]], 0)
            for each in (x[who], y[who])
        )
        ax.errorbar(x[who].mean, y[who].mean, yerr, xerr, elinewidth=0.8, **how)

    alone = {
        PLAIN: {"fmt": "o", "ms": 6, "color": COLOURS[0]},
        TRACKER: {"fmt": "*", "ms": 9, "color": COLOURS[1]},
        SHARING: {"fmt": "D", "ms": 5, "color": COLOURS[2]},
    }
    for i, (name, curve) in enumerate(curves().items()):
        there = [label for label in curve if label in x]
        ordinary = [label for label in there if label not in alone]
        colour = COLOURS[1] if TRACKER in curve else COLOURS[3]
        if ordinary:
            at = [(x[label].mean, y[label].mean) for label in there]
            ax.plot(*zip(*at, strict=True), color=colour, lw=1, alpha=0.5, zorder=0)
        for k, label in enumerate(ordinary):
            known = {"label": name} if k == 0 else {}
            point(label, fmt="sv"[i], ms=4, color=colour, **known)
        for label in there if ordinary else []:
            ax.annotate(
                curve[label],
                (x[label].mean, y[label].mean),
                xytext=(5, 3),
                textcoords="offset points",
                fontsize="x-small",
                color=colour,
            )
    for label, how in alone.items():
        if label in x:
            point(label, label=label, **how)


def _ratio_axes(ax: Axes) -> None:
    """Log axes with the ticks of ratios."""
    from fedbandits.results.plots import plain_log

    plain_log(ax)
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        shown = [tick for tick in TICKS if limits[0] <= tick <= limits[1]]
        axis.set_ticks(shown, [f"{tick:g}" for tick in shown])
        axis.set_ticks([], minor=True)
