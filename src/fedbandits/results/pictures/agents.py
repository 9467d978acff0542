"""Pictures of snapshots: the regret of agents, the probability of arms, and disagreement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedbandits.results.plots import (
    COLOURS,
    against,
    draw_band,
    figure_of,
    legend_below,
    new_axes,
    short_rounds,
    what_bands_cover,
)
from fedbandits.results.snapshots import DIMENSIONS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from fedbandits.results.result import Result


TIMES = 5
"""The most times with a violin."""


def plot_agents(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the expected regret of every agent, mean over runs: a violin per time and result."""
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
    """Return the regret of every honest agent at a snapshot, mean over runs and draws."""
    data = result.dataset
    there = data.isel(snapshot=at)
    mean = data["expected_regret"].sel(time=int(there["snapshot"]))
    regret = mean + there["agent_excess"]
    by_agent = regret.mean([over for over in ("draw", "run") if over in regret.dims]).to_numpy()
    return np.asarray(by_agent[~np.isnan(by_agent)], np.float64)


def one_of(results: Mapping[str, Result], kind: str) -> tuple[str, Result]:
    """Return the only result with its name; reject several."""
    if len(results) > 1:
        raise ValueError(
            f"kind={kind!r} shows one result, not {len(results)} ({', '.join(results)}); call "
            f"result.plot(kind={kind!r}) for each"
        )
    [[name, result]] = results.items()
    return name, result


def snapshots_of(name: str, result: Result, kind: str) -> xr.Dataset:
    """Return the dataset of a result; reject a result without snapshots."""
    if not DIMENSIONS.keys() <= set(result.dataset.data_vars):
        config = result.config
        draws = f", draws={config['draws']}" if "draws" in config else ""
        raise ValueError(
            f"kind={kind!r} needs snapshots of every agent, which {name} does not have; simulate "
            f"it with fb.simulate(problem, algorithm, gossip, runs={config['runs']}, "
            f'seed={config["seed"]}{draws}, record="agents"), or write record = "agents" in its '
            "configuration file"
        )
    return result.dataset


NAMED = 25
"""The most arms with a name each."""


def plot_arms(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the mean over agents and runs of p_t(i): arms down, time across."""
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
    """Return the name of an arm; the best arm has a star."""
    return f"{arm} ★" if arm == best else str(arm)


def plot_disagreement(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the mean distance of agents' distributions from their mean, with its 95% band.

    It is 0 if all agents have one distribution, and 1 - 1/N if each has an arm of its own.
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
