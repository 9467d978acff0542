"""Pictures of several panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
