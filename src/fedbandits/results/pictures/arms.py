"""The probability of every arm over time, as a heat map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.results.plots import figure_of, new_axes, short_rounds

from .given import one_of, snapshots_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result

NAMED = 25
"""Arms that have room for a name each."""


def plot_arms(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """The mean over agents, and runs, of p_t(i): arms down, time across."""
    name, result = one_of(results, "arms")
    data = snapshots_of(name, result, "arms")
    p = data["mean_distribution"]
    p = p.mean([over for over in ("draw", "run") if over in p.dims]).transpose("arm", "snapshot")
    arms, best = data["arm"].to_numpy().tolist(), result.best_arm.arm
    rounds = data["snapshot"].to_numpy()
    before = 0 if len(rounds) == 1 else max(0, 2 * rounds[0] - rounds[1])
    if ax is None:
        ax = new_axes(height=max(2.2, min(4.5, 0.9 + 0.17 * len(arms))))
    ax.grid(visible=False)
    image = ax.imshow(
        p.to_numpy(),
        cmap="cividis",  # read alike with and without colour vision
        aspect="auto",
        interpolation="nearest",
        extent=(before, rounds[-1], len(arms) - 0.5, -0.5),
        vmin=0,
        vmax=max(float(p.max()), 1e-9),
    )
    bar = figure_of(ax).colorbar(image, ax=ax, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("probability,\nmean over agents")
    ax.set_xlabel("round $t$")
    ax.set_ylabel("arm")
    if len(arms) <= NAMED:
        ax.set_yticks(np.arange(len(arms)), [_called(arm, best) for arm in arms], fontsize="small")
    short_rounds(ax)
    ax.set_title(f"{name}; best in hindsight: {_called(best, best)}", fontsize="medium")
    return ax


def _called(arm: object, best: object) -> str:
    """The best arm is known by more than its colour."""
    return f"{arm} ★" if arm == best else str(arm)
