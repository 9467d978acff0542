"""Growth in T, ours: the theorems of FedExp3, T^(2/3), and of BlockGossip, T^(1/2), measured.

The networks of the lower bounds that mix slowest, at horizons with γ_T < 1, where FedExp3's
theorem applies. Losses are the paper's with two arms, activated_bernoulli(N, 2, T). An
agent that knew the best arm would lose nothing, so regret here is the cost of the algorithms'
tuning: exploration costs T^(2/3), a learning rate of 1/sqrt(T) costs T^(1/2). Each horizon has its
own simulation with its own constants; algorithms without a horizon play once, to the longest. All
play on the same draws of the losses, and intervals are over draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.common.statistics import Interval, interval
from fedbandits.engine import totals
from fedbandits.paper.cells import in_threads
from fedbandits.paper.intervals import Floats, exponent, span
from fedbandits.paper.pictures import Picture, draw_points, finished
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import new_axes, plain_log
from fedbandits.simulation.simulation import Simulation

ARMS = 2
EARLY, OFTEN, SELDOM = 5000, 50, 500
"""BlockGossip() and FedExp3() are recorded every 50 rounds up to 5000, then every 500."""

FED, BLOCK = "FedExp3, theorem", "BlockGossip, theorem"
TUNED = "BlockGossip, short blocks, η of T"
ANYTIME, DEFAULT = "BlockGossip()", "FedExp3()"
UNIFORM = "uniform play"
PLAYERS = (FED, BLOCK, TUNED, ANYTIME, DEFAULT)
THEORY = {FED: "0.667", BLOCK: "0.500", TUNED: "0.500"}
"""Exponents of the theorems."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the study.

    Attributes:
        draws: of the losses, each with its own randomness of the agents.
        horizons: T, in order; those with γ_T < 1 are played.
        networks: one after another.
    """

    draws: int
    horizons: tuple[int, ...]
    networks: tuple[fb.Network, ...]


FULL = Sizes(
    draws=6,
    # Multiples of 500, the longest chunk of rounds: one program plays them all.
    horizons=(21_000, 42_000, 84_000, 168_000, 300_000),
    networks=(fb.networks.path(36), fb.networks.two_clusters(12, 12)),
)
QUICK = Sizes(draws=2, horizons=(2000, 4000), networks=(fb.networks.path(4),))


class Played(NamedTuple):
    """Expected regrets of the mean agent on one network, in each draw of the losses.

    Attributes:
        gossip: the network and its matrix.
        horizons: those with γ_T < 1.
        regret: by player, `[P, D]`: a row for each horizon.
        times: recorded rounds of the players without a horizon.
        curves: their regret at these rounds, `[M, D]`, and the exact regret of uniform play.
    """

    gossip: fb.Gossip
    horizons: list[int]
    regret: dict[str, Floats]
    times: list[int]
    curves: dict[str, Floats]

    @property
    def network(self) -> str:
        """Name of the network."""
        return self.gossip.network.name

    @property
    def needed(self) -> float:
        """The horizon from which on γ_T < 1; before it, FedExp3's schedule is uniform play."""
        return fb.bounds.horizon_needed(self.gossip, arms=ARMS)


class Crossover(NamedTuple):
    """Rounds from which on BlockGossip() is better than FedExp3.

    Attributes:
        theorem: first round from which on it is better than with the theorem's schedule; None if
            it is not up to the longest horizon.
        worse: the last round at which it is worse than that; None without such a round.
        default: first round from which on it is better than FedExp3(); None likewise.
    """

    theorem: int | None
    worse: int | None
    default: int | None


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play, draw and write the growth in T.

    Writes `horizons.csv`, `horizons_exponents.csv` and a picture for each network.
    """
    sizes = sizes or (QUICK if options.quick else FULL)
    draws, horizons = options.runs or sizes.draws, sizes.horizons
    section = options.section(
        "horizons",
        "Growth in T, ours: FedExp3 and BlockGossip",
        {
            "losses": f"activated_bernoulli(N, {ARMS}, T); gossip max_degree",
            "horizons": f"{', '.join(f'{t:,}' for t in horizons)}, where FedExp3's γ_T < 1",
            "draws": f"{draws} of the losses, seeds from {options.seed * draws}, each with its own "
            "randomness of the agents; intervals are over draws",
            TUNED: "η = 2 sqrt(ln K/((B/4 + K/N) T)), with the B of BlockGossip()",
        },
    )
    found = []
    for network in sizes.networks:
        with section.timed(network.name):
            found.append(play(network, horizons, draws, options.seed))
    points, exponents = tabulate(found), fit(found)
    section.add_csv(options.out, "horizons.csv", points)
    section.add_csv(options.out, "horizons_exponents.csv", exponents)
    section.tables += [exponent_table(exponents), regret_table(points)]
    for number, played in enumerate(found, start=1):
        picture = Picture(
            f"horizons_{number}",
            f"Expected regret of the mean agent against T on {played.network}, each horizon with "
            "its own constants, and fitted exponents. Grey: slopes 1/2, 2/3 and 1.",
            "Regret of five players against the horizon, on log axes.",
        )
        section.add_picture(options.out, draw(played, exponents), picture)
        section.paragraphs += findings(played, exponents, crossover(played))
    return section


class Cell(NamedTuple):
    """One player, and the rounds at which its regret is recorded."""

    name: str
    algorithm: fb.algorithms.AnyAlgorithm
    times: list[int]


def play(network: fb.Network, horizons: Sequence[int], draws: int, seed: int) -> Played:
    """Play all players at every horizon with γ_T < 1, on the same draws of the losses."""
    gossip = fb.gossip.max_degree(network)
    needed = fb.bounds.horizon_needed(gossip, arms=ARMS)
    chosen = [t for t in horizons if t >= needed]
    longest = chosen[-1]
    early = range(OFTEN, min(EARLY, longest) + 1, OFTEN)
    times = sorted({*early, *range(SELDOM, longest + 1, SELDOM)})
    # These losses do not depend on T: shorter horizons are beginnings of the longest.
    problems = [
        fb.problems.activated_bernoulli(network.agents, ARMS, longest, seed=seed * draws + draw)
        for draw in range(draws)
    ]

    def simulate(cell: Cell) -> xr.Dataset:
        simulation = Simulation(problems[0], cell.algorithm, gossip, runs=1, seed=seed * draws)
        return totals.play_totals(simulation.on(problems), times=cell.times)

    cells = [Cell(ANYTIME, fb.BlockGossip(), times), Cell(DEFAULT, fb.FedExp3(), times)]
    for t in reversed(chosen):  # the longest first, so that it does not run alone at the end
        cells += [
            Cell(FED, fb.FedExp3.from_theorem(gossip, arms=ARMS, horizon=t), [t]),
            Cell(BLOCK, fb.BlockGossip.from_theorem(gossip, arms=ARMS, horizon=t), [t]),
            Cell(TUNED, fb.BlockGossip(tuned_rate(gossip, t)), [t]),
        ]
    found = in_threads(simulate, cells, f"horizons, {network.name}")
    regret: dict[str, list[Floats]] = {name: [] for name in PLAYERS}
    curves = {}
    for cell, result in zip(cells, found, strict=True):
        values = result["expected_regret"].isel(run=0).mean("agent")
        if cell.times is times:
            curves[cell.name] = values.to_numpy()
            regret[cell.name] = list(values.sel(time=chosen).to_numpy())
        else:
            regret[cell.name].insert(0, values.to_numpy()[0])
    total = found[0]["arm_loss"]
    curves[UNIFORM] = (total.mean("arm") - total.min("arm")).to_numpy()
    return Played(gossip, chosen, {n: np.array(r) for n, r in regret.items()}, times, curves)


def short_block(gossip: fb.Gossip) -> int:
    """Return B of `BlockGossip()` on this network."""
    block = fb.BlockGossip().set_up(Setting(ARMS, gossip.network.agents, gossip)).block
    assert block is not None  # set_up chooses it
    return block


def tuned_rate(gossip: fb.Gossip, horizon: int) -> float:
    """Return η = 2 sqrt(ln K / ((B/4 + K/N) T)), with the short B.

    It minimises 2 (ln K)/η + (η/2) T (B/4 + K/N), the sum behind the rate of BlockGossip() too.
    """
    variance = short_block(gossip) / 4 + ARMS / gossip.network.agents
    return 2 * math.sqrt(math.log(ARMS) / (variance * horizon))


def gamma(gossip: fb.Gossip, horizon: int) -> float:
    """Return γ_T of FedExp3's theorem."""
    rates = fb.bounds.theorem_rates(gossip, arms=ARMS, horizon=horizon)
    return rates.exploration_at_horizon


def tabulate(found: Sequence[Played]) -> pd.DataFrame:
    """Return every point with its 95% interval, the theorems' rates, and uniform play."""
    rows = []
    for played in found:
        gossip = played.gossip
        uniform = dict(zip(played.times, played.curves[UNIFORM].mean(axis=1), strict=True))
        for name, regret in played.regret.items():
            for horizon, values in zip(played.horizons, regret, strict=True):
                block = fb.bounds.block_gossip_rates(gossip, arms=ARMS, horizon=horizon).block
                rows.append(
                    {
                        "network": played.network,
                        "algorithm": name,
                        "time": horizon,
                        **interval(values)._asdict(),
                        "runs": values.size,
                        "gamma": gamma(gossip, horizon),
                        "theorem_block": block,
                        "short_block": short_block(gossip),
                        "uniform": uniform[horizon],
                    }
                )
    return pd.DataFrame(rows)


def fit(found: Sequence[Played]) -> pd.DataFrame:
    """Return fitted exponents, over all horizons and between the two longest."""
    rows = []
    for played in found:
        for name, regret in played.regret.items():
            for which, part in (("all", slice(None)), ("last two", slice(-2, None))):
                fitted = exponent(played.horizons[part], regret[part])
                rows.append((played.network, name, which, *fitted))
    columns = ["network", "algorithm", "horizons", "exponent", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def crossover(played: Played) -> Crossover:
    """Find where the 95% interval of BlockGossip()'s regret less FedExp3's is below 0.

    Before `needed` FedExp3 with the theorem's schedule is uniform play; from there on its regret is
    known at the horizons that were played.
    """
    own, default, uniform = (
        dict(zip(played.times, played.curves[name], strict=True))
        for name in (ANYTIME, DEFAULT, UNIFORM)
    )
    theorem = {t: regret for t, regret in uniform.items() if t < played.needed}
    theorem |= dict(zip(played.horizons, played.regret[FED], strict=True))
    against_theorem, against_default = (
        {t: interval(own[t] - regret) for t, regret in other.items()}
        for other in (theorem, default)
    )
    return Crossover(
        since({t: found.high < 0 for t, found in against_theorem.items()}),
        max((t for t, found in against_theorem.items() if found.low > 0), default=None),
        since({t: found.high < 0 for t, found in against_default.items()}),
    )


def since(better: Mapping[int, bool]) -> int | None:
    """Return the first round from which on it is better to the end.

    Example:
        >>> since({1: True, 2: False, 3: True, 4: True})
        3
        >>> since({1: True, 2: False}) is None
        True
    """
    first = None
    for t in sorted(better, reverse=True):
        if not better[t]:
            break
        first = t
    return first


def exponent_table(exponents: pd.DataFrame) -> Table:
    """Return the fitted growth in T."""

    def player(row: Mapping[Any, Any]) -> str:
        return f"{row['network']}: {row['algorithm']}, {row['horizons']}"

    return Table.of(
        "Growth in T",
        exponents.to_dict("records"),
        [
            ("player, horizons", player),
            ("theory", lambda row: THEORY.get(row["algorithm"], "-")),
            ("fitted exponent", lambda row: f"{row['exponent']:.3f}"),
            ("95% interval", lambda row: span(row["low"], row["high"], 3)),
        ],
        "Least squares on log axes; bootstrap over draws of the losses, which hardly change the "
        "cost of tuning: intervals narrower than 0.001 may show no width. The versions without a "
        "horizon, BlockGossip() and FedExp3(), continue with rates that fit these losses better "
        "the longer they last: their exponents say nothing of the worst case.",
    )


def regret_table(points: pd.DataFrame) -> Table:
    """Return regret at every horizon: a row for each, a column for each player."""
    rows = []
    for _, here in points.groupby(["network", "time"], sort=False):
        records = {row["algorithm"]: row for row in here.to_dict("records")}
        row = records[FED]
        rows.append(
            (
                f"{row['network']}, T = {row['time']:,}",
                *(f"{records[name]['mean']:,.0f}" for name in PLAYERS),
                f"{row['uniform']:,.0f}",
                f"{row['gamma']:.3f}",
                f"{row['theorem_block']:,}",
            )
        )
    columns = ("regret of the mean agent", *PLAYERS, UNIFORM, "γ_T", "theorem's B")
    half = float(((points["high"] - points["low"]) / 2 / points["mean"]).max())
    note = f"Means of {points['runs'].iloc[0]} draws; 95% intervals are ± {half:.1%} at most."
    return Table("Regret", columns, rows, note)


def findings(played: Played, exponents: pd.DataFrame, crossed: Crossover) -> list[str]:
    """Return the findings on one network in sentences made from the numbers."""
    network, longest = played.network, played.horizons[-1]
    slope = {
        (row["algorithm"], row["horizons"]): Interval(row["exponent"], row["low"], row["high"])
        for row in exponents[exponents["network"] == network].to_dict("records")
    }
    rates = fb.bounds.block_gossip_rates(played.gossip, arms=ARMS, horizon=longest)
    near = slope[BLOCK, "last two"].low <= 1 / 2 or slope[FED, "last two"].low <= 2 / 3
    asymptote = "" if near else "Neither is near its asymptote, 1/2 and 2/3. "
    block, short, fed = (slope[name, "all"] for name in (BLOCK, TUNED, FED))
    theirs = "With the theorems' constants BlockGossip"
    named = f"BlockGossip with blocks of {short_block(played.gossip)} rounds and a rate for T"
    return [
        f"{network}. {_nearer(theirs, block, fed)} {_nearer(named, short, fed)} Between the two "
        "longest horizons BlockGossip with the theorem's constants has "
        f"{_worded(slope[BLOCK, 'last two'])}, FedExp3 {_worded(slope[FED, 'last two'])}. "
        f"{asymptote}At T = {longest:,} BlockGossip's block is {rates.block:,} rounds, so that the "
        f"first {2 * rates.block:,} are played uniformly, and (ln K)/η is "
        f"{math.log(ARMS) / rates.learning_rate:,.0f}; FedExp3's γ_T is "
        f"{gamma(played.gossip, longest):.2f}.",
        f"{network}, crossover. BlockGossip() {_beats(crossed.theorem, longest)} FedExp3 with "
        f"the theorem's schedule, and {_beats(crossed.default, longest)} FedExp3(), with its "
        f"default rate: regret {played.regret[ANYTIME][-1].mean():,.1f} against "
        f"{played.regret[DEFAULT][-1].mean():,.1f} at T = {longest:,}, growing there with "
        f"exponents {slope[ANYTIME, 'last two'].mean:.2f} and "
        f"{slope[DEFAULT, 'last two'].mean:.2f}. {_short(played, crossed)}",
    ]


def _worded(slope: Interval) -> str:
    return f"{slope.mean:.3f} ({span(slope.low, slope.high, 3)})"


def _nearer(name: str, own: Interval, fed: Interval) -> str:
    """Return whether the exponent of FedExp3 or the other is nearer to 1/2, if intervals show."""
    (nearest, farthest), (fed_nearest, fed_farthest) = _distances(own), _distances(fed)
    if farthest < fed_nearest:
        return f"{name} has the exponent nearer to 1/2: {_worded(own)}, FedExp3 {_worded(fed)}."
    both = f"{name} has the exponent {_worded(own)}, FedExp3 {_worded(fed)}"
    if fed_farthest < nearest:
        return f"{both}: FedExp3's is nearer to 1/2."
    return f"{both}: the intervals do not show which is nearer to 1/2."


def _distances(slope: Interval) -> tuple[float, float]:
    """Return the least and largest distance from 1/2 of an exponent in the interval."""
    ends = abs(slope.low - 0.5), abs(slope.high - 0.5)
    return 0.0 if slope.low <= 0.5 <= slope.high else min(ends), max(ends)


def _beats(first: int | None, longest: int) -> str:
    if first is None:
        return f"does not beat, up to {longest:,} rounds,"
    return f"beats, from {first:,} rounds on,"


def _short(played: Played, crossed: Crossover) -> str:
    """Describe short horizons, where FedExp3 with the theorem's schedule is uniform play."""
    rule = f"Before T = {played.needed:,.0f} the theorem's schedule is uniform play"
    if crossed.worse is not None:
        return f"{rule}; BlockGossip() is behind at {crossed.worse:,} rounds for the last time."
    first = 2 * short_block(played.gossip)
    return (
        f"{rule}; BlockGossip(), whose first {first} rounds are uniform too, is behind at none of "
        "the recorded rounds."
    )


def draw(played: Played, exponents: pd.DataFrame) -> Figure:
    """Draw regret against T with the fitted slopes."""
    ax = new_axes()
    here = exponents[
        (exponents["network"] == played.network) & (exponents["horizons"] == "all")
    ].set_index("algorithm")["exponent"]
    times = np.array(played.horizons, float)
    for i, (name, regret) in enumerate(played.regret.items()):
        found = [interval(values) for values in regret]
        draw_points(ax, times, found, i, f"{name}, {here[name]:.2f}")
    start = played.regret[BLOCK][0].mean()
    for power in (1 / 2, 2 / 3, 1):
        ax.plot(times, start * (times / times[0]) ** power, ":", color="0.6", linewidth=1)
    plain_log(ax)
    title = f"{played.network}, {ARMS} arms"
    return finished(ax, "T", "cumulative regret\nof the mean agent", title)
