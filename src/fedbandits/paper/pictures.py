"""Pictures of parts: captions, points with error bars, axes and panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = "osD^v"


class Picture(NamedTuple):
    """A figure, with the stem of its files `.png`, `.pdf` and `.svg`.

    Attributes:
        stem: file name without ending.
        caption: what it shows, in the words of the paper's caption where it has one.
        alt: a description for readers who cannot see it.
    """

    stem: str
    caption: str
    alt: str


def error_bars(found: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return means, `[P]`, and the lengths of their error bars, `[2, P]`, as matplotlib takes them.

    Args:
        found: mean, low and high of each point, `[P, 3]`. NaN limits give bars of length 0.
    """
    mean, low, high = np.asarray(found, np.float64).reshape(-1, 3).T
    return mean, np.nan_to_num(np.maximum([mean - low, high - mean], 0))


def draw_points(
    ax: Axes, x: Any, found: npt.ArrayLike, number: int, label: str, **style: Any
) -> None:
    """Draw points with error bars in the mark and colour of a number, with a line between them.

    Args:
        ax: the axes.
        x: of each point.
        found: mean, low and high of each point, `[P, 3]`.
        number: which mark and colour.
        label: in the legend.
        style: options of `errorbar`; `linestyle="none"` draws no line.
    """
    from fedbandits.results.plots import COLOURS

    options = {"marker": MARKS[number], "ms": 4, "color": COLOURS[number], "label": label}
    ax.errorbar(x, *error_bars(found), **options | style)  # type: ignore[arg-type]


def finished(ax: Axes, x: str, y: str, title: str = "") -> Figure:
    """Label the axes, draw the legend below them and return their figure."""
    from fedbandits.results.plots import figure_of, legend_below

    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title, fontsize="medium")
    legend_below(ax)
    return figure_of(ax)


def new_panels(rows: int, columns: int, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure as wide as a page and its panels, row by row.

    Args:
        rows: number of rows.
        columns: number of columns.
        height: of the figure, in inches.
        shared: `sharex` and `sharey`, as in `matplotlib.pyplot.subplots`.
    """
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(
        rows, columns, figsize=(7.2, height), layout="constrained", squeeze=False, **shared
    )
    axes: list[Axes] = list(grid.flat)
    for ax in axes:
        plain_panel(ax)
    return figure, axes


def plain_panel(ax: Axes) -> None:
    """Remove the frame of a panel and draw a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.6)


def legend_under(figure: Figure, ax: Axes, columns: int) -> None:
    """Draw one legend below all panels, with the labels of one of them."""
    handles, labels = ax.get_legend_handles_labels()
    style: dict[str, Any] = {"frameon": False, "fontsize": "small"}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **style)
