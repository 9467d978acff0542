"""Every algorithm on every family of losses and every network of the suite.

Once as it comes, and once tuned, with the same budget of candidates for each algorithm and case,
itself among them, chosen on other draws of the losses than those shown. Regret is that of the mean
and of the worst agent, in units of what uniform play pays on the same losses; beside it what leaves
each agent in a round, and what it costs to simulate.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb

from . import suite
from .kept_cells import KeptCells, forget_cells, kept_cells
from .measure import Interval, in_threads, resamples
from .section import Options, Picture, Section, Table, versions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedbandits.algorithms import AnyAlgorithm

AS_IT_COMES, TUNED = "default", "tuned"
NETWORK = "grid"
"""Where bytes and time are measured."""
LEFT_OUT = {
    "LinearBlockGossip": "arms of the suite are no vectors; see `fedbandits reproduce linear`",
}
"""Who is not on the board, and why."""
IN_VIEW = (
    "The default rate of FedExp3, AcceleratedFedExp3, SharingFedExp3, TrackingFedExp3 and Exp3 was "
    "chosen with these families, among others, in view; other defaults were not."
)
"""Said with the findings and with the board, so that no page has them without it."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tuning:
    """How each algorithm is tuned on each case.

    Attributes:
        budget: the most candidates, itself included.
        runs: of each candidate on each draw.
        draws: of the losses.
    """

    budget: int
    runs: int
    draws: int


@dataclass(frozen=True)
class Sizes:
    """What is played.

    Attributes:
        suite: the families and networks, and on how many draws of the losses.
        networks: by name.
        tuning: how each algorithm is tuned on each case.
    """

    suite: suite.Sizes
    networks: tuple[str, ...]
    tuning: Tuning


FULL = Sizes(
    suite=replace(suite.FULL, runs=12),
    networks=("complete", "grid", "path", "star"),
    tuning=Tuning(budget=12, runs=3, draws=2),
)
QUICK = replace(FULL, suite=suite.QUICK, networks=(NETWORK,))


class Entry(NamedTuple):
    """One algorithm on one case.

    Attributes:
        algorithm: its name.
        setting: `default` or `tuned`.
        family: of the losses.
        network: its name.
        regret: expected regret at T of every agent, `[draws, agents]`.
        uniform: that of uniform play, exact, `[draws]`.
    """

    algorithm: str
    setting: str
    family: str
    network: str
    regret: Floats
    uniform: Floats


class Cost(NamedTuple):
    """What an algorithm costs on the grid.

    Attributes:
        bytes: sent by an agent in a round.
        leaves: what leaves the agent, by name and kind.
        milliseconds: of one run of T rounds, simulated beside others, after compilation.
    """

    bytes: float
    leaves: dict[str, str]
    milliseconds: float


def players(left_out: Container[str] = LEFT_OUT) -> dict[str, AnyAlgorithm]:
    """Every algorithm with its defaults, but those that are left out."""
    kinds = fb.algorithms.REGISTRY
    return {name: kind() for name, kind in kinds.items() if name not in left_out}


def reproduce(
    options: Options,
    sizes: Sizes | None = None,
    algorithms: dict[str, AnyAlgorithm] | None = None,
) -> Section:
    """Play and rank; writes `leaderboard.csv` and `leaderboard` as .png, .pdf and .svg.

    Args:
        options: what was asked for.
        sizes: what is played; by default by the options.
        algorithms: by default every one.
    """
    sizes = sizes or (QUICK if options.quick else FULL)
    algorithms = algorithms or players()
    cases, tuning = sizes.suite, sizes.tuning
    runs, chosen, every = options.runs or cases.runs, suite.families(cases), suite.networks(cases)
    networks = {name: every[name] for name in sizes.networks}
    seeds = suite.fresh_seeds(options.seed, runs)
    section = Section(
        "leaderboard",
        "The leaderboard: every algorithm on the suite",
        options.command("leaderboard"),
        settings={
            "cases": f"{', '.join(chosen)} on {', '.join(networks)}, as in the suite: "
            f"N = {cases.agents}, K = {cases.arms}, T = {cases.horizon}, gossip max_degree",
            "tuned": f"the best of at most {tuning.budget} candidates for each algorithm and case, "
            f"itself included: learning rate, exploration, block or scales; {tuning.draws} draws "
            f"of the losses, {tuning.runs} runs each",
            "seeds": f"{runs} draws of the losses and agents, seeds {seeds.judging[0]} on; tuned "
            "on others",
        },
    )
    with section.timed("costs, on the grid"):
        costs = measure_costs(algorithms, runs, cases)
    with section.timed(f"{len(costs)} algorithms on {len(chosen) * len(networks)} cases"):
        kept = kept_cells(options, "leaderboard", [sizes, algorithms])
        entries = play(algorithms, chosen, networks, seeds, tuning, kept)
    section.add_csv(options.out, "leaderboard.csv", frame(entries, costs))
    device = versions()["device"]
    section.tables += [
        board(entries, costs, device, cases.horizon),
        by_family(entries),
        by_network(entries),
    ]
    section.add_picture(options.out, draw(entries), PICTURE)
    section.paragraphs += findings(entries, costs)
    forget_cells(options, "leaderboard")
    return section


def measure_costs(
    algorithms: dict[str, AnyAlgorithm], runs: int, sizes: suite.Sizes = FULL.suite
) -> dict[str, Cost]:
    """Bytes, kinds and time of every algorithm on the paper's losses, one after the other."""
    [paper] = suite.families(replace(sizes, families=("1 paper",))).values()
    problem, gossip = paper.make(0), suite.networks(sizes)[NETWORK]
    costs = {}
    for name, algorithm in algorithms.items():
        for _ in range(2):  # the first compiles; results are NumPy's, so nothing is under way
            began = perf_counter()
            result = fb.simulate(problem, algorithm, gossip, runs, progress=False)
            took = perf_counter() - began
        sent = result.communication
        costs[name] = Cost(sent["bytes"], sent["leaves"], 1000 * took / runs)
    return costs


def play(
    algorithms: dict[str, AnyAlgorithm],
    families: dict[str, suite.Family],
    networks: dict[str, fb.Gossip],
    seeds: suite.Seeds,
    tuning: Tuning,
    kept: KeptCells,
) -> list[Entry]:
    """Every algorithm on every case, as it comes and tuned."""

    def one(cell: tuple[str, str]) -> list[Entry]:
        family, name = cell
        make = families[family].make
        judging = [make(seed) for seed in seeds.judging]
        entries = []
        for network, gossip in networks.items():
            variants = {AS_IT_COMES: algorithms[name]}
            winner = tuned(algorithms[name], make, gossip, seeds.tuning, tuning)
            if winner is not None:
                variants[TUNED] = winner
            entries += [
                Entry(
                    name,
                    label,
                    family,
                    network,
                    *suite.regret_of(judging, player, gossip, seeds.judging[0]),
                )
                for label, player in variants.items()
            ]
        return entries

    # All networks share a program: one thread plays them all, and those beside it compile others.
    cells = [(family, name) for family in families for name in algorithms]
    play_cell = kept.keeping(lambda entries: [Entry(*parts) for parts in entries], one)
    return [entry for found in in_threads(play_cell, cells, "leaderboard") for entry in found]


def tuned(
    algorithm: AnyAlgorithm,
    make: Callable[[int], fb.problems.Problem],
    gossip: fb.Gossip,
    seeds: range,
    tuning: Tuning,
) -> AnyAlgorithm | None:
    """The best candidate on the tuning draws; None where there is nothing to tune."""
    from fedbandits.tuning import choose

    if not algorithm.tunable:
        return None
    choice = choose(
        make(seeds[0]),
        algorithm,
        gossip,
        budget=tuning.budget,
        runs=tuning.runs,
        draws=tuning.draws,
        seed=seeds[0],
        progress=False,
    )
    return choice.winner


def share(entries: Iterable[Entry], agent: str = "mean") -> Interval:
    """Regret over uniform play's, the mean over cases, with a 95% bootstrap interval over draws.

    Args:
        entries: of one algorithm and setting, with the same number of draws.
        agent: `mean`, or `worst`: the largest over agents of the mean over draws.
    """
    cases = list(entries)
    draws = len(cases[0].uniform)
    # How much each draw weighs: evenly in the first row, as often as it was drawn in the others.
    again = [(resamples(draws) == d).mean(axis=1) for d in range(draws)]
    weights = np.vstack([np.full(draws, 1 / draws), np.column_stack(again)])

    def of(case: Entry) -> Floats:
        regret = weights @ case.regret  # [1 + B, agents]
        over_agents = regret.mean(axis=1) if agent == "mean" else regret.max(axis=1)
        ratio: Floats = over_agents / (weights @ case.uniform)
        return ratio

    value, *others = np.mean([of(case) for case in cases], axis=0)
    low, high = np.quantile(others, [0.025, 0.975]) if draws > 1 else (np.nan, np.nan)
    return Interval(float(value), float(low), float(high))


Where = Callable[[Entry], bool]


def stationary(entry: Entry) -> bool:
    """Families 1 to 4."""
    return suite.families()[entry.family].stationary


def adversarial(entry: Entry) -> bool:
    """Families 5 and 6."""
    return not stationary(entry)


def select(entries: Iterable[Entry], algorithm: str, setting: str, where: Where) -> list[Entry]:
    """The entries of an algorithm in some cases."""
    return [e for e in entries if (e.algorithm, e.setting) == (algorithm, setting) and where(e)]


def ranked(entries: list[Entry]) -> list[str]:
    """Algorithms by the regret of their defaults on families 1 to 4."""
    names = dict.fromkeys(e.algorithm for e in entries)
    return sorted(names, key=lambda a: share(select(entries, a, AS_IT_COMES, stationary)).mean)


def board(
    entries: list[Entry], costs: dict[str, Cost], device: str, horizon: int = FULL.suite.horizon
) -> Table:
    """One row for each algorithm."""
    rows = []
    for name in ranked(entries):
        cells = [
            _cell(select(entries, name, setting, where), agent)
            for setting, where, agent in (
                (AS_IT_COMES, stationary, "mean"),
                (TUNED, stationary, "mean"),
                (AS_IT_COMES, stationary, "worst"),
                (AS_IT_COMES, adversarial, "mean"),
            )
        ]
        cost = costs[name]
        sent = " + ".join(dict.fromkeys(cost.leaves.values())) or "nothing"
        rows.append((name, *cells, sent, f"{cost.bytes:,.0f}", f"{cost.milliseconds:,.0f}"))
    columns = (
        "algorithm",
        "families 1-4",
        "tuned",
        "worst agent",
        "families 5-6",
        "sends",
        "bytes",
        "ms",
    )
    note = (
        "Regret at T in % of uniform play's (100: guessing; below 0: better than the best fixed "
        "arm), mean over networks and families, ± half a 95% interval over draws of the losses. "
        "Tuned, and the worst agent untuned, are of families 1-4; -: nothing to tune. Bytes: what "
        f"an agent sends in a round on the {NETWORK}; ms: a simulated run of {horizon:,} "
        f"rounds there, beside others, on {device}. {IN_VIEW} "
        "FedHedge sees the losses of all arms. Exp3Coop and DelayedFTRL are made for agents who "
        "see the same losses: here, at most on average, in families 1, 4 and 5. TrackingFedExp3 "
        "and SharingFedExp3 are made for a best arm that moves, with families of its own: "
        "`fedbandits reproduce moving`. "
        f"{promises(costs)}"
    )
    return Table("The board", columns, rows, note)


def promises(names: Iterable[str]) -> str:
    """Whose noise guarantees what, with ε, unit and adversary, in a sentence for each."""
    kinds: dict[str, AnyAlgorithm] = {n: fb.algorithms.REGISTRY[n]() for n in names}
    said = [
        f"{name} adds noise: {kind.guarantee.format(epsilon=f'{kind.epsilon:g}')}."  # type: ignore[attr-defined]
        for name, kind in kinds.items()
        if kind.guarantee is not None
    ]
    return " ".join(said)


def by_family(entries: list[Entry]) -> Table:
    """Default and tuned, family by family, over the networks."""

    def of(family: str) -> Where:
        return lambda e: e.family == family

    parts = {name: of(name) for name in dict.fromkeys(e.family for e in entries)}
    return _breakdown(entries, "By family, mean over networks: default / tuned", parts)


def by_network(entries: list[Entry]) -> Table:
    """Default and tuned, network by network, over families 1 to 4."""

    def on(network: str) -> Where:
        return lambda e: e.network == network and stationary(e)

    parts = {name: on(name) for name in dict.fromkeys(e.network for e in entries)}
    return _breakdown(entries, "By network, families 1 to 4: default / tuned", parts)


NOTE = "Regret at T in % of uniform play's, mean over agents; -: nothing to tune."


def _breakdown(entries: list[Entry], title: str, parts: dict[str, Where]) -> Table:
    def cell(algorithm: str, where: Where) -> str:
        both = [select(entries, algorithm, setting, where) for setting in (AS_IT_COMES, TUNED)]
        return " / ".join(f"{100 * share(found).mean:.1f}" if found else "-" for found in both)

    rows = [(name, *(cell(name, where) for where in parts.values())) for name in ranked(entries)]
    return Table(title, ("algorithm", *parts), rows, NOTE)


def _cell(entries: list[Entry], agent: str = "mean") -> str:
    """A share in per cent; no interval where there is a single draw."""
    if not entries:
        return "-"
    found = share(entries, agent)
    half = 50 * (found.high - found.low)
    return f"{100 * found.mean:.1f}" + ("" if np.isnan(half) else f" ± {half:.1f}")


def frame(entries: list[Entry], costs: dict[str, Cost]) -> pd.DataFrame:
    """Every entry: shares with intervals, regret, cost."""
    import pandas as pd

    rows = []
    for e in entries:
        mean, worst, cost = share([e]), share([e], "worst"), costs[e.algorithm]
        case = (e.family, e.network, e.algorithm, e.setting, len(e.uniform))
        regret = (e.regret.mean(), e.regret.mean(axis=0).max(), e.uniform.mean())
        rows.append((*case, *regret, *mean, *worst, cost.bytes, cost.milliseconds))
    shares = [f"{of}_{part}" for of in ("share", "worst_share") for part in ("mean", "low", "high")]
    columns = ["family", "network", "algorithm", "setting", "runs", "regret", "worst_regret"]
    return pd.DataFrame(rows, columns=[*columns, "uniform", *shares, "bytes", "ms_a_run"])


def findings(entries: list[Entry], costs: dict[str, Cost]) -> list[str]:
    """What was found, in words made from the numbers."""
    kinds = fb.algorithms.REGISTRY
    order = [name for name in ranked(entries) if kinds[name].feedback == "bandit"]

    def of(name: str, setting: str) -> list[Entry]:
        return select(entries, name, setting, stationary)

    first, second = order[:2]
    best = min((n for n in order if of(n, TUNED)), key=lambda n: share(of(n, TUNED)).mean)
    raw = [name for name in order if "raw" in costs[name].leaves.values()]
    return [
        f"As they come, {first} pays least on families 1 to 4 of those with bandit feedback "
        f"({_cell(of(first, AS_IT_COMES))} % of uniform play's regret), then {second} "
        f"({_cell(of(second, AS_IT_COMES))} %); tuned for each case, {best} "
        f"({_cell(of(best, TUNED))} %). Raw arms or losses leave the agents of "
        f"{', '.join(raw) or 'none'}. {IN_VIEW}"
    ]


PICTURE = Picture(
    "leaderboard",
    "Regret on families 1 to 4 in % of uniform play's, mean over networks, agents and draws: "
    "filled as the algorithm comes, hollow tuned for each case with equal budgets. Bars are 95%, "
    "over draws of the losses.",
    "One row for each algorithm: its regret in % of uniform play's on a log axis, as it comes and "
    "tuned.",
)


def draw(entries: list[Entry]) -> Figure:
    """One row for each algorithm; shares of 0 or less have no place on a log axis."""
    from fedbandits.results.plots import COLOURS, figure_of, legend_below, new_axes, plain_log

    names = ranked(entries)[::-1]
    ax = new_axes(height=0.8 + 0.28 * len(names))
    for i, setting in enumerate((AS_IT_COMES, TUNED)):
        chosen = [select(entries, name, setting, stationary) for name in names]
        found = {y: share(each) for y, each in enumerate(chosen) if each}
        shown = {y: share for y, share in found.items() if share.mean > 0}
        mean, low, high = 100 * np.array([*shown.values()]).reshape(-1, 3).T
        ax.errorbar(
            mean,
            [y + 0.12 * (1 - 2 * i) for y in shown],
            xerr=np.maximum([mean - low, high - mean], 0),
            fmt="os"[i],
            ms=4,
            color=COLOURS[i],
            mfc=("white", COLOURS[i])[i == 0],
            label=("as it comes", "tuned for each case")[i],
        )
    plain_log(ax, y=False)
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("regret on families 1 to 4, % of uniform play's")
    legend_below(ax)
    return figure_of(ax)
