"""The regret of every agent, as violins at a few times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedbandits.results.plots import COLOURS, against, legend_below, new_axes, short_rounds

from .given import snapshots_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result

TIMES = 5
"""At most, for which there is a violin."""


def plot_agents(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Expected regret of every agent, mean over runs: a violin for each time and result."""
    every = {name: snapshots_of(name, result, "agents") for name, result in results.items()}
    ends = [int(data["snapshot"][-1]) for data in every.values()]
    step = max(ends) / TIMES
    ax = new_axes() if ax is None else ax
    width = 0.8 * step / len(every)
    for place, (name, result) in enumerate(results.items()):
        rounds = every[name]["snapshot"].to_numpy()
        wanted = np.arange(min(step, rounds[-1]), rounds[-1] + 1, step)  # one at least
        chosen = np.unique(np.abs(rounds[:, None] - wanted).argmin(axis=0))
        shift = (place - (len(every) - 1) / 2) * width
        colour = COLOURS[place % len(COLOURS)]
        drawn = ax.violinplot(
            np.column_stack([_regret(result, at) for at in chosen]),
            rounds[chosen] + shift,
            widths=0.9 * width,
            showmedians=True,
            showextrema=False,
        )
        for body in drawn["bodies"]:  # type: ignore[attr-defined]
            body.set(facecolor=colour, alpha=0.45, linewidth=0)
        drawn["bodies"][0].set_label(name)  # type: ignore[index]
        drawn["cmedians"].set(color=colour, linewidth=1.6)
    ax.set_xlabel("round $t$")
    ax.set_ylabel("cumulative regret of each agent,\nexpected, mean over runs")
    ax.set_xticks(np.unique((np.arange(1, TIMES + 1) * step).round().astype(int)))
    ax.set_xlim(left=min(step, *ends) - step / 2)
    short_rounds(ax)
    said = [*against(results), "width: how many agents; line: the median agent"]
    legend_below(ax, "\n".join(said))
    return ax


def _regret(result: Result, at: int) -> npt.NDArray[np.float64]:
    """Of every honest agent at a snapshot, mean over runs and draws."""
    data = result.dataset
    there = data.isel(snapshot=at)
    mean = data["expected_regret"].sel(time=int(there["snapshot"]))
    regret = mean + there["agent_excess"]
    by_agent = regret.mean([over for over in ("draw", "run") if over in regret.dims]).to_numpy()
    return np.asarray(by_agent[~np.isnan(by_agent)], np.float64)
