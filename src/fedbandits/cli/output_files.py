"""Folders and figures that commands write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def make_folder(out: Path) -> None:
    """Make the folder of --out, or say that it cannot be made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {out} cannot be made ({error.strerror or error}); choose another --out"
        ) from error


def save_plot(ax: Axes, *paths: Path) -> None:
    """Save the figure of these axes, and close it."""
    from fedbandits.common.figures import save_figure
    from fedbandits.results.plots import figure_of

    try:
        save_figure(figure_of(ax), *paths)
    finally:
        close_plot(ax)


def close_plot(ax: Axes) -> None:
    """Close the figure of these axes."""
    import matplotlib.pyplot as plt

    from fedbandits.results.plots import figure_of

    plt.close(figure_of(ax))
