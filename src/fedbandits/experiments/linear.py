"""Many arms in few dimensions: regret against K where losses are linear in the arms.

16 agents on a 4 × 4 grid, actions in R^5, 3000 rounds, K = 50 to 5,000. LinearBlockGossip learns
one vector; FedExp3, with its default, the constants of figure 1 and the best of several, learns K
numbers.
The sets of actions are nested and the best action is in all of them, so that neither the best loss
nor, but for chance, the mean loss moves with K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

import fedbandits as fb

from .figure1 import EXPLORATION, LEARNING_RATE
from .measure import Interval, in_threads, interval, resamples, span
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

ROWS, COLS = 4, 4
AGENTS = ROWS * COLS
DIMENSION = 5
GOAL = 1.5
"""By how much regret may grow over all K where only the dimension matters."""

LINEAR = "LinearBlockGossip"
DEFAULT = "FedExp3()"
FIGURE1 = "FedExp3, figure 1"
TUNED = "FedExp3, best constant"
UNIFORM = "uniform play"


@dataclass(frozen=True)
class Sizes:
    """What is played.

    Attributes:
        arms: K, one after another.
        constants: learning rates FedExp3 is tuned over, at each K by itself and in hindsight;
            figure 1's among them.
        horizon: T.
        draws: of actions and losses, one run each: between runs of one draw little differs.
    """

    arms: tuple[int, ...]
    constants: tuple[float, ...]
    horizon: int
    draws: int


FULL = Sizes(
    arms=(50, 200, 1000, 5000),
    constants=(0.003, 0.01, 0.03, LEARNING_RATE, 0.3),
    horizon=3000,
    draws=5,
)
QUICK = Sizes(arms=(20, 400), constants=(0.03, LEARNING_RATE), horizon=1000, draws=2)


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play, draw and write regret against the number of arms.

    Writes `linear_arms` as .png, .pdf and .svg, `linear.csv` and `linear.nc` into `options.out`.
    `options.runs` are the draws of actions and losses.
    """
    sizes = sizes or (QUICK if options.quick else FULL)
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    tuned = ", ".join(f"{c:g}" for c in sizes.constants)
    section = Section(
        "linear",
        "Linear losses: many arms in few dimensions",
        options.command("linear"),
        settings={
            "problem": f"linear({AGENTS}, K, {sizes.horizon}, dimension={DIMENSION}), "
            f"{sizes.draws} draws of actions and losses, seeds {options.seed * sizes.draws} on; "
            f"of {max(sizes.arms):,} actions the best comes first, and every K has the first K",
            "gossip": f"max_degree(grid({ROWS}, {COLS}), lazy=False)",
            LINEAR: "its defaults, which depend on the network, K, d and t",
            "FedExp3": f"its default; figure 1: learning_rate={LEARNING_RATE}, "
            f"exploration={EXPLORATION}; best constant: of {tuned} the one with the "
            "smallest mean regret at that K, in hindsight",
        },
    )
    with section.timed(f"{sizes.draws} draws, {len(sizes.arms)} sizes"):
        data = play(sizes, options.seed)
    section.add_netcdf(options.out, "linear", data)
    points, growth = regret_points(data), regret_growth(data)
    section.add_csv(options.out, "linear.csv", points)
    section.tables += [arms_table(points, data), growth_table(growth, sizes)]
    section.add_picture(options.out, draw_arms(points), PICTURE)
    section.paragraphs += findings(data, growth)
    return section


def problem_of(arms: int, most: int, horizon: int, seed: int) -> fb.Problem:
    """The first K of `most` actions, the one nearest to the best direction being the first."""
    every = fb.problems.linear(AGENTS, most, horizon, dimension=DIMENSION, seed=seed)
    features = every.actions[:, 1:]
    best = int(np.argmin(features @ every.mean))
    first = np.concatenate([[best], np.delete(np.arange(most), best)])[:arms]
    return fb.problems.linear(AGENTS, arms, horizon, features=features[first], seed=seed)


def play(sizes: Sizes, seed: int) -> xr.Dataset:
    """Expected regret at T, mean over agents, of every algorithm on the same losses.

    Returns:
        `linear` and `default`, `[arms, draw]`; `fedexp3`, `[constant, arms, draw]`; `uniform` and
        `best_loss`, exact regret of uniform play and mean loss of the best arm, `[arms, draw]`;
        `numbers` and `block` of LinearBlockGossip, the numbers in a message and the rounds in a
        block.
    """
    import xarray as xr

    gossip = fb.gossip.max_degree(fb.networks.grid(ROWS, COLS), lazy=False)
    players: dict[str, fb.algorithms.AnyAlgorithm] = {LINEAR: fb.LinearBlockGossip()}
    players |= {DEFAULT: fb.FedExp3()}
    players |= {f"{c:g}": fb.FedExp3(c, EXPLORATION) for c in sizes.constants}
    seeds = [seed * sizes.draws + draw for draw in range(sizes.draws)]

    def one(cell: tuple[int, str, int]) -> tuple[float, float, float]:
        arms, name, draw = cell
        problem = problem_of(arms, max(sizes.arms), sizes.horizon, draw)
        result = fb.simulate(problem, players[name], gossip, 1, seed=draw, progress=False)
        last = result.dataset.isel(time=-1)
        best = float(last["arm_loss"].min()) / sizes.horizon
        return float(last["expected_regret"].item()), result.uniform_regret, best

    cells = list(product(sizes.arms, players, seeds))
    found = np.array(in_threads(one, cells, "linear losses"))
    regret, uniform, best = np.moveaxis(
        found.reshape(len(sizes.arms), len(players), len(seeds), 3), -1, 0
    )
    of_arms = ("arms", "draw")
    ready = fb.LinearBlockGossip().set_up(
        fb.algorithms.base.Setting(
            sizes.arms[0],
            AGENTS,
            gossip,
            problem_of(sizes.arms[0], max(sizes.arms), sizes.horizon, seeds[0]).actions,
        )
    )
    sent = ready.message(ready.init(sizes.arms[0], AGENTS))
    return xr.Dataset(
        {
            "linear": (of_arms, regret[:, 0]),
            "default": (of_arms, regret[:, 1]),
            "fedexp3": (("constant", *of_arms), np.moveaxis(regret[:, 2:], 1, 0)),
            "uniform": (of_arms, uniform[:, 0]),
            "best_loss": (of_arms, best[:, 0]),
            "numbers": sum(x.shape[0] for x in sent.values()),
            "block": ready.block,
        },
        coords={"constant": list(sizes.constants), "arms": list(sizes.arms), "draw": seeds},
        attrs={"horizon": sizes.horizon},
    )


def by_algorithm(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Regret `[arms, draw]` by algorithm; the best constant is chosen at each K by itself."""
    best = data["fedexp3"].mean("draw").argmin("constant")
    return {
        LINEAR: data["linear"],
        DEFAULT: data["default"],
        FIGURE1: data["fedexp3"].sel(constant=LEARNING_RATE, drop=True),
        TUNED: data["fedexp3"].isel(constant=best).drop_vars("constant"),
        UNIFORM: data["uniform"],
    }


def best_constants(data: xr.Dataset) -> xr.DataArray:
    """The learning rate of FedExp3 with the smallest mean regret, `[arms]`."""
    means = data["fedexp3"].mean("draw")
    return data["constant"][means.argmin("constant")]


def regret_points(data: xr.Dataset) -> pd.DataFrame:
    """One row per algorithm and K: the mean over draws with its 95% interval."""
    import pandas as pd

    network, horizon, draws = f"grid({ROWS}, {COLS})", data.attrs["horizon"], data.sizes["draw"]
    rows = [
        (network, name, horizon, *interval(values.sel(arms=arms)), draws, int(arms))
        for name, values in by_algorithm(data).items()
        for arms in data["arms"].to_numpy()
    ]
    columns = ["network", "algorithm", "time", "mean", "low", "high", "runs", "arms"]
    return pd.DataFrame(rows, columns=columns)


def regret_growth(data: xr.Dataset) -> dict[str, Interval]:
    """Regret at the largest K over regret at the smallest: of the means, bootstrap over draws."""
    again = resamples(data.sizes["draw"])
    growth = {}
    for name, values in by_algorithm(data).items():
        first, last = values.isel(arms=0).to_numpy(), values.isel(arms=-1).to_numpy()
        ratios = last[again].mean(axis=1) / first[again].mean(axis=1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        growth[name] = Interval(last.mean() / first.mean(), float(low), float(high))
    return growth


def arms_table(points: pd.DataFrame, data: xr.Dataset) -> Table:
    """Regret at T by K."""
    cells = points.set_index(["arms", "algorithm"])
    constants = best_constants(data)
    rows = []
    for arms in data["arms"].to_numpy():
        row = [f"{arms:,}"]
        for name in (LINEAR, DEFAULT, FIGURE1, TUNED):
            of = cells.loc[(arms, name)]
            half = (of["high"] - of["low"]) / 2
            row.append(f"{of['mean']:.1f}" + ("" if np.isnan(half) else f" ± {half:.1f}"))
        best = float(constants.sel(arms=arms))
        edge = best in (float(data["constant"][0]), float(data["constant"][-1]))
        row.append(f"{best:g}{' (edge)' * edge}")
        row.append(f"{cells.loc[(arms, UNIFORM)]['mean']:.1f}")
        row.append(f"{float(data['best_loss'].sel(arms=arms).mean()):.4f}")
        rows.append(row)
    columns = ("K", LINEAR, DEFAULT, FIGURE1, "best constant", "which", UNIFORM, "best action")
    note = (
        f"Expected regret at T = {data.attrs['horizon']:,}, mean over agents, with 95% intervals "
        f"over {data.sizes['draw']} draws of actions and losses. Best constant: FedExp3 with the "
        "learning rate that is best at that K. Uniform play's regret is exact. Best action: its "
        "mean loss."
    )
    return Table("Regret by the number of arms", columns, rows, note)


def growth_table(growth: dict[str, Interval], sizes: Sizes) -> Table:
    """How much regret grows from the smallest to the largest K."""
    rows = [(name, f"{g.mean:.2f}", span(g.low, g.high)) for name, g in growth.items()]
    columns = ("algorithm", "growth", "95% interval")
    note = (
        f"Regret at K = {max(sizes.arms):,} over regret at K = {min(sizes.arms):,}; bootstrap over "
        "draws. That the best constant was chosen on the same draws is not in its interval."
    )
    return Table("Growth with the number of arms", columns, rows, note)


def findings(data: xr.Dataset, growth: dict[str, Interval]) -> list[str]:
    """What was found, in words made from the numbers."""
    arms = data["arms"].to_numpy()
    regrets = {name: values.mean("draw") for name, values in by_algorithm(data).items()}
    linear, theirs = regrets[LINEAR], regrets[TUNED]
    small = ", ".join(f"{k:,}" for k in arms[(linear > theirs).to_numpy()])
    best = data["best_loss"].mean("draw").to_numpy()
    met = "met" if growth[LINEAR].mean <= GOAL else f"missed by {growth[LINEAR].mean - GOAL:.2f}"
    sqrt_log = np.sqrt(np.log(arms[-1]) / np.log(arms[0]))
    end = {name: float(values[-1] / regrets[UNIFORM][-1]) for name, values in regrets.items()}
    return [
        f"From K = {arms[0]:,} to {arms[-1]:,} the regret of {LINEAR} grows "
        f"{growth[LINEAR].mean:.2f} times (95%: {span(*growth[LINEAR][1:])}), where sqrt(ln K) "
        f"grows {sqrt_log:.2f} times; the goal of at most {GOAL} is {met}. FedExp3's grows "
        f"{growth[DEFAULT].mean:.2f} times with its default, {growth[FIGURE1].mean:.2f} times with "
        "the constants of figure 1 and "
        f"{growth[TUNED].mean:.2f} times with the best constant at each K.",
        f"At K = {arms[-1]:,} {LINEAR} has {end[LINEAR]:.0%} of the regret of uniform play, "
        f"FedExp3 {end[DEFAULT]:.0%}, and {end[TUNED]:.0%} with the best constant. "
        + (
            f"Where arms are few FedExp3 needs no structure and is ahead: at K = {small} with its "
            "best constant."
            if small
            else "It is ahead of FedExp3 at every K."
        ),
        f"The problem itself hardly changes: the best action's mean loss is {best.min():.4f} to "
        f"{best.max():.4f}, and uniform play's regret grows {growth[UNIFORM].mean:.2f} times. A "
        f"message of {LINEAR} has {int(data['numbers'])} numbers at every K, of FedExp3 K numbers; "
        f"its blocks have {int(data['block'])} rounds.",
    ]


PICTURE = Picture(
    "linear_arms",
    "Expected regret against the number of arms where losses are linear in actions of "
    f"{DIMENSION} dimensions. Bars are 95% intervals over draws of actions and losses.",
    "Regret of LinearBlockGossip, FedExp3 and uniform play against the number of arms, on a "
    "logarithmic axis of arms.",
)


def draw_arms(points: pd.DataFrame) -> Figure:
    """Regret against K, algorithm by algorithm."""
    from fedbandits.results.plots import COLOURS, figure_of, legend_below, new_axes

    ax = new_axes()
    for i, (name, rows) in enumerate(points.groupby("algorithm", sort=False)):
        if name == UNIFORM:
            ax.plot(rows["arms"], rows["mean"], "k:", label=name)
            continue
        bars = (rows["mean"] - rows["low"], rows["high"] - rows["mean"])
        style = "osD^"[i] + "-"
        ax.errorbar(rows["arms"], rows["mean"], bars, fmt=style, ms=4, color=COLOURS[i], label=name)
    ax.set_xscale("log")
    arms = sorted(points["arms"].unique())
    ax.set_xticks(arms, [f"{k:,}" for k in arms])
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.set_xlabel("number of arms K")
    ax.set_ylabel("cumulative regret")
    ax.set_title(f"{ROWS} × {COLS} grid, T = {points['time'].iloc[0]:,}", fontsize="medium")
    legend_below(ax)
    return figure_of(ax)
