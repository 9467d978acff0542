"""The leaderboard: every algorithm on every family of losses and every network of the suite.

Each algorithm plays with its defaults, and tuned. Tuning has the same budget of candidates for each
algorithm and case, defaults included, and uses other draws of the losses than the results. The
board shows regret of the mean and of the worst agent in units of uniform play's regret, what each
agent sends in a round, and the cost of simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.paper.cells import KeptCells, forget_cells, in_threads, kept_cells
from fedbandits.paper.pictures import Picture, error_bars, finished
from fedbandits.paper.section import Options, Section, Table, versions
from fedbandits.results.plots import COLOURS, new_axes, plain_log
from fedbandits.tuning import choose

from . import suite
from .entries import Entry, Where, percent, ranked, select, share

DEFAULT, TUNED = "default", "tuned"
NETWORK = "grid"
"""The network on which bytes and time are measured."""
LEFT_OUT = {"LinearBlockGossip": "arms of the suite are no vectors; see `python -m studies linear`"}
"""Algorithms that are not on the board, with the reason."""
IN_VIEW = (
    "The default rate of FedExp3, AcceleratedFedExp3, SharingFedExp3, TrackingFedExp3 and Exp3 was "
    "chosen with these families, among others, in view; other defaults were not."
)
"""Part of the findings and of the board, so that every page that shows them has this warning."""


@dataclass(frozen=True)
class Tuning:
    """Tuning of each algorithm on each case.

    Attributes:
        budget: the most candidates, the default included.
        runs: of each candidate on each draw.
        draws: of the losses.
    """

    budget: int
    runs: int
    draws: int


@dataclass(frozen=True)
class Sizes:
    """Sizes of the board.

    Attributes:
        suite: the families and networks, and the draws of the losses.
        networks: by name.
        tuning: of each algorithm on each case.
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


class Cost(NamedTuple):
    """The cost of an algorithm on the grid.

    Attributes:
        bytes: sent by an agent in a round.
        leaves: parts of its messages, by name and kind.
        milliseconds: of one run of T rounds, simulated with others, after compilation.
    """

    bytes: float
    leaves: dict[str, str]
    milliseconds: float


def players(left_out: Container[str] = LEFT_OUT) -> dict[str, AnyAlgorithm]:
    """Return every algorithm with its defaults, except those left out."""
    kinds = fb.algorithms.REGISTRY
    return {name: kind() for name, kind in kinds.items() if name not in left_out}


def reproduce(
    options: Options,
    sizes: Sizes | None = None,
    algorithms: dict[str, AnyAlgorithm] | None = None,
) -> Section:
    """Play and rank; write `leaderboard.csv` and `leaderboard` as .png, .pdf and .svg.

    Args:
        options: of the command.
        sizes: of the board; by default `FULL`, or `QUICK` with the option `quick`.
        algorithms: by default all.
    """
    sizes = sizes or (QUICK if options.quick else FULL)
    algorithms = algorithms or players()
    cases, tuning = sizes.suite, sizes.tuning
    runs, chosen, every = options.runs or cases.runs, suite.families(cases), suite.networks(cases)
    networks = {name: every[name] for name in sizes.networks}
    seeds = suite.fresh_seeds(options.seed, runs)
    section = options.section(
        "leaderboard",
        "The leaderboard: every algorithm on the suite",
        {
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
    section.tables += [
        board(entries, costs, versions()["device"], cases.horizon),
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
    """Measure bytes, kinds and time of every algorithm on the paper's losses, one by one."""
    [paper] = suite.families(replace(sizes, families=("1 paper",))).values()
    problem, gossip = paper.make(0), suite.networks(sizes)[NETWORK]
    costs = {}
    for name, algorithm in algorithms.items():
        for _ in range(2):  # the first call compiles
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
    """Play every algorithm on every case, with its defaults and tuned."""

    def one(cell: tuple[str, str]) -> list[Entry]:
        family, name = cell
        make = families[family].make
        judging = [make(seed) for seed in seeds.judging]
        entries = []
        for network, gossip in networks.items():
            variants = {DEFAULT: algorithms[name]}
            winner = tuned(algorithms[name], make, gossip, seeds.tuning, tuning)
            if winner is not None:
                variants[TUNED] = winner
            for label, player in variants.items():
                found = suite.regret_of(judging, player, gossip, seeds.judging[0])
                entries.append(Entry(name, label, family, network, *found))
        return entries

    # All networks share a program, so one thread plays them all while others compile.
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
    """Return the best candidate on the tuning draws; None if there is nothing to tune."""
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


def stationary(entry: Entry) -> bool:
    """Return whether the family is one of 1 to 4."""
    return suite.families()[entry.family].stationary


def adversarial(entry: Entry) -> bool:
    """Return whether the family is 5 or 6."""
    return not stationary(entry)


def board(
    entries: list[Entry], costs: dict[str, Cost], device: str, horizon: int = FULL.suite.horizon
) -> Table:
    """Return one row for each algorithm."""

    def sends(name: str) -> str:
        return " + ".join(dict.fromkeys(costs[name].leaves.values())) or "nothing"

    return Table.of(
        "The board",
        ranked(entries, DEFAULT, stationary),
        [
            ("algorithm", str),
            ("families 1-4", lambda name: percent(select(entries, name, DEFAULT, stationary))),
            ("tuned", lambda name: percent(select(entries, name, TUNED, stationary))),
            ("worst agent", lambda name: percent(select(entries, name, DEFAULT, stationary), True)),
            ("families 5-6", lambda name: percent(select(entries, name, DEFAULT, adversarial))),
            ("sends", sends),
            ("bytes", lambda name: f"{costs[name].bytes:,.0f}"),
            ("ms", lambda name: f"{costs[name].milliseconds:,.0f}"),
        ],
        "Regret at T in % of uniform play's (100: guessing; below 0: better than the best fixed "
        "arm), mean over networks and families, ± half a 95% interval over draws of the losses. "
        "Tuned, and the worst agent untuned, are of families 1-4; -: nothing to tune. Bytes: what "
        f"an agent sends in a round on the {NETWORK}; ms: a simulated run of {horizon:,} "
        f"rounds there, played with others, on {device}. {IN_VIEW} "
        "FedHedge sees the losses of all arms. Exp3Coop and DelayedFTRL are made for agents who "
        "see the same losses: here, at most on average, in families 1, 4 and 5. TrackingFedExp3 "
        "and SharingFedExp3 are made for a best arm that moves, with families of its own: "
        f"`python -m studies moving`. {promises(costs)}",
    )


def promises(names: Iterable[str]) -> str:
    """Return what the noise of some algorithms guarantees, with ε, unit and adversary."""
    kinds: dict[str, AnyAlgorithm] = {n: fb.algorithms.REGISTRY[n]() for n in names}
    said = [
        f"{name} adds noise: {kind.guarantee.format(epsilon=f'{kind.epsilon:g}')}."  # type: ignore[attr-defined]
        for name, kind in kinds.items()
        if kind.guarantee is not None
    ]
    return " ".join(said)


def by_family(entries: list[Entry]) -> Table:
    """Return default and tuned by family, over the networks."""

    def of(family: str) -> Where:
        return lambda e: e.family == family

    parts = {name: of(name) for name in dict.fromkeys(e.family for e in entries)}
    return _breakdown(entries, "By family, mean over networks: default / tuned", parts)


def by_network(entries: list[Entry]) -> Table:
    """Return default and tuned by network, over families 1 to 4."""

    def on(network: str) -> Where:
        return lambda e: e.network == network and stationary(e)

    parts = {name: on(name) for name in dict.fromkeys(e.network for e in entries)}
    return _breakdown(entries, "By network, families 1 to 4: default / tuned", parts)


def _breakdown(entries: list[Entry], title: str, parts: dict[str, Where]) -> Table:
    def cell(algorithm: str, where: Where) -> str:
        both = [select(entries, algorithm, setting, where) for setting in (DEFAULT, TUNED)]
        return " / ".join(f"{100 * share(found).mean:.1f}" if found else "-" for found in both)

    names = ranked(entries, DEFAULT, stationary)
    rows = [(name, *(cell(name, where) for where in parts.values())) for name in names]
    note = "Regret at T in % of uniform play's, mean over agents; -: nothing to tune."
    return Table(title, ("algorithm", *parts), rows, note)


def frame(entries: list[Entry], costs: dict[str, Cost]) -> pd.DataFrame:
    """Return every entry: shares with intervals, regret, cost."""
    rows = []
    for e in entries:
        cost, case = costs[e.algorithm], (e.family, e.network, e.algorithm, e.setting)
        regret = (e.regret.mean(), e.regret.mean(axis=0).max(), e.uniform.mean())
        shares = (*share([e]), *share([e], worst=True))
        rows.append((*case, len(e.uniform), *regret, *shares, cost.bytes, cost.milliseconds))
    shares_of = [f"{of}_{p}" for of in ("share", "worst_share") for p in ("mean", "low", "high")]
    columns = ["family", "network", "algorithm", "setting", "runs", "regret", "worst_regret"]
    return pd.DataFrame(rows, columns=[*columns, "uniform", *shares_of, "bytes", "ms_a_run"])


def findings(entries: list[Entry], costs: dict[str, Cost]) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    kinds = fb.algorithms.REGISTRY
    names = ranked(entries, DEFAULT, stationary)
    order = [name for name in names if kinds[name].feedback == "bandit"]

    def of(name: str, setting: str) -> list[Entry]:
        return select(entries, name, setting, stationary)

    first, second = order[:2]
    best = min((n for n in order if of(n, TUNED)), key=lambda n: share(of(n, TUNED)).mean)
    raw = [name for name in order if "raw" in costs[name].leaves.values()]
    return [
        f"With defaults, {first} pays least on families 1 to 4 among algorithms with bandit "
        f"feedback ({percent(of(first, DEFAULT))} % of uniform play's regret), then {second} "
        f"({percent(of(second, DEFAULT))} %); tuned for each case, {best} "
        f"({percent(of(best, TUNED))} %). Raw arms or losses leave the agents of "
        f"{', '.join(raw) or 'none'}. {IN_VIEW}"
    ]


PICTURE = Picture(
    "leaderboard",
    "Regret on families 1 to 4 in % of uniform play's, mean over networks, agents and draws: "
    "filled with defaults, hollow tuned for each case with equal budgets. Bars are 95%, over draws "
    "of the losses.",
    "One row for each algorithm: its regret in % of uniform play's on a log axis, with defaults "
    "and tuned.",
)


def draw(entries: list[Entry]) -> Figure:
    """Draw one row for each algorithm; a log axis has no place for shares of 0 or less."""
    names = ranked(entries, DEFAULT, stationary)[::-1]
    ax = new_axes(height=0.8 + 0.28 * len(names))
    for i, setting in enumerate((DEFAULT, TUNED)):
        chosen = [select(entries, name, setting, stationary) for name in names]
        found = {y: share(each) for y, each in enumerate(chosen) if each}
        shown = {y: share for y, share in found.items() if share.mean > 0}
        mean, bars = error_bars([*shown.values()])
        places = [y + 0.12 * (1 - 2 * i) for y in shown]
        style: dict[str, Any] = (
            {"fmt": "s", "mfc": "white", "label": "tuned for each case"}
            if setting == TUNED
            else {"fmt": "o", "label": "default"}
        )
        ax.errorbar(100 * mean, places, xerr=100 * bars, ms=4, color=COLOURS[i], **style)
    plain_log(ax, y=False)
    ax.set_yticks(range(len(names)), names)
    return finished(ax, "regret on families 1 to 4, % of uniform play's", "")
