"""Slow networks and long runs: the small-loss rate is weak there; the default is compared with it.

The price of gossip: the regret of constant rates in the second half of a long run, after learning,
comes from noise alone. Long runs: agents who disagree on a path and a star, at T and at 4 T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.common.statistics import interval
from fedbandits.engine import totals
from fedbandits.gossip.scatter import scatter
from fedbandits.paper.cells import KeptCells, in_threads
from fedbandits.paper.figure1 import EXPLORATION
from fedbandits.paper.intervals import Floats, exponent, span
from fedbandits.paper.pictures import Picture, draw_points, finished
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import new_axes, plain_log
from fedbandits.simulation.simulation import Simulation

from .ratios import ratio_columns
from .suite import BEST, DEFAULT, Case, Seeds, Sizes, networks, play_case, ratio

SMALL_LOSS = "small_loss"
SLOW = ("path", "star")
LONGER = 4
"""Times T, for a long run."""
RATES = (0.03, 0.0533, 0.0949, 0.169)
GOAL_LONG = 1.5
SPREADS = (0.4, 0.0)
"""Of the agents' mean losses about the mean over agents: as in the suite, and none."""


class Price(NamedTuple):
    """The cost of noise on one network, once the best arm is learned.

    Attributes:
        network: its name.
        spread: of the agents' mean losses.
        scatter: of the gossip.
        rates: constants.
        costs: regret a round in the second half of a long run, `[rates, draws]`.
    """

    network: str
    spread: float
    scatter: float
    rates: Sequence[float]
    costs: Floats

    @property
    def power(self) -> float:
        """The power of the rate with which costs grow."""
        return exponent(self.rates, self.costs).mean


def study(section: Section, options: Options, seeds: Seeds, sizes: Sizes, kept: KeptCells) -> None:
    """Add tables, findings and a picture; write `price_of_gossip` as .png, .pdf and .svg."""
    with section.timed("slow networks, long runs"):
        prices, cases = price_of_gossip(seeds, sizes, kept), long_runs(seeds, sizes, kept)
    section.tables += [price_table(prices), long_table(cases)]
    section.add_picture(options.out, draw_prices(prices), PICTURE)
    section.paragraphs += [*price_findings(prices), *findings(cases)]


def disagreeing(sizes: Sizes, spread: float = 0.4) -> Callable[[int], fb.problems.Problem]:
    """Return the problem of a seed, with agents who disagree; with spread 0 they agree."""
    return lambda seed: fb.problems.heterogeneous(*sizes.shape, spread=spread, seed=seed)


def price_of_gossip(seeds: Seeds, sizes: Sizes, kept: KeptCells) -> list[Price]:
    """Play constant rates on a complete graph, a path and a star, with and without disagreement."""
    gossips, longer = networks(sizes), replace(sizes, horizon=LONGER * sizes.horizon)
    half = longer.horizon // 2

    def one(cell: tuple[str, float]) -> Price:
        network, spread = cell
        gossip, costs = gossips[network], []
        problems = [disagreeing(longer, spread)(seed) for seed in seeds.judging]
        for rate in RATES:
            player = fb.FedExp3(rate, EXPLORATION)
            seed = seeds.judging[0]
            simulation = Simulation(problems[0], player, gossip, runs=1, seed=seed)
            found = totals.play_totals(simulation.on(problems), times=[half, 2 * half])
            regret = found["expected_regret"].mean(["run", "agent"]).to_numpy()
            costs.append((regret[1] - regret[0]) / half)
        return Price(network, spread, scatter(gossip), RATES, np.array(costs))

    cells = [(network, spread) for network in ("complete", *SLOW) for spread in SPREADS]
    return in_threads(kept.keeping(lambda parts: Price(*parts), one), cells, "price of gossip")


def long_runs(seeds: Seeds, sizes: Sizes, kept: KeptCells) -> list[Case]:
    """Play the small-loss rate, the default and the best constant, at T and at 4 T."""
    gossips = networks(sizes)
    players = {
        SMALL_LOSS: fb.FedExp3(fb.schedules.small_loss(), EXPLORATION),
        DEFAULT: fb.FedExp3(),
    }

    def one(cell: tuple[str, int]) -> Case:
        network, horizon = cell
        make = disagreeing(replace(sizes, horizon=horizon))
        return play_case(f"T = {horizon:,}", network, make, gossips[network], players, seeds, sizes)

    horizons = (sizes.horizon, LONGER * sizes.horizon)
    cells = [(name, T) for name in SLOW for T in horizons]
    return in_threads(kept.keeping(lambda parts: Case(*parts), one), cells, "slow networks")


def price_table(prices: list[Price]) -> Table:
    """Return regret a round, by network and rate."""
    rows = [
        (
            f"{price.network}, {'agents disagree' if price.spread else 'agents agree'}",
            f"{price.scatter:.1f}",
            *(f"{1000 * cost:.2f}" for cost in price.costs.mean(axis=1)),
            f"{price.power:.2f}",
        )
        for price in prices
    ]
    columns = ("network", "scatter", *(f"{rate:.3g}" for rate in RATES), "power of the rate")
    note = (
        "Regret a round, times 1,000, in the second half of a run of 4 T, at constant learning "
        "rates; gap 0.1. The last column is the slope of its logarithm in that of the rate."
    )
    return Table("The price of gossip", columns, rows, note)


def price_findings(prices: list[Price]) -> list[str]:
    """Return how the price grows with the rate, in sentences made from the numbers."""
    slow_ones = [price for price in prices if price.network in SLOW]
    fast = [price.power for price in prices if price.network not in SLOW]
    slow = [price.power for price in slow_ones]
    agree, disagree = (
        np.mean([p.costs.mean(axis=1) for p in slow_ones if (p.spread > 0) == spread], 0)
        for spread in (False, True)
    )
    more = disagree / agree
    return [
        "Once the best arm is known, regret a round grows as a power of the rate: "
        f"{min(fast):.2f} to {max(fast):.2f} on the complete graph, {min(slow):.2f} to "
        f"{max(slow):.2f} on path and star. On path and star agents who disagree pay "
        f"{min(more):.1f} to {max(more):.1f} times what agents with the same mean losses pay, "
        "depending on the rate."
    ]


PICTURE = Picture(
    "price_of_gossip",
    "Regret a round once the best arm is known, at constant learning rates, in the second half of "
    f"a run of {LONGER} T: filled where agents disagree, hollow where all have the same mean "
    "losses. Bars are 95%, over draws of the losses. Dashed: slopes of a price in proportion to "
    "the rate and to its square, which the argument for slow networks predicts.",
    "Lines on log axes, regret a round by learning rate: that of the complete graph rises with "
    "the rate, those of path and star faster.",
)


def draw_prices(prices: list[Price]) -> Figure:
    """Draw regret a round by rate, with a line for each network and kind of agents."""
    ax = new_axes()
    order = list(dict.fromkeys(price.network for price in prices))
    for price in prices:
        found = [interval(costs) for costs in price.costs]
        label = f"{price.network}, {'disagree' if price.spread else 'agree'}"
        hollow = {} if price.spread else {"mfc": "white"}
        draw_points(ax, price.rates, found, order.index(price.network), label, **hollow)
    lowest = min(price.costs[0].mean() for price in prices)
    style: dict[str, Any] = {"va": "center", "color": "0.4", "fontsize": "small"}
    for power, name in ((1, "rate"), (2, "rate²")):
        guide = 0.8 * lowest * (np.array(RATES) / RATES[0]) ** power
        ax.plot(RATES, guide, color="0.5", ls="--", lw=0.8, zorder=0)
        ax.annotate(name, (RATES[-1], guide[-1]), (3, 0), textcoords="offset points", **style)
    plain_log(ax)
    ax.set_xticks(RATES, [f"{rate:.2g}" for rate in RATES])
    ax.minorticks_off()
    return finished(ax, "constant learning rate", "regret a round")


def long_table(cases: list[Case]) -> Table:
    """Compare both rates with the best constant."""
    return Table.of(
        "Slow networks, long runs",
        cases,
        [
            ("case", lambda case: f"{case.network}, {case.family}"),
            ("best constant", lambda case: case.chosen),
            ("its regret", lambda case: case.mean(BEST)),
            *ratio_columns(SMALL_LOSS, lambda case: ratio(case, SMALL_LOSS)),
            *ratio_columns(DEFAULT, lambda case: ratio(case, DEFAULT)),
            ("default's regret", lambda case: case.mean(DEFAULT)),
        ],
        "Ratios to the regret of the best of 13 constants, chosen for each case on other draws; "
        "agents who disagree, gap 0.1.",
    )


def findings(cases: list[Case]) -> list[str]:
    """Return the worst of the long runs, in sentences made from the numbers."""
    longest = cases[-1].family  # each network has its short run first
    last = [case for case in cases if case.family == longest]
    old, new = (
        max((ratio(case, label) for case in last), key=lambda found: found.mean)
        for label in (SMALL_LOSS, DEFAULT)
    )
    return [
        f"At {longest} on path and star, where agents disagree, the small-loss rate pays up to "
        f"{old.mean:.2f} times (95%: {span(old.low, old.high)}) what the best constant pays, the "
        f"default up to {new.mean:.2f} times (95%: {span(new.low, new.high)}; goal {GOAL_LONG}: "
        f"{'met' if new.mean <= GOAL_LONG else 'missed'})."
    ]
