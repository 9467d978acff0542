"""Bytes against regret: which algorithms are best for what they send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.results.plots import COLOURS, against, legend_below, new_axes, what_bands_cover

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result

MARKERS = "osD^vPX"


def plot_pareto(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw regret at T over the bytes that an agent sends in a round, a point per result.

    A line joins those that no other beats in both.
    """
    ax = new_axes() if ax is None else ax
    points = {}
    for place, (name, result) in enumerate(results.items()):
        mean, low, high = (float(part.isel(time=-1)) for part in result.band("regret"))
        points[name] = (float(result.communication["bytes"]), mean)
        ax.errorbar(
            *points[name],
            yerr=None if np.isnan(low) else [[mean - low], [high - mean]],
            fmt=MARKERS[place % len(MARKERS)],
            color=COLOURS[place % len(COLOURS)],
            markersize=6,
            capsize=3,
            label=name,
        )
    front = _unbeaten([*points.values()])
    if len(front) > 1:
        x, y = zip(*front, strict=True)
        ax.step(x, y, where="post", color="0.6", linewidth=1, linestyle="--", zorder=1)
    _bytes_along_x(ax, [x for x, _ in points.values()])
    ax.set_xlabel("bytes that an agent sends in a round")
    ax.set_ylabel("regret at the end,\nmean over agents")
    said = [*against(results), *what_bands_cover(results)]
    if len(front) > 1:
        said.append("dashed: no other sends less and has less regret")
    legend_below(ax, "\n".join(said) or None)
    return ax


def _unbeaten(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other point beats in both numbers, by their first number.

    Example:
        >>> _unbeaten([(3, 1), (0, 9), (2, 4), (2, 5), (4, 2)])
        [(0, 9), (2, 4), (3, 1)]
    """
    best: list[tuple[float, float]] = []
    for point in sorted(points):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    return best


def _bytes_along_x(ax: Axes, sent: list[float]) -> None:
    """Make the x axis logarithmic, with a place for 0."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    some = [x for x in sent if x > 0]
    if not some:
        ax.set_xlim(-1, 1)
        ax.set_xticks([0], ["0"])
        return
    low, high = np.floor(np.log10(min(some))), np.ceil(np.log10(max(some) * 1.01))
    decades = [10.0**k for k in np.arange(low, high + 1)]
    zero = [0.0] if len(some) < len(sent) else []
    if zero:
        ax.set_xscale("symlog", linthresh=decades[0], linscale=0.5)
        ax.set_xlim(-0.4 * decades[0], decades[-1])
    else:
        ax.set_xscale("log")
        ax.set_xlim(decades[0], decades[-1])
    ax.xaxis.set_major_locator(FixedLocator([*zero, *decades]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
