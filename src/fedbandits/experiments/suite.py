"""The suite behind the default learning rate: six families of losses on four networks.

Families 1 to 4: the regret of every rate beside that of the best of 13 constants, log-spaced in
[0.003, 3] and chosen for each case on draws of the losses that are not used again. Families 5 and
6, where regret can be negative: beside the authors' constant 0.1, in units of what uniform play
pays. Exploration is the same throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.simulation.simulation import Simulation

from .figure1 import EXPLORATION, LEARNING_RATE
from .kept_cells import KeptCells, forget_cells, kept_cells
from .measure import Interval, in_threads, interval, mean_ratio, span
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedbandits.algorithms import AnyAlgorithm

AUTHORS = "constant 0.1"
DEFAULT = "default"
GOAL, GOAL_OF_ONE, GOAL_ADVERSARIAL = 1.06, 1.3, 0.1
"""Geometric mean of the ratios to the best constant, the largest of them, and the largest excess
over the authors' constant in units of uniform play's regret."""

IN_VIEW = (
    "The factors and the offset of the default were chosen with these families in view, and others "
    "like them: on losses of another kind it may do worse."
)
"""Said with the findings, so that no page has them without it."""

WHY_SO_MANY = (
    "of many ratios the largest is the one that luck favours most, and few draws leave it to the "
    "coins on which side of its goal it is."
)
"""Said where the draws are counted."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """What is played.

    Attributes:
        rows: of the grid.
        cols: of the grid; all networks have as many agents as it.
        arms: K.
        horizon: T.
        runs: draws of the losses to judge on, each with its own draw of the agents' randomness. The
            verdict is on the largest of many ratios, which luck favours most: it takes many draws.
        tuning: other draws to choose the constant on, no more than `runs`.
        again: runs of each draw when judging: locking in on the wrong arm is rare and costly.
        constants: learning rates of which the best is chosen for each case.
        families: by number and name.
    """

    rows: int
    cols: int
    arms: int
    horizon: int
    runs: int
    tuning: int
    again: int
    constants: tuple[float, ...]
    families: tuple[str, ...]

    @property
    def agents(self) -> int:
        """N."""
        return self.rows * self.cols


FULL = Sizes(
    rows=6,
    cols=6,
    arms=20,
    horizon=3000,
    runs=80,
    tuning=40,
    again=2,
    constants=tuple(float(rate) for rate in np.geomspace(0.003, 3, 13)),
    families=("1 paper", "2 fixed", "3 heterogeneous", "4 moderate", "5 switching", "6 far"),
)
QUICK = replace(FULL, runs=2, tuning=2, families=("4 moderate", "5 switching"))


class Family(NamedTuple):
    """One kind of losses.

    Attributes:
        title: what they are.
        make: the problem of a seed.
        stationary: whether the best arm stays the best, so that regret is positive and ratios
            mean something.
    """

    title: str
    make: Callable[[int], fb.problems.Problem]
    stationary: bool


def families(sizes: Sizes = FULL) -> dict[str, Family]:
    """Those asked for of the six, by number and name."""
    problems = fb.problems
    agents, arms, horizon = shape = (sizes.agents, sizes.arms, sizes.horizon)

    def moderate(seed: int) -> fb.problems.Problem:
        means = np.full(arms, 0.5)
        means[np.random.default_rng(seed).integers(arms)] = 0.3
        return problems.bernoulli(means, horizon, agents=agents, seed=seed)

    known = {
        "1 paper": Family(
            "activated_bernoulli", lambda s: problems.activated_bernoulli(*shape, seed=s), True
        ),
        "2 fixed": Family(
            "fixed_activation", lambda s: problems.fixed_activation(*shape, seed=s), True
        ),
        "3 heterogeneous": Family(
            "heterogeneous, gap 0.1", lambda s: problems.heterogeneous(*shape, seed=s), True
        ),
        "4 moderate": Family("bernoulli, one arm of mean 0.3, the others 0.5", moderate, True),
        "5 switching": Family(
            "switching, 4 parts", lambda s: problems.switching(*shape, seed=s), False
        ),
        "6 far": Family(
            "delayed_experts, a quarter of the agents, blocks of 20",
            lambda s: problems.delayed_experts(*shape, cluster=agents // 4, block=20, seed=s),
            False,
        ),
    }
    return {name: known[name] for name in sizes.families}


def networks(sizes: Sizes = FULL) -> dict[str, fb.Gossip]:
    """The four, with the paper's matrix."""
    graphs = {
        "complete": fb.networks.complete(sizes.agents),
        "grid": fb.networks.grid(sizes.rows, sizes.cols),
        "path": fb.networks.path(sizes.agents),
        "star": fb.networks.star(sizes.agents),
    }
    return {name: fb.gossip.max_degree(graph) for name, graph in graphs.items()}


def contenders() -> dict[str, fb.FedExp3]:
    """Rates that need no tuning, how much the default's factor matters, the authors' constant."""
    rates, c = fb.schedules, fb.schedules.mixing_aware().c
    return {
        DEFAULT: fb.FedExp3(),
        "half its factor": fb.FedExp3(rates.mixing_aware(c / 2), EXPLORATION),
        "twice its factor": fb.FedExp3(rates.mixing_aware(2 * c), EXPLORATION),
        "small_loss": fb.FedExp3(rates.small_loss(), EXPLORATION),
        "anytime": fb.FedExp3(fb.schedules.anytime(), EXPLORATION),
        AUTHORS: fb.FedExp3(LEARNING_RATE, EXPLORATION),
    }


class Case(NamedTuple):
    """What was found for one family on one network.

    Attributes:
        family: its number and name.
        network: its name.
        best: the constant chosen on the tuning draws.
        at_edge: whether it is the smallest or largest of those tried.
        regret: expected regret at T, mean over agents, of each contender and of the chosen
            constant on fresh draws, `[draws]`.
        uniform: the same of uniform play, exact.
    """

    family: str
    network: str
    best: float
    at_edge: bool
    regret: dict[str, Floats]
    uniform: Floats


BEST = "best constant"


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play the suite and judge; writes `suite.csv` and two pictures as .png, .pdf and .svg."""
    from . import slow_networks  # which plays what is here

    sizes = sizes or (QUICK if options.quick else FULL)
    runs, chosen = options.runs or sizes.runs, families(sizes)
    seeds = fresh_seeds(options.seed, runs, sizes.tuning)
    section = Section(
        "suite",
        "The suite: learning rates that need no tuning",
        options.command("suite"),
        settings={
            "sizes": f"N = {sizes.agents}, K = {sizes.arms}, T = {sizes.horizon}; complete graph, "
            f"grid({sizes.rows}, {sizes.cols}), path, star; gossip max_degree",
            "families": "; ".join(f"{name}: {family.title}" for name, family in chosen.items()),
            "exploration": f"{EXPLORATION}, the same throughout",
            "default": f"{fb.FedExp3().learning_rate}",
            "seeds": f"{len(seeds.tuning)} draws of the losses and agents to choose the constant, "
            f"seeds {seeds.tuning[0]} on; {runs} others, {sizes.again} runs of each, to judge, "
            f"seeds {seeds.judging[0]} on",
            "draws": f"{runs} to judge: {WHY_SO_MANY}",
        },
    )
    kept = kept_cells(options, "suite", [sizes, contenders()])
    with section.timed(f"{len(chosen)} families on four networks"):
        cases = play(chosen, seeds, sizes, kept)
    section.add_csv(options.out, "suite.csv", frame(cases))
    section.tables += [ratio_table(cases), adversarial_table(cases), verdict_table(cases)]
    section.add_picture(options.out, draw(cases), PICTURE)
    section.paragraphs += findings(cases)
    slow_networks.study(section, options, seeds, sizes, kept)
    forget_cells(options, "suite")
    return section


class Seeds(NamedTuple):
    """Draws of the losses and of the agents' randomness."""

    tuning: range
    judging: range


def fresh_seeds(seed: int, runs: int, tuning: int | None = None) -> Seeds:
    """Seeds for choosing and for judging, never the same.

    Args:
        seed: of all of them; no two of them share any.
        runs: draws to judge on.
        tuning: draws to choose on, no more than `runs`; as many by default.

    Example:
        >>> fresh_seeds(0, 20, 5)
        Seeds(tuning=range(0, 5), judging=range(20, 40))
    """
    first = 2 * seed * runs
    return Seeds(range(first, first + runs)[:tuning], range(first + runs, first + 2 * runs))


def play(chosen: Mapping[str, Family], seeds: Seeds, sizes: Sizes, kept: KeptCells) -> list[Case]:
    """Every family on every network."""
    gossips = networks(sizes)

    def one(cell: tuple[str, str]) -> Case:
        return play_case(*cell, chosen[cell[0]].make, gossips[cell[1]], contenders(), seeds, sizes)

    cells = [(name, network) for name in chosen for network in gossips]
    return in_threads(kept.keeping(lambda parts: Case(*parts), one), cells, "suite")


def play_case(
    family: str,
    network: str,
    make: Callable[[int], fb.problems.Problem],
    gossip: fb.Gossip,
    players: Mapping[str, fb.FedExp3],
    seeds: Seeds,
    sizes: Sizes,
) -> Case:
    """Choose the best constant on some draws, and judge it with all players on others."""
    rates = sizes.constants
    tuning, judging = ([make(seed) for seed in part] for part in seeds)
    constants = [
        regret_of(tuning, fb.FedExp3(rate, EXPLORATION), gossip, seeds.tuning[0])[0].mean()
        for rate in rates
    ]
    place = int(np.argmin(constants))
    found = {
        label: regret_of(judging, player, gossip, seeds.judging[0], sizes.again)
        for label, player in {**players, BEST: fb.FedExp3(rates[place], EXPLORATION)}.items()
    }
    at_edge = place in (0, len(rates) - 1)
    regret = {label: values.mean(axis=1) for label, (values, _) in found.items()}
    return Case(family, network, rates[place], at_edge, regret, found[DEFAULT][1])


def regret_of(
    problems: list[fb.problems.Problem],
    algorithm: AnyAlgorithm,
    gossip: fb.Gossip,
    seed: int,
    runs: int = 1,
) -> tuple[Floats, Floats]:
    """Expected regret at T, `[draws, agents]`, mean over runs, and uniform play's, `[draws]`."""
    from fedbandits.engine.totals import play_totals

    simulation = Simulation(problems[0], algorithm, gossip, runs, seed)
    found = play_totals(simulation.on(problems)).isel(time=-1)
    by_arm = found["arm_loss"]
    uniform = by_arm.mean("arm") - by_arm.min("arm")
    regret = found["expected_regret"].mean("run")
    return regret.to_numpy(), uniform.to_numpy()


def ratio(case: Case, label: str) -> Interval:
    """Regret over that of the best constant, with a 95% bootstrap interval over draws."""
    return mean_ratio([(case.regret[label], case.regret[BEST])])


def geometric_mean(cases: list[Case], label: str) -> Interval:
    """Of the ratios of several cases, with a 95% bootstrap interval over draws."""
    return mean_ratio([(case.regret[label], case.regret[BEST]) for case in cases])


def excess(case: Case, label: str) -> Interval:
    """Regret above the authors' constant, paired, in units of uniform play's regret."""
    return interval((case.regret[label] - case.regret[AUTHORS]) / case.uniform.mean())


def split(cases: list[Case]) -> tuple[list[Case], list[Case]]:
    """The cases of families 1 to 4, and of 5 and 6."""
    known = families()
    stationary = [case for case in cases if known[case.family].stationary]
    return stationary, [case for case in cases if not known[case.family].stationary]


def frame(cases: list[Case]) -> pd.DataFrame:
    """Every mean with its interval, tidy."""
    import pandas as pd

    rows = [
        (case.family, case.network, label, *interval(values), len(values), case.best)
        for case in cases
        for label, values in [*case.regret.items(), ("uniform play", case.uniform)]
    ]
    columns = ["family", "network", "rate", "mean", "low", "high", "runs", "best_constant"]
    return pd.DataFrame(rows, columns=columns)


def ratio_table(cases: list[Case]) -> Table:
    """Families 1 to 4, case by case."""
    rows = []
    for case in split(cases)[0]:
        found = ratio(case, DEFAULT)
        rows.append(
            (
                f"{case.family}, {case.network}",
                f"{case.best:.3g}{' (edge)' * case.at_edge}",
                f"{case.regret[BEST].mean():,.1f}",
                f"{case.regret[DEFAULT].mean():,.1f}",
                f"{found.mean:.2f}",
                span(found.low, found.high),
                f"{case.regret[AUTHORS].mean():,.1f}",
                f"{case.uniform.mean():,.0f}",
            )
        )
    columns = (
        "case",
        "best constant",
        "its regret",
        "default",
        "ratio",
        "95%",
        AUTHORS,
        "uniform play",
    )
    note = (
        "Expected regret at T, mean over agents and draws. The best of 13 constants was chosen for "
        "each case on other draws; at the edge of the 13 a larger or smaller one may be better."
    )
    return Table("Families 1 to 4: beside the best constant of each case", columns, rows, note)


def adversarial_table(cases: list[Case]) -> Table:
    """Families 5 and 6, case by case."""
    rows = []
    for case in split(cases)[1]:
        found = excess(case, DEFAULT)
        rows.append(
            (
                f"{case.family}, {case.network}",
                f"{case.regret[AUTHORS].mean():,.1f}",
                f"{case.regret[DEFAULT].mean():,.1f}",
                f"{case.uniform.mean():,.0f}",
                f"{found.mean:+.2f}",
                span(found.low, found.high),
            )
        )
    columns = ("case", AUTHORS, "default", "uniform play", "excess", "95%")
    note = "Excess: default less constant 0.1, in units of uniform play's regret; paired by draw."
    return Table("Families 5 and 6: beside the authors' constant", columns, rows, note)


def verdict_table(cases: list[Case]) -> Table:
    """The three goals, for every contender."""
    stationary, adversarial = split(cases)
    rows = []
    for label in contenders():
        mean = geometric_mean(stationary, label)
        worst = max(ratio(case, label).mean for case in stationary)
        above = max(excess(case, label).mean for case in adversarial)
        rows.append(
            (
                label,
                f"{mean.mean:.3f}",
                span(mean.low, mean.high, 3),
                f"{worst:.2f}",
                f"{above:+.3f}",
            )
        )
    columns = ("rate", "geometric mean", "95%", "largest ratio", "largest excess")
    draws = len(cases[0].uniform)
    note = f"Goals: {GOAL}, {GOAL_OF_ONE:g} and {GOAL_ADVERSARIAL}. Of {draws} draws: {WHY_SO_MANY}"
    return Table("The verdict", columns, rows, note)


def findings(cases: list[Case]) -> list[str]:
    """What was found, in words made from the numbers."""
    stationary, adversarial = split(cases)
    mean = geometric_mean(stationary, DEFAULT)
    worst = max(stationary, key=lambda case: ratio(case, DEFAULT).mean)
    above = max(adversarial, key=lambda case: excess(case, DEFAULT).mean)
    ratios, most = ratio(worst, DEFAULT), excess(above, DEFAULT)
    met = [
        mean.mean <= GOAL,
        ratios.mean <= GOAL_OF_ONE,
        most.mean <= GOAL_ADVERSARIAL,
    ]
    return [
        f"The default pays {mean.mean:.3f} times what the best constant of each case pays "
        f"(geometric mean, 95%: {span(mean.low, mean.high, 3)}; goal {GOAL}: "
        f"{_met(met[0])}), at most {ratios.mean:.2f} times ({worst.family}, {worst.network}, 95%: "
        f"{span(ratios.low, ratios.high)}; goal {GOAL_OF_ONE:g}: {_met(met[1])}). Where the best "
        f"arm changes, its regret less that of the constant 0.1 is at most {most.mean:+.2f} of "
        f"uniform play's ({above.family}, {above.network}, 95%: {span(most.low, most.high)}; goal "
        f"{GOAL_ADVERSARIAL}: {_met(met[2])}). {IN_VIEW}"
    ]


def _met(yes: bool) -> str:
    return "met" if yes else "missed"


PICTURE = Picture(
    "suite",
    "Regret of FedExp3's default learning rate and of the authors' constant over that of the best "
    "of 13 constants chosen for each case. Bars are 95%, over draws of the losses. Dashed: the "
    "goals for the geometric mean and for a single case.",
    "Ratios of sixteen cases on a log axis: the default lies near 1, the constant 0.1 up to 10.",
)


def draw(cases: list[Case]) -> Figure:
    """The ratios of families 1 to 4."""
    from fedbandits.results.plots import COLOURS, figure_of, legend_below, new_axes, plain_log

    ax = new_axes()
    stationary = split(cases)[0]
    x = np.arange(len(stationary))
    for i, label in enumerate((DEFAULT, AUTHORS)):
        ratios = [ratio(case, label) for case in stationary]
        mean = np.array([r.mean for r in ratios])
        bars = np.array([[r.mean - r.low, r.high - r.mean] for r in ratios]).T
        place = x + 0.15 * (2 * i - 1)
        ax.errorbar(
            place, mean, np.maximum(bars, 0), fmt="os"[i], ms=4, color=COLOURS[i], label=label
        )
    for goal in (GOAL, GOAL_OF_ONE):
        ax.axhline(goal, color="0.5", ls="--", lw=0.8, zorder=0)
    ax.axhline(1, color="0.3", lw=0.8, zorder=0)
    plain_log(ax, x=False)
    ax.set_xticks(x, [f"{case.family}, {case.network}" for case in stationary], rotation=90)
    ax.tick_params(axis="x", labelsize="x-small")
    ax.set_ylabel("regret / best constant's")
    legend_below(ax)
    return figure_of(ax)
