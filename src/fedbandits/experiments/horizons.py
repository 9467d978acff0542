"""Growth in T, ours: the theorems of FedExp3, T^(2/3), and of BlockGossip, T^(1/2), measured.

On the two networks of the lower bounds that mix slowest, at horizons where FedExp3's theorem says
anything (γ_T < 1). Losses are the paper's with two arms, activated_bernoulli(N, 2, T): an agent
that knew the best arm would lose nothing, so what is measured is what the algorithms' own tuning
costs, exploration as T^(2/3) and a learning rate of 1/sqrt(T) as T^(1/2). Each horizon is played by
itself with the constants made for it; the versions without a horizon are played once, to the end.
All play on the same draws of the losses, and intervals are over draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.algorithms.base import Setting
from fedbandits.simulation.simulation import Simulation

from .measure import Interval, exponent, in_threads, interval, span
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

ARMS = 2
EARLY, OFTEN, SELDOM = 5000, 50, 500
"""BlockGossip() and FedExp3() are looked at every 50 rounds up to 5000, then every 500."""

FED, BLOCK = "FedExp3, theorem", "BlockGossip, theorem"
TUNED = "BlockGossip, short blocks, η of T"
ANYTIME, DEFAULT = "BlockGossip()", "FedExp3()"
UNIFORM = "uniform play"
PLAYERS = (FED, BLOCK, TUNED, ANYTIME, DEFAULT)


@dataclass(frozen=True)
class Sizes:
    """What is played.

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
    # Multiples of 500, the longest chunk of rounds: all are played by one program.
    horizons=(21_000, 42_000, 84_000, 168_000, 300_000),
    networks=(fb.networks.path(36), fb.networks.two_clusters(12, 12)),
)
QUICK = Sizes(draws=2, horizons=(2000, 4000), networks=(fb.networks.path(4),))


class Played(NamedTuple):
    """One network's regrets, expected and of the mean agent, in each draw of the losses.

    Attributes:
        gossip: the network and its matrix.
        horizons: those with γ_T < 1.
        regret: by player, `[P, D]`: a row for each horizon.
        times: when the players without a horizon were looked at.
        curves: their regret then, `[M, D]`, and that of uniform play, which is exact.
    """

    gossip: fb.Gossip
    horizons: list[int]
    regret: dict[str, Floats]
    times: list[int]
    curves: dict[str, Floats]


class Crossover(NamedTuple):
    """Where BlockGossip() is better than FedExp3.

    Attributes:
        theorem: from when on than with the theorem's schedule; None if not up to the longest.
        worse: the last time that it is worse than with the theorem's schedule; None if never.
        default: from when on than FedExp3(); None if not up to the longest.
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
    section = Section(
        "horizons",
        "Growth in T, ours: FedExp3 and BlockGossip",
        options.command("horizons"),
        settings={
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
    crossovers = [crossover(played) for played in found]
    section.add_csv(options.out, "horizons.csv", points)
    section.add_csv(options.out, "horizons_exponents.csv", exponents)
    section.tables += [exponent_table(exponents), regret_table(points)]
    for number, played in enumerate(found, start=1):
        picture = Picture(
            f"horizons_{number}",
            f"Expected regret of the mean agent against T on {played.gossip.network.name}, each "
            "horizon with its own constants, and fitted exponents. Grey: slopes 1/2, 2/3 and 1.",
            "Regret of five players against the horizon, on log axes.",
        )
        section.add_picture(options.out, draw(played, exponents), picture)
    section.paragraphs += findings(found, exponents, crossovers)
    return section


def play(network: fb.Network, horizons: Sequence[int], draws: int, seed: int) -> Played:
    """Every player at every horizon with γ_T < 1, on the same draws of the losses."""
    from fedbandits.engine.totals import play_totals

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
        return play_totals(simulation.on(problems), times=cell.times)

    cells = [Cell(ANYTIME, fb.BlockGossip(), times), Cell(DEFAULT, fb.FedExp3(), times)]
    for t in reversed(chosen):  # the longest first, so that no core is left with it at the end
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


class Cell(NamedTuple):
    """One player, and after which rounds it is looked at."""

    name: str
    algorithm: fb.algorithms.AnyAlgorithm
    times: list[int]


def short_block(gossip: fb.Gossip) -> int:
    """B of `BlockGossip()` on this network."""
    block = fb.BlockGossip().set_up(Setting(ARMS, gossip.network.agents, gossip)).block
    assert block is not None  # set_up fills it in
    return block


def tuned_rate(gossip: fb.Gossip, horizon: int) -> float:
    """η = 2 sqrt(ln K / ((B/4 + K/N) T)), with the short B.

    There 2 (ln K)/η + (η/2) T (B/4 + K/N) is least, the sum that the rate of BlockGossip() comes
    from too.
    """
    variance = short_block(gossip) / 4 + ARMS / gossip.network.agents
    return 2 * math.sqrt(math.log(ARMS) / (variance * horizon))


def tabulate(found: Sequence[Played]) -> pd.DataFrame:
    """Every point with its 95% interval, the rates behind it, and uniform play."""
    import pandas as pd

    rows = []
    for played in found:
        uniform = dict(zip(played.times, played.curves[UNIFORM].mean(axis=1), strict=True))
        for name, regret in played.regret.items():
            for horizon, values in zip(played.horizons, regret, strict=True):
                sizes = {"arms": ARMS, "horizon": horizon}
                rows.append(
                    {
                        "network": played.gossip.network.name,
                        "algorithm": name,
                        "time": horizon,
                        **interval(values)._asdict(),
                        "runs": values.size,
                        "gamma": fb.bounds.theorem_rates(
                            played.gossip, **sizes
                        ).exploration_at_horizon,
                        "theorem_block": fb.bounds.block_gossip_rates(played.gossip, **sizes).block,
                        "short_block": short_block(played.gossip),
                        "uniform": uniform[horizon],
                    }
                )
    return pd.DataFrame(rows)


def fit(found: Sequence[Played]) -> pd.DataFrame:
    """Fitted exponents, over all horizons and between the two longest."""
    import pandas as pd

    rows = []
    for played in found:
        for name, regret in played.regret.items():
            for which, part in (("all", slice(None)), ("last two", slice(-2, None))):
                found_here = exponent(played.horizons[part], regret[part])
                rows.append((played.gossip.network.name, name, which, *found_here))
    columns = ["network", "algorithm", "horizons", "exponent", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def crossover(played: Played) -> Crossover:
    """Where the 95% interval over draws of BlockGossip()'s regret less FedExp3's is below 0.

    Before `horizon_needed` FedExp3 with the theorem's schedule is uniform play; from there on it
    is looked up at the horizons that were played.
    """
    needed = fb.bounds.horizon_needed(played.gossip, arms=ARMS)
    own, default, uniform = (
        dict(zip(played.times, played.curves[name], strict=True))
        for name in (ANYTIME, DEFAULT, UNIFORM)
    )
    theorem = {t: regret for t, regret in uniform.items() if t < needed}
    theorem |= dict(zip(played.horizons, played.regret[FED], strict=True))
    beside_theorem, beside_default = (
        {t: interval(own[t] - regret) for t, regret in other.items()}
        for other in (theorem, default)
    )
    return Crossover(
        since({t: found.high < 0 for t, found in beside_theorem.items()}),
        max((t for t, found in beside_theorem.items() if found.low > 0), default=None),
        since({t: found.high < 0 for t, found in beside_default.items()}),
    )


def since(better: Mapping[int, bool]) -> int | None:
    """The first round from which it is better to the end.

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
    """Fitted growth in T."""
    rows = [
        (
            f"{row['network']}: {row['algorithm']}, {row['horizons']}",
            THEORY.get(row["algorithm"], "-"),
            f"{row['exponent']:.3f}",
            span(row["low"], row["high"], DIGITS),
        )
        for row in exponents.to_dict("records")
    ]
    columns = ("player, horizons", "theory", "fitted exponent", "95% interval")
    note = (
        "Least squares on log axes; bootstrap over draws of the losses, which differ in who sees "
        "them and hardly in what the algorithms' tuning costs: intervals narrower than 0.001 may "
        "show no width. The versions "
        "without a horizon, BlockGossip() and FedExp3(), go on with rates that fit these losses "
        "better the longer they last: their exponents say nothing of the worst case."
    )
    return Table("Growth in T", columns, rows, note)


DIGITS = 3
"""Of the limits of exponents."""
THEORY = {FED: "0.667", BLOCK: "0.500", TUNED: "0.500"}


def regret_table(points: pd.DataFrame) -> Table:
    """Regret at every horizon: a row for each, a column for each player."""
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


def findings(
    found: Sequence[Played], exponents: pd.DataFrame, crossovers: Sequence[Crossover]
) -> list[str]:
    """What was found, in words made from the numbers."""
    paragraphs = []
    for played, crossed in zip(found, crossovers, strict=True):
        network, longest = played.gossip.network.name, played.horizons[-1]
        here = exponents[exponents["network"] == network].to_dict("records")
        slope = {
            (row["algorithm"], row["horizons"]): Interval(row["exponent"], row["low"], row["high"])
            for row in here
        }
        sizes = {"arms": ARMS, "horizon": longest}
        rates = fb.bounds.block_gossip_rates(played.gossip, **sizes)
        gamma = fb.bounds.theorem_rates(played.gossip, **sizes).exploration_at_horizon
        near = slope[BLOCK, "last two"].low <= 1 / 2 or slope[FED, "last two"].low <= 2 / 3
        asymptote = "" if near else "Neither is near its asymptote, 1/2 and 2/3. "
        block, short, fed = (slope[name, "all"] for name in (BLOCK, TUNED, FED))
        theirs = "With the theorems' constants BlockGossip"
        named = f"BlockGossip with blocks of {short_block(played.gossip)} rounds and a rate for T"
        paragraphs += [
            f"{network}. {_nearer(theirs, block, fed)} "
            f"{_nearer(named, short, fed)} Between the two longest horizons BlockGossip with the "
            f"theorem's constants has {_worded(slope[BLOCK, 'last two'])}, FedExp3 "
            f"{_worded(slope[FED, 'last two'])}. {asymptote}At T = {longest:,} BlockGossip's block "
            f"is {rates.block:,} rounds, so that the first {2 * rates.block:,} are played "
            f"uniformly, and (ln K)/η is {math.log(ARMS) / rates.learning_rate:,.0f}; FedExp3's "
            f"γ_T is {gamma:.2f}.",
            f"{network}, crossover. BlockGossip() {_beats(crossed.theorem, longest)} FedExp3 with "
            f"the theorem's schedule, and {_beats(crossed.default, longest)} FedExp3(), with its "
            f"default rate: regret {played.regret[ANYTIME][-1].mean():,.1f} against "
            f"{played.regret[DEFAULT][-1].mean():,.1f} at T = {longest:,}, growing there with "
            f"exponents {slope[ANYTIME, 'last two'].mean:.2f} and "
            f"{slope[DEFAULT, 'last two'].mean:.2f}. {_short(played, crossed)}",
        ]
    return paragraphs


def _worded(slope: Interval) -> str:
    return f"{slope.mean:.3f} ({span(slope.low, slope.high, DIGITS)})"


def _nearer(name: str, own: Interval, fed: Interval) -> str:
    """Whose exponent is nearer to 1/2, FedExp3's or the other's, if the intervals tell."""
    (nearest, farthest), (fed_nearest, fed_farthest) = _distances(own), _distances(fed)
    if farthest < fed_nearest:
        return f"{name} has the exponent nearer to 1/2: {_worded(own)}, FedExp3 {_worded(fed)}."
    both = f"{name} has the exponent {_worded(own)}, FedExp3 {_worded(fed)}"
    if fed_farthest < nearest:
        return f"{both}: FedExp3's is nearer to 1/2."
    return f"{both}: the intervals do not tell which is nearer to 1/2."


def _distances(slope: Interval) -> tuple[float, float]:
    """How far from 1/2 an exponent in the interval is, at least and at most."""
    ends = abs(slope.low - 0.5), abs(slope.high - 0.5)
    return 0.0 if slope.low <= 0.5 <= slope.high else min(ends), max(ends)


def _beats(first: int | None, longest: int) -> str:
    if first is None:
        return f"does not beat, up to {longest:,} rounds,"
    return f"beats, from {first:,} rounds on,"


def _short(played: Played, crossed: Crossover) -> str:
    """Short horizons, where FedExp3 with the theorem's schedule is uniform play."""
    needed = fb.bounds.horizon_needed(played.gossip, arms=ARMS)
    rule = f"Before T = {needed:,.0f} the theorem's schedule is uniform play"
    if crossed.worse is None:
        return (
            f"{rule}; BlockGossip(), which starts with {2 * short_block(played.gossip)} rounds of "
            "it, is behind at none of the rounds looked at."
        )
    return f"{rule}; BlockGossip() is behind at {crossed.worse:,} rounds for the last time."


def draw(played: Played, exponents: pd.DataFrame) -> Figure:
    """Regret against T with the fitted slopes."""
    from fedbandits.results.plots import COLOURS, figure_of, legend_below, new_axes, plain_log

    ax = new_axes()
    here = exponents[
        (exponents["network"] == played.gossip.network.name) & (exponents["horizons"] == "all")
    ].set_index("algorithm")["exponent"]
    times = np.array(played.horizons, float)
    for i, (name, regret) in enumerate(played.regret.items()):
        found = [interval(values) for values in regret]
        mean, low, high = (np.array(part) for part in zip(*found, strict=True))
        label = f"{name}, {here[name]:.2f}"
        bars = (mean - low, high - mean)
        ax.errorbar(times, mean, bars, fmt="osD^v"[i] + "-", ms=4, color=COLOURS[i], label=label)
    start = played.regret[BLOCK][0].mean()
    for power in (1 / 2, 2 / 3, 1):
        ax.plot(times, start * (times / times[0]) ** power, ":", color="0.6", linewidth=1)
    plain_log(ax)
    ax.set_xlabel("T")
    ax.set_ylabel("cumulative regret\nof the mean agent")
    ax.set_title(f"{played.gossip.network.name}, {ARMS} arms", fontsize="medium")
    legend_below(ax)
    return figure_of(ax)
