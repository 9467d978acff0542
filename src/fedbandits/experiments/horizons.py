"""Growth in T, ours: the theorems of FedExp3, T^(2/3), and of BlockGossip, T^(1/2), measured.

On the two networks of the lower bounds that mix slowest, at horizons where FedExp3's theorem says
anything (γ_T < 1). Losses are the paper's with two arms, activated_bernoulli(N, 2, T): an agent
that knew the best arm would lose nothing, so what is measured is what the algorithms' own tuning
costs, exploration as T^(2/3) and a learning rate of 1/sqrt(T) as T^(1/2). Each horizon is played by
itself with the constants made for it; the versions without a horizon are played once, to the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.algorithms.base import Setting

from .measure import Interval, exponent, interval, span
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedbandits.results import Result

Floats = npt.NDArray[np.float64]

ARMS = 2
HORIZONS = (21_000, 42_000, 84_000, 168_000, 300_000)
"""Multiples of 600, so that a curve of 500 points up to the last has one at each."""
EARLY = 5000
"""Rounds looked at more closely, for where the first lead begins."""
RUNS = 4
NETWORKS = (fb.networks.path(36), fb.networks.two_clusters(12, 12))
QUICK_HORIZONS = (2000, 4000)
QUICK_NETWORKS = (fb.networks.path(4),)

FED, BLOCK = "FedExp3, theorem", "BlockGossip, theorem"
TUNED = "BlockGossip, short blocks, η of T"
ANYTIME, DEFAULT = "BlockGossip()", "FedExp3()"
PLAYERS = (FED, BLOCK, TUNED, ANYTIME, DEFAULT)


class Played(NamedTuple):
    """One network's regrets.

    Attributes:
        gossip: the network and its matrix.
        horizons: those with γ_T < 1.
        regret: expected, mean agent, by player, `[P, R]`: a row for each horizon.
        whole: the results of the players without a horizon, to the end.
        early: that of BlockGossip() for its first rounds.
    """

    gossip: fb.Gossip
    horizons: list[int]
    regret: dict[str, Floats]
    whole: dict[str, Result]
    early: Result


class Crossover(NamedTuple):
    """From which horizon on BlockGossip() is better; None if not up to the longest."""

    theorem: int | None
    default: int | None


def reproduce(options: Options) -> Section:
    """Play, draw and write the growth in T.

    Writes `horizons.csv`, `horizons_exponents.csv` and a picture for each network.
    """
    runs = options.runs or (2 if options.quick else RUNS)
    horizons = QUICK_HORIZONS if options.quick else HORIZONS
    networks = QUICK_NETWORKS if options.quick else NETWORKS
    section = Section(
        "horizons",
        "Growth in T, ours: FedExp3 and BlockGossip",
        options.command("horizons"),
        settings={
            "losses": f"activated_bernoulli(N, {ARMS}, T, seed={options.seed}); gossip max_degree",
            "horizons": f"{', '.join(f'{t:,}' for t in horizons)}, where FedExp3's γ_T < 1",
            "runs": f"{runs}, seed {options.seed}; intervals are over the agents' randomness",
        },
    )
    found = []
    for network in networks:
        with section.timed(network.name):
            found.append(play(network, horizons, runs, options.seed))
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


def play(network: fb.Network, horizons: Sequence[int], runs: int, seed: int) -> Played:
    """Every player at every horizon with γ_T < 1."""
    gossip = fb.gossip.max_degree(network)
    needed = fb.bounds.horizon_needed(gossip, arms=ARMS)
    chosen = [t for t in horizons if t >= needed]

    def simulate(algorithm: fb.algorithms.AnyAlgorithm, horizon: int) -> Result:
        problem = fb.problems.activated_bernoulli(network.agents, ARMS, horizon, seed=seed)
        return fb.simulate(problem, algorithm, gossip, runs, seed, progress=False)

    def last(algorithm: fb.algorithms.AnyAlgorithm, horizon: int) -> Floats:
        return simulate(algorithm, horizon).dataset["expected_regret"].isel(time=-1).to_numpy()

    anytime: dict[str, fb.algorithms.AnyAlgorithm] = {
        ANYTIME: fb.BlockGossip(),
        DEFAULT: fb.FedExp3(),
    }
    whole = {name: simulate(player, chosen[-1]) for name, player in anytime.items()}
    regret = {
        FED: [last(fb.FedExp3.from_theorem(gossip, arms=ARMS, horizon=t), t) for t in chosen],
        BLOCK: [last(fb.BlockGossip.from_theorem(gossip, arms=ARMS, horizon=t), t) for t in chosen],
        TUNED: [last(fb.BlockGossip(tuned_rate(gossip, t)), t) for t in chosen],
    }
    for name, result in whole.items():
        regret[name] = [result.dataset["expected_regret"].sel(time=t).to_numpy() for t in chosen]
    early = whole[ANYTIME] if chosen[-1] <= EARLY else simulate(fb.BlockGossip(), EARLY)
    return Played(gossip, chosen, {name: np.array(regret[name]) for name in PLAYERS}, whole, early)


def short_block(gossip: fb.Gossip) -> int:
    """B of `BlockGossip()` on this network."""
    block = fb.BlockGossip().set_up(Setting(ARMS, gossip.network.agents, gossip)).block
    assert block is not None  # set_up fills it in
    return block


def tuned_rate(gossip: fb.Gossip, horizon: int) -> float:
    """η = sqrt(ln K / ((B + K/N) T)), with the short B."""
    variance = short_block(gossip) + ARMS / gossip.network.agents
    return math.sqrt(math.log(ARMS) / (variance * horizon))


def tabulate(found: Sequence[Played]) -> pd.DataFrame:
    """Every point with its 95% interval, the rates behind it, and uniform play."""
    import pandas as pd

    rows = []
    for played in found:
        whole = played.whole[ANYTIME]
        times = whole.dataset["time"].to_numpy()
        uniform = dict(zip(times, uniform_regret(whole), strict=True))
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


def uniform_regret(result: Result) -> Floats:
    """The exact regret of uniform play on the result's losses, at each recorded round."""
    total = result.dataset["arm_loss"].transpose("time", "arm").to_numpy()
    return np.asarray(total.mean(axis=1) - total.min(axis=1), np.float64)


def crossover(played: Played) -> Crossover:
    """From where on the 95% interval of BlockGossip()'s regret lies below FedExp3's.

    Before `horizon_needed` FedExp3 with the theorem's schedule is uniform play, whose regret is
    exact; from there on it is looked up at the horizons that were played.
    """
    needed = fb.bounds.horizon_needed(played.gossip, arms=ARMS)
    better: dict[int, bool] = {}
    for result in (played.whole[ANYTIME], played.early):
        times = result.dataset["time"].to_numpy()
        ahead = result.band("expected_regret").high.to_numpy() < uniform_regret(result)
        better |= {int(t): bool(a) for t, a in zip(times, ahead, strict=True) if t < needed}
    mine, theirs = played.regret[ANYTIME], played.regret[FED]
    for t, own, other in zip(played.horizons, mine, theirs, strict=True):
        better[t] = interval(own).high < interval(other).low
    own_band, other_band = (played.whole[n].band("expected_regret") for n in (ANYTIME, DEFAULT))
    leads = own_band.high.to_numpy() < other_band.low.to_numpy()
    times = own_band.high["time"].to_numpy()
    default = {int(t): bool(lead) for t, lead in zip(times, leads, strict=True)}
    return Crossover(since(better), since(default))


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
            span(row["low"], row["high"], 3),
        )
        for row in exponents.to_dict("records")
    ]
    columns = ("player, horizons", "theory", "fitted exponent", "95% interval")
    note = (
        "Least squares on log axes; bootstrap over runs, which share their losses. The versions "
        "without a horizon, BlockGossip() and FedExp3(), go on with rates that fit these losses "
        "better the longer they last: their exponents say nothing of the worst case."
    )
    return Table("Growth in T", columns, rows, note)


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
    columns = ("regret of the mean agent", *PLAYERS, "uniform play", "γ_T", "theorem's B")
    half = float(((points["high"] - points["low"]) / 2 / points["mean"]).max())
    note = f"Means of {points['runs'].iloc[0]} runs; 95% intervals are ± {half:.1%} at most."
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
        paragraphs += [
            f"{network}. {_nearer(slope[BLOCK, 'all'], slope[FED, 'all'])} Between the two longest "
            f"horizons: {_said(slope[BLOCK, 'last two'])} against {_said(slope[FED, 'last two'])}. "
            f"{asymptote}At T = {longest:,} BlockGossip's block is {rates.block:,} rounds, so that "
            f"the first {2 * rates.block:,} are played uniformly, and (ln K)/η is "
            f"{math.log(ARMS) / rates.learning_rate:,.0f}; FedExp3's γ_T is {gamma:.2f}. With "
            f"blocks of {short_block(played.gossip)} rounds and a rate for T the exponent is "
            f"{_said(slope[TUNED, 'all'])}.",
            f"{network}, crossover. BlockGossip() {_beats(crossed.theorem, longest)} FedExp3 with "
            f"the theorem's schedule, and {_beats(crossed.default, longest)} FedExp3() with the "
            f"constants of the figures: regret {played.regret[ANYTIME][-1].mean():,.1f} against "
            f"{played.regret[DEFAULT][-1].mean():,.1f} at T = {longest:,}, growing there with "
            f"exponents {slope[ANYTIME, 'last two'].mean:.2f} and "
            f"{slope[DEFAULT, 'last two'].mean:.2f}.",
        ]
    return paragraphs


def _said(slope: Interval) -> str:
    return f"{slope.mean:.3f} ({span(slope.low, slope.high, 3)})"


def _nearer(block: Interval, fed: Interval) -> str:
    """Which exponent is nearer to 1/2, if the intervals tell."""
    numbers = f"BlockGossip's {_said(block)}, FedExp3's {_said(fed)}."
    if block.high < fed.low and block.low >= 0.5:
        return f"With the theorems' constants BlockGossip's exponent is nearer to 1/2: {numbers}"
    if fed.high < block.low and fed.low >= 0.5:
        return f"With the theorems' constants FedExp3's exponent is nearer to 1/2: {numbers}"
    return f"The intervals do not tell whose exponent is nearer to 1/2: {numbers}"


def _beats(first: int | None, longest: int) -> str:
    if first is None:
        return f"does not beat, up to {longest:,} rounds,"
    return f"beats, from {first:,} rounds on,"


def draw(played: Played, exponents: pd.DataFrame) -> Figure:
    """Regret against T with the fitted slopes."""
    from fedbandits.plots import COLOURS, figure_of, new_axes, plain_log

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
    ax.set_ylabel("cumulative regret of the mean agent")
    ax.set_title(f"{played.gossip.network.name}, {ARMS} arms", fontsize="medium")
    ax.legend(frameon=False, fontsize="x-small", loc=(0.4, 0.17))
    return figure_of(ax)
