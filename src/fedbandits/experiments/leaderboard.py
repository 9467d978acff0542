"""Every algorithm on every family of losses and every network of the suite.

Once as it comes, and once tuned, with the same number of candidates for each algorithm and case,
chosen on other draws of the losses than those shown. Regret is that of the mean and of the worst
agent, in units of what uniform play pays on the same losses; beside it what leaves each agent in a
round, and what it costs to simulate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb

from . import suite
from .measure import Interval, in_threads, resamples
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedbandits.algorithms import AnyAlgorithm

RUNS = 12
"""Draws of the losses, each with its own draw of the agents' randomness."""
BUDGET = 12
"""Candidates of each algorithm on each case."""
TUNING_RUNS, TUNING_DRAWS = 3, 2
AS_IT_COMES, TUNED = "default", "tuned"
NETWORK = "grid"
"""Where bytes and time are measured."""
LEFT_OUT = ("LinearBlockGossip",)
"""Arms of the suite are no vectors; `fedbandits reproduce linear` is for it."""

Floats = npt.NDArray[np.float64]


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
        milliseconds: of one run of T rounds, simulated, after compilation.
    """

    bytes: float
    leaves: dict[str, str]
    milliseconds: float


def players() -> dict[str, AnyAlgorithm]:
    """Every algorithm with its defaults."""
    kinds = fb.algorithms.REGISTRY
    return {name: kind() for name, kind in kinds.items() if name not in LEFT_OUT}


def reproduce(options: Options) -> Section:
    """Play and rank; writes `leaderboard.csv` and `leaderboard` as .png, .pdf and .svg."""
    runs = options.runs or (2 if options.quick else RUNS)
    families = suite.families()
    chosen = dict(list(families.items())[3:5]) if options.quick else families
    networks = {NETWORK: suite.networks()[NETWORK]} if options.quick else suite.networks()
    seeds = suite.fresh_seeds(options.seed, runs)
    section = Section(
        "leaderboard",
        "The leaderboard: every algorithm on the suite",
        options.command("leaderboard"),
        settings={
            "cases": f"{', '.join(chosen)} on {', '.join(networks)}, as in the suite: "
            f"N = {suite.AGENTS}, K = {suite.ARMS}, T = {suite.HORIZON}, gossip max_degree",
            "tuned": f"at most {BUDGET} candidates of learning rate, exploration and block for "
            f"each algorithm and case, {TUNING_DRAWS} draws of the losses, {TUNING_RUNS} runs each",
            "seeds": f"{runs} draws of the losses and agents, seeds {seeds.judging[0]} on; tuned "
            "on others",
        },
    )
    with section.timed("costs, on the grid"):
        costs = measure_costs(players(), runs)
    with section.timed(f"{len(costs)} algorithms on {len(chosen) * len(networks)} cases"):
        entries = play(players(), chosen, networks, seeds)
    section.add_csv(options.out, "leaderboard.csv", frame(entries, costs))
    section.tables += [board(entries, costs), by_family(entries), by_network(entries)]
    section.add_picture(options.out, draw(entries), PICTURE)
    section.paragraphs += findings(entries, costs)
    return section


def measure_costs(algorithms: dict[str, AnyAlgorithm], runs: int) -> dict[str, Cost]:
    """Bytes, kinds and time of every algorithm on the paper's losses, one after the other."""
    problem = next(iter(suite.families().values())).make(0)
    gossip = suite.networks()[NETWORK]
    costs = {}
    for name, algorithm in algorithms.items():
        for _ in range(2):  # the first compiles
            began = perf_counter()
            result = fb.simulate(problem, algorithm, gossip, runs, progress=False)
            took = perf_counter() - began
        sent = result.communication
        costs[name] = Cost(sent["bytes"], kinds_of(sent["leaves"]), 1000 * took / runs)
    return costs


def kinds_of(leaves: dict[str, object]) -> dict[str, str]:
    """What each leaf is."""
    return {
        name: str(leaf["kind"] if isinstance(leaf, dict) else leaf) for name, leaf in leaves.items()
    }


def play(
    algorithms: dict[str, AnyAlgorithm],
    families: dict[str, suite.Family],
    networks: dict[str, fb.Gossip],
    seeds: suite.Seeds,
) -> list[Entry]:
    """Every algorithm on every case, as it comes and tuned."""

    def one(cell: tuple[str, str, str]) -> list[Entry]:
        name, family, network = cell
        make, gossip = families[family].make, networks[network]
        judging = [make(seed) for seed in seeds.judging]
        variants = {AS_IT_COMES: algorithms[name]}
        if (winner := tuned(algorithms[name], make, gossip, seeds.tuning)) is not None:
            variants[TUNED] = winner
        return [
            Entry(name, label, family, network, *by_agent(judging, player, gossip, seeds))
            for label, player in variants.items()
        ]

    cells = [(a, f, n) for a in algorithms for f in families for n in networks]
    return [entry for found in in_threads(one, cells, "leaderboard") for entry in found]


def tuned(
    algorithm: AnyAlgorithm,
    make: Callable[[int], fb.problems.Problem],
    gossip: fb.Gossip,
    seeds: range,
) -> AnyAlgorithm | None:
    """The best candidate on the tuning draws; None where there is nothing to tune."""
    from fedbandits.engine.simulate import setting_of
    from fedbandits.tuning import choose
    from fedbandits.tuning.knobs import tunable

    problem = make(seeds[0])
    if not tunable(algorithm, setting_of(problem, gossip)):
        return None
    choice = choose(
        *(problem, algorithm, gossip),
        budget=BUDGET,
        runs=TUNING_RUNS,
        draws=TUNING_DRAWS,
        seed=seeds[0],
        progress=False,
    )
    return choice.winner


def by_agent(
    problems: list[fb.problems.Problem],
    algorithm: AnyAlgorithm,
    gossip: fb.Gossip,
    seeds: suite.Seeds,
) -> tuple[Floats, Floats]:
    """Expected regret at T, `[draws, agents]`, and that of uniform play, `[draws]`."""
    from fedbandits.engine.draws import simulate_draws

    found = simulate_draws(problems, algorithm, gossip, seed=seeds.judging[0]).isel(time=-1, run=0)
    by_arm = found["arm_loss"]
    uniform = by_arm.mean("arm") - by_arm.min("arm")
    return found["expected_regret"].to_numpy(), uniform.to_numpy()


def share(entries: Iterable[Entry], agent: str = "mean") -> Interval:
    """Regret over uniform play's, the mean over cases, with a 95% bootstrap interval over draws.

    Args:
        entries: of one algorithm and setting.
        agent: `mean`, or `worst`: the largest over agents of the mean over draws.
    """

    def of(entry: Entry, draws: npt.NDArray[np.int64]) -> Floats:
        regret = entry.regret[draws].mean(axis=-2)  # [..., agents]
        over_agents = regret.mean(axis=-1) if agent == "mean" else regret.max(axis=-1)
        ratio: Floats = over_agents / entry.uniform[draws].mean(axis=-1)
        return ratio

    cases = list(entries)
    draws = len(cases[0].uniform)
    again = np.mean([of(case, resamples(draws)) for case in cases], axis=0)
    low, high = np.quantile(again, [0.025, 0.975])
    value = np.mean([of(case, np.arange(draws)) for case in cases])
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


def board(entries: list[Entry], costs: dict[str, Cost]) -> Table:
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
        rows.append((name, *cells, f"{cost.bytes:,.0f}", sent, f"{cost.milliseconds:,.0f}"))
    columns = (
        *("algorithm", "families 1-4", "the same, tuned", "worst agent", "families 5-6"),
        *("bytes", "what leaves", "ms a run"),
    )
    note = (
        "Regret at T as a share of uniform play's, mean over cases (1: no better than guessing; "
        "below 0: better than the best fixed arm), with 95% intervals over draws of the losses. "
        "Worst agent: as it comes, families 1-4. Bytes are those an agent sends in a round on the "
        "grid; ms is one simulated run there, T = "
        f"{suite.HORIZON:,}. FedHedge sees the losses of all arms. Exp3Coop and DelayedFTRL are "
        "made for losses that are equal across agents, which only families 4 and 5 nearly are."
    )
    return Table("The board", columns, rows, note)


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


def _breakdown(entries: list[Entry], title: str, parts: dict[str, Where]) -> Table:
    def cell(algorithm: str, where: Where) -> str:
        both = [select(entries, algorithm, setting, where) for setting in (AS_IT_COMES, TUNED)]
        return " / ".join(f"{share(found).mean:.3f}" if found else "-" for found in both)

    rows = [(name, *(cell(name, where) for where in parts.values())) for name in ranked(entries)]
    return Table(title, ("algorithm", *parts), rows, "Shares of uniform play's regret.")


def _cell(entries: list[Entry], agent: str) -> str:
    if not entries:
        return "-"
    found = share(entries, agent)
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


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
    order = [name for name in ranked(entries) if "FedHedge" not in name]
    defaults = {n: share(select(entries, n, AS_IT_COMES, stationary)).mean for n in order}
    best = min(
        (n for n in order if select(entries, n, TUNED, stationary)),
        key=lambda n: share(select(entries, n, TUNED, stationary)).mean,
    )
    at_best = share(select(entries, best, TUNED, stationary)).mean
    raw = [n for n in order if "raw" in costs[n].leaves.values()]
    return [
        f"As they come, {order[0]} pays least on families 1 to 4 of those with bandit feedback "
        f"({defaults[order[0]]:.3f} of uniform play's regret), then {order[1]} "
        f"({defaults[order[1]]:.3f}); tuned for each case, {best} ({at_best:.3f}). "
        f"Raw arms or losses leave the agents of {', '.join(raw) or 'none'}."
    ]


PICTURE = Picture(
    "leaderboard",
    "Regret on families 1 to 4 as a share of uniform play's, mean over networks: filled as the "
    "algorithm comes, hollow tuned for each case with equal budgets. Bars are 95%.",
    "One row for each algorithm: shares of uniform play's regret on a log axis.",
)


def draw(entries: list[Entry]) -> Figure:
    """One row for each algorithm."""
    from fedbandits.plots import COLOURS, figure_of, new_axes

    ax = new_axes()
    names = ranked(entries)[::-1]
    for i, setting in enumerate((AS_IT_COMES, TUNED)):
        for y, name in enumerate(names):
            chosen = select(entries, name, setting, stationary)
            if not chosen:
                continue
            found = share(chosen)
            bars = np.maximum([[found.mean - found.low], [found.high - found.mean]], 0)
            ax.errorbar(
                *([found.mean], [y + 0.12 * (1 - 2 * i)]),
                xerr=bars,
                fmt="o",
                ms=4,
                color=COLOURS[i],
                mfc=COLOURS[i] if i == 0 else "white",
                label=setting if y == len(names) - 1 or (i == 1 and name == names[-2]) else None,
            )
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("regret / uniform play's, families 1 to 4")
    handles, labels = ax.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    ax.legend(unique.values(), unique.keys(), frameon=False)
    return figure_of(ax)
