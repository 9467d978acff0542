"""What a figure must keep to, checked by drawing it: nothing covered, nothing cut off."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import Collection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox, BboxBase

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PIXEL = 1.0
"""Room for rounding, of 100 in an inch."""


def check_figure(figure: Figure) -> None:
    """No label over another or cut off, no legend over data or labels, notes inside their axes."""
    figure.canvas.draw()
    for ax in figure.axes:
        check_ticks(ax)
        whole = ax.get_tightbbox()
        assert whole is not None
        assert inside(whole, figure.bbox), f"{whole} is cut off at the edge, {figure.bbox}"
        for note in ax.texts:
            box = note.get_window_extent()
            assert inside(box, ax.get_window_extent()), f"{note.get_text()} leaves the axes"
        legend = ax.get_legend()
        if legend is not None:
            box = legend.get_window_extent()
            assert inside(box, figure.bbox), "the legend is cut off"
            for what, other in labels(ax).items():
                assert not box.overlaps(other), f"the legend lies over {what}"
            for artist in data(ax):
                assert not covers(box, artist, ax), f"the legend lies over {artist}"


def check_ticks(ax: Axes) -> None:
    """Every label along x ends before the next begins."""
    ticks = [text for text in ax.get_xticklabels() if text.get_text()]
    boxes = [text.get_window_extent() for text in ticks]
    for i, (left, right) in enumerate(pairwise(boxes)):
        names = [text.get_text() for text in ticks[i : i + 2]]
        assert left.x1 < right.x0, f"{' and '.join(names)} touch along x"


def inside(box: BboxBase, room: BboxBase) -> bool:
    low, high = np.subtract(box.min, room.min), np.subtract(room.max, box.max)
    return bool((low >= -PIXEL).all() and (high >= -PIXEL).all())


def labels(ax: Axes) -> dict[str, Bbox]:
    """The title and what belongs to each axis, where they were drawn."""
    boxes = {
        "the x axis": ax.xaxis.get_tightbbox(),
        "the y axis": ax.yaxis.get_tightbbox(),
        "the title": ax.title.get_window_extent() if ax.get_title() else None,
    }
    return {what: box for what, box in boxes.items() if box is not None}


def data(ax: Axes) -> list[Line2D | Collection | Patch]:
    """Lines, bars and bands."""
    return [*ax.lines, *ax.collections, *ax.patches]


def covers(box: Bbox, artist: Line2D | Collection | Patch, ax: Axes) -> bool:
    """Whether a part of the artist that is seen lies in the box."""
    seen = Bbox.intersection(box, ax.get_window_extent())
    if seen is None:
        return False
    filled = not isinstance(artist, Line2D)
    paths = artist.get_paths() if isinstance(artist, Collection) else [artist.get_path()]
    transform = artist.get_transform()
    return any(transform.transform_path(path).intersects_bbox(seen, filled) for path in paths)
