"""Linear losses: regret against the number of arms K, with arms in few dimensions.

16 agents on a 4 × 4 grid, actions in R^5, 3000 rounds, K = 50 to 5,000. LinearBlockGossip learns
one vector; FedExp3 learns K numbers, with its default, the constants of figure 1 and the best of
several. The sets of actions are nested and all contain the best action, so that the best loss does
not depend on K, and the mean loss only by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.common.statistics import Interval, interval
from fedbandits.paper.cells import in_threads
from fedbandits.paper.figure1 import EXPLORATION, LEARNING_RATE
from fedbandits.paper.intervals import span, with_half
from fedbandits.paper.pictures import Picture, draw_points, finished
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import new_axes

from .ratios import mean_ratio

ROWS, COLS = 4, 4
AGENTS = ROWS * COLS
DIMENSION = 5
GOAL = 1.5
"""The largest growth of regret over all K if only the dimension matters."""

LINEAR = "LinearBlockGossip"
DEFAULT = "FedExp3()"
FIGURE1 = "FedExp3, figure 1"
TUNED = "FedExp3, best constant"
UNIFORM = "uniform play"


@dataclass(frozen=True)
class Sizes:
    """Sizes of the study.

    Attributes:
        arms: K, one after another.
        constants: learning rates of which FedExp3 has the best in hindsight, for each K; figure
            1's among them.
        horizon: T.
        draws: of actions and losses, with one run each, because runs of one draw differ little.
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


def reproduce(options: Options) -> Section:
    """Play, draw and write regret against the number of arms.

    Writes `linear_arms` as .png, .pdf and .svg, `linear.csv` and `linear.nc` into `options.out`.
    `options.runs` are the draws of actions and losses.
    """
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    section = options.section(
        "linear",
        "Linear losses: many arms in few dimensions",
        {
            "problem": f"linear({AGENTS}, K, {sizes.horizon}, dimension={DIMENSION}), "
            f"{sizes.draws} draws of actions and losses, seeds {options.seed * sizes.draws} on; "
            f"of {max(sizes.arms):,} actions the best comes first, and every K has the first K",
            "gossip": f"max_degree(grid({ROWS}, {COLS}), lazy=False)",
            LINEAR: "its defaults, which depend on the network, K, d and t",
            "FedExp3": f"its default; figure 1: learning_rate={LEARNING_RATE}, "
            f"exploration={EXPLORATION}; best constant: of "
            f"{', '.join(f'{c:g}' for c in sizes.constants)} the one with the smallest mean regret "
            "at that K, in hindsight",
        },
    )
    with section.timed(f"{sizes.draws} draws, {len(sizes.arms)} sizes"):
        data = play(sizes, options.seed)
    section.add_netcdf(options.out, "linear", data)
    points, growth = regret_points(data), regret_growth(data)
    section.add_csv(options.out, "linear.csv", points)
    section.tables += [arms_table(data), growth_table(growth, sizes)]
    section.add_picture(options.out, draw_arms(points), PICTURE)
    section.paragraphs += findings(data, growth)
    return section


def problem_of(arms: int, most: int, horizon: int, seed: int) -> fb.Problem:
    """Return the problem with the first K of `most` actions, with the best action first."""
    every = fb.problems.linear(AGENTS, most, horizon, dimension=DIMENSION, seed=seed)
    features = every.actions[:, 1:]
    best = int(np.argmin(features @ every.mean))
    first = np.concatenate([[best], np.delete(np.arange(most), best)])[:arms]
    return fb.problems.linear(AGENTS, arms, horizon, features=features[first], seed=seed)


def play(sizes: Sizes, seed: int) -> xr.Dataset:
    """Return the expected regret at T, mean over agents, of every algorithm on the same losses.

    Returns:
        `linear` and `default`, `[arms, draw]`; `fedexp3`, `[constant, arms, draw]`; `uniform` and
        `best_loss`, exact regret of uniform play and mean loss of the best arm, `[arms, draw]`;
        `numbers` and `block` of LinearBlockGossip, the numbers in a message and the rounds in a
        block.
    """
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
    few = sizes.arms[0]
    actions = problem_of(few, max(sizes.arms), sizes.horizon, seeds[0]).actions
    ready = fb.LinearBlockGossip().set_up(fb.algorithms.base.Setting(few, AGENTS, gossip, actions))
    return xr.Dataset(
        {
            "linear": (of_arms, regret[:, 0]),
            "default": (of_arms, regret[:, 1]),
            "fedexp3": (("constant", *of_arms), np.moveaxis(regret[:, 2:], 1, 0)),
            "uniform": (of_arms, uniform[:, 0]),
            "best_loss": (of_arms, best[:, 0]),
            "numbers": sum(x.shape[0] for x in ready.message(ready.init(few, AGENTS)).values()),
            "block": ready.block,
        },
        coords={"constant": list(sizes.constants), "arms": list(sizes.arms), "draw": seeds},
        attrs={"horizon": sizes.horizon},
    )


def by_algorithm(data: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return regret `[arms, draw]` by algorithm; each K has its own best constant."""
    best = data["fedexp3"].mean("draw").argmin("constant")
    return {
        LINEAR: data["linear"],
        DEFAULT: data["default"],
        FIGURE1: data["fedexp3"].sel(constant=LEARNING_RATE, drop=True),
        TUNED: data["fedexp3"].isel(constant=best).drop_vars("constant"),
        UNIFORM: data["uniform"],
    }


def regret_points(data: xr.Dataset) -> pd.DataFrame:
    """Return the mean over draws with its 95% interval, for each algorithm and K."""
    network, horizon, draws = f"grid({ROWS}, {COLS})", data.attrs["horizon"], data.sizes["draw"]
    rows = [
        (network, name, horizon, *interval(values.sel(arms=arms)), draws, int(arms))
        for name, values in by_algorithm(data).items()
        for arms in data["arms"].to_numpy()
    ]
    columns = ["network", "algorithm", "time", "mean", "low", "high", "runs", "arms"]
    return pd.DataFrame(rows, columns=columns)


def regret_growth(data: xr.Dataset) -> dict[str, Interval]:
    """Return regret at the largest K over regret at the smallest, by algorithm."""
    ends = {name: values.isel(arms=[-1, 0]) for name, values in by_algorithm(data).items()}
    return {name: mean_ratio([tuple(values.to_numpy())]) for name, values in ends.items()}


def arms_table(data: xr.Dataset) -> Table:
    """Return regret at T by K."""
    regrets, tried = by_algorithm(data), data["constant"].to_numpy()

    def regret(name: str, arms: int) -> str:
        return with_half(interval(regrets[name].sel(arms=arms)))

    def constant(arms: int) -> str:
        place = int(data["fedexp3"].sel(arms=arms).mean("draw").to_numpy().argmin())
        return f"{tried[place]:g}{' (edge)' * (place in (0, len(tried) - 1))}"

    return Table.of(
        "Regret by the number of arms",
        data["arms"].to_numpy(),
        [
            ("K", lambda arms: f"{arms:,}"),
            (LINEAR, lambda arms: regret(LINEAR, arms)),
            (DEFAULT, lambda arms: regret(DEFAULT, arms)),
            (FIGURE1, lambda arms: regret(FIGURE1, arms)),
            ("best constant", lambda arms: regret(TUNED, arms)),
            ("which", constant),
            (UNIFORM, lambda arms: f"{float(regrets[UNIFORM].sel(arms=arms).mean()):.1f}"),
            ("best action", lambda arms: f"{float(data['best_loss'].sel(arms=arms).mean()):.4f}"),
        ],
        f"Expected regret at T = {data.attrs['horizon']:,}, mean over agents, with 95% intervals "
        f"over {data.sizes['draw']} draws of actions and losses. Best constant: FedExp3 with the "
        "learning rate that is best at that K. Uniform play's regret is exact. Best action: its "
        "mean loss.",
    )


def growth_table(growth: dict[str, Interval], sizes: Sizes) -> Table:
    """Return the growth of regret from the smallest to the largest K."""
    return Table.of(
        "Growth with the number of arms",
        growth,
        [
            ("algorithm", str),
            ("growth", lambda name: f"{growth[name].mean:.2f}"),
            ("95% interval", lambda name: span(*growth[name][1:])),
        ],
        f"Regret at K = {max(sizes.arms):,} over regret at K = {min(sizes.arms):,}; bootstrap over "
        "draws. That the best constant was chosen on the same draws is not in its interval.",
    )


def findings(data: xr.Dataset, growth: dict[str, Interval]) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    arms = data["arms"].to_numpy()
    regrets = {name: values.mean("draw") for name, values in by_algorithm(data).items()}
    small = ", ".join(f"{k:,}" for k in arms[(regrets[LINEAR] > regrets[TUNED]).to_numpy()])
    best = data["best_loss"].mean("draw").to_numpy()
    met = "met" if growth[LINEAR].mean <= GOAL else f"missed by {growth[LINEAR].mean - GOAL:.2f}"
    sqrt_log = np.sqrt(np.log(arms[-1]) / np.log(arms[0]))
    end = {name: float(values[-1] / regrets[UNIFORM][-1]) for name, values in regrets.items()}
    return [
        f"From K = {arms[0]:,} to {arms[-1]:,} the regret of {LINEAR} grows "
        f"{growth[LINEAR].mean:.2f} times (95%: {span(*growth[LINEAR][1:])}), where sqrt(ln K) "
        f"grows {sqrt_log:.2f} times; the goal of at most {GOAL} is {met}. FedExp3's grows "
        f"{growth[DEFAULT].mean:.2f} times with its default, {growth[FIGURE1].mean:.2f} times with "
        f"the constants of figure 1 and {growth[TUNED].mean:.2f} times with the best constant at "
        "each K.",
        f"At K = {arms[-1]:,} {LINEAR} has {end[LINEAR]:.0%} of the regret of uniform play, "
        f"FedExp3 {end[DEFAULT]:.0%}, and {end[TUNED]:.0%} with the best constant. "
        + (
            f"With few arms FedExp3 needs no structure and is ahead: at K = {small} with its best "
            "constant."
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
    """Draw regret against K, algorithm by algorithm."""
    ax = new_axes()
    for i, (name, rows) in enumerate(points.groupby("algorithm", sort=False)):
        if name == UNIFORM:
            ax.plot(rows["arms"], rows["mean"], "k:", label=name)
            continue
        draw_points(ax, rows["arms"], rows[["mean", "low", "high"]], i, str(name))
    ax.set_xscale("log")
    arms = sorted(points["arms"].unique())
    ax.set_xticks(arms, [f"{k:,}" for k in arms])
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    title = f"{ROWS} × {COLS} grid, T = {points['time'].iloc[0]:,}"
    return finished(ax, "number of arms K", "cumulative regret", title)
