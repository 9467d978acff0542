"""Slow networks and long runs: why the small-loss rate is weak there, and what the default does.

The price of gossip: what constant rates pay in the second half of a long run, when learning is
over and only noise is left. And agents who disagree on a path and a star, at T and at 4 T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import fedbandits as fb
from fedbandits.gossip.scatter import scatter
from fedbandits.simulation.simulation import Simulation

from .figure1 import EXPLORATION
from .kept_cells import KeptCells
from .measure import exponent, in_threads, interval, span
from .section import Options, Picture, Section, Table
from .suite import BEST, DEFAULT, Case, Floats, Seeds, Sizes, networks, play_case, ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL_LOSS = "small_loss"
SLOW = ("path", "star")
LONGER = 4
"""Times T, for a long run."""
RATES = (0.03, 0.0533, 0.0949, 0.169)
GOAL_LONG = 1.5
SPREADS = (0.4, 0.0)
"""Of the agents' mean losses about those of all: as in the suite, and none."""


class Price(NamedTuple):
    """What noise costs on one network, once it is known which arm is best.

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


def study(section: Section, options: Options, seeds: Seeds, sizes: Sizes, kept: KeptCells) -> None:
    """Add tables, findings and a picture; writes `price_of_gossip` as .png, .pdf and .svg."""
    with section.timed("slow networks, long runs"):
        prices, cases = price_of_gossip(seeds, sizes, kept), long_runs(seeds, sizes, kept)
    section.tables += [price_table(prices), long_table(cases)]
    section.add_picture(options.out, draw_prices(prices), PICTURE)
    section.paragraphs += [*price_findings(prices), *findings(cases)]


def disagreeing(sizes: Sizes, spread: float = 0.4) -> Callable[[int], fb.problems.Problem]:
    """The problem of a seed: agents who disagree, or of spread 0 who do not."""
    shape = (sizes.agents, sizes.arms, sizes.horizon)
    return lambda seed: fb.problems.heterogeneous(*shape, spread=spread, seed=seed)


def price_of_gossip(seeds: Seeds, sizes: Sizes, kept: KeptCells) -> list[Price]:
    """Constant rates on a complete graph, a path and a star, with and without disagreement."""
    from fedbandits.engine.totals import play_totals

    gossips, longer = networks(sizes), replace(sizes, horizon=LONGER * sizes.horizon)

    def one(cell: tuple[str, float]) -> Price:
        network, spread = cell
        problems = [disagreeing(longer, spread)(seed) for seed in seeds.judging]
        half, costs = longer.horizon // 2, []
        for rate in RATES:
            algorithm, seed = fb.FedExp3(rate, EXPLORATION), seeds.judging[0]
            simulation = Simulation(problems[0], algorithm, gossips[network], runs=1, seed=seed)
            found = play_totals(simulation.on(problems), times=[half, 2 * half])
            regret = found["expected_regret"].mean(["run", "agent"]).to_numpy()
            costs.append((regret[1] - regret[0]) / half)
        return Price(network, spread, scatter(gossips[network]), RATES, np.array(costs))

    cells = [(network, spread) for network in ("complete", *SLOW) for spread in SPREADS]
    return in_threads(kept.keeping(lambda parts: Price(*parts), one), cells, "price of gossip")


def long_runs(seeds: Seeds, sizes: Sizes, kept: KeptCells) -> list[Case]:
    """The small-loss rate, the default and the best constant, at T and at 4 T."""
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
    """Regret a round, by network and rate."""
    rows = [
        (
            f"{price.network}, {'agents disagree' if price.spread else 'agents agree'}",
            f"{price.scatter:.1f}",
            *(f"{1000 * cost:.2f}" for cost in price.costs.mean(axis=1)),
            f"{exponent(price.rates, price.costs).mean:.2f}",
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
    """How the price grows with the rate, in words made from the numbers."""
    fast, slow = (
        [
            exponent(price.rates, price.costs).mean
            for price in prices
            if (price.network in SLOW) == s
        ]
        for s in (False, True)
    )
    agree, disagree = (
        np.mean(
            [p.costs.mean(axis=1) for p in prices if p.network in SLOW and (p.spread > 0) == s], 0
        )
        for s in (False, True)
    )
    more = disagree / agree
    return [
        "Once the best arm is known, a round costs about the rate to the power of "
        f"{min(fast):.2f} to {max(fast):.2f} on the complete graph and of {min(slow):.2f} to "
        f"{max(slow):.2f} on path and star. On path and star agents who disagree pay "
        f"{min(more):.1f} to {max(more):.1f} times what agents pay whose losses have the same "
        "means, by the rate."
    ]


PICTURE = Picture(
    "price_of_gossip",
    "What a round costs once it is known which arm is best, at constant learning rates, in the "
    f"second half of a run of {LONGER} T: filled where agents disagree, hollow where the losses of "
    "all have the same means. Bars are 95%, over draws of the losses. Dashed: how steep a price in "
    "proportion to the rate would be, and one in proportion to its square, which the argument for "
    "agents whose news is slow has.",
    "Lines on log axes, regret a round by learning rate: that of the complete graph rises with "
    "the rate, those of path and star faster.",
)


def draw_prices(prices: list[Price]) -> Figure:
    """Regret a round by rate, a line for each network and kind of agents."""
    from fedbandits.results.plots import COLOURS, figure_of, legend_below, new_axes, plain_log

    ax = new_axes()
    order = list(dict.fromkeys(price.network for price in prices))
    for price in prices:
        i = order.index(price.network)
        found = [interval(costs) for costs in price.costs]
        mean = np.array([f.mean for f in found])
        ax.errorbar(
            price.rates,
            mean,
            np.maximum([[f.mean - f.low for f in found], [f.high - f.mean for f in found]], 0),
            fmt=f"-{'os^'[i]}",
            ms=4,
            color=COLOURS[i],
            mfc=COLOURS[i] if price.spread else "white",
            label=f"{price.network}, {'disagree' if price.spread else 'agree'}",
        )
    lowest = min(price.costs[0].mean() for price in prices)
    for power in (1, 2):
        guide = 0.8 * lowest * (np.array(RATES) / RATES[0]) ** power
        ax.plot(RATES, guide, color="0.5", ls="--", lw=0.8, zorder=0)
        ax.annotate(
            ("rate", "rate²")[power - 1],
            (RATES[-1], guide[-1]),
            (3, 0),
            textcoords="offset points",
            va="center",
            color="0.4",
            fontsize="small",
        )
    plain_log(ax)
    ax.set_xticks(RATES, [f"{rate:.2g}" for rate in RATES])
    ax.minorticks_off()
    ax.set_xlabel("constant learning rate")
    ax.set_ylabel("regret a round")
    legend_below(ax)
    return figure_of(ax)


def long_table(cases: list[Case]) -> Table:
    """Both rates beside the best constant."""
    rows = []
    for case in cases:
        ratios = [ratio(case, label) for label in (SMALL_LOSS, DEFAULT)]
        rows.append(
            (
                f"{case.network}, {case.family}",
                f"{case.best:.3g}{' (edge)' * case.at_edge}",
                f"{case.regret[BEST].mean():,.1f}",
                *(
                    text
                    for found in ratios
                    for text in (f"{found.mean:.2f}", span(found.low, found.high))
                ),
                f"{interval(case.regret[DEFAULT]).mean:,.1f}",
            )
        )
    columns = (
        *("case", "best constant", "its regret"),
        *(SMALL_LOSS, "95%", DEFAULT, "95%", "default's regret"),
    )
    note = (
        "Ratios to the regret of the best of 13 constants, chosen for each case on other draws; "
        "agents who disagree, gap 0.1."
    )
    return Table("Slow networks, long runs", columns, rows, note)


def findings(cases: list[Case]) -> list[str]:
    """The worst of the long runs, in words made from the numbers."""
    longest = cases[-1].family  # of each network the short run comes first
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
