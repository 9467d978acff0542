"""The suite behind the default learning rate: six families of losses on four networks.

Families 1 to 4 compare the regret of every rate with that of the best of 13 constants, log-spaced
in [0.003, 3]. The constant is chosen for each case on draws of the losses that are not used again.
Regret can be negative in families 5 and 6. There the comparison is with the authors' constant 0.1,
in units of the regret of uniform play. All rates explore alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common.statistics import Interval, interval
from fedbandits.engine import totals
from fedbandits.paper.cells import KeptCells, forget_cells, in_threads, kept_cells
from fedbandits.paper.figure1 import EXPLORATION, LEARNING_RATE
from fedbandits.paper.intervals import Floats, span
from fedbandits.paper.pictures import Picture, draw_points, finished
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import new_axes, plain_log
from fedbandits.simulation.simulation import Simulation

from .ratios import geometric_mean_ratio, ratio_columns

AUTHORS = "constant 0.1"
DEFAULT = "default"
BEST = "best constant"
GOAL, GOAL_OF_ONE, GOAL_ADVERSARIAL = 1.06, 1.3, 0.1
"""Goals for the default: the geometric mean of its ratios to the best constant, the largest ratio,
and the largest excess over the authors' constant in units of uniform play's regret."""

IN_VIEW = (
    "The factors and the offset of the default were chosen with these families in view, and others "
    "like them: on losses of another kind it may do worse."
)
"""Part of the findings, so that every page that shows them has this warning."""

WHY_SO_MANY = (
    "of many ratios the largest is the one that luck favours most, and few draws leave it to the "
    "coins on which side of its goal it is."
)
"""The reason for the number of draws, shown next to it."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the suite.

    Attributes:
        rows: of the grid.
        cols: of the grid; all networks have as many agents as the grid.
        arms: K.
        horizon: T.
        runs: draws of the losses to judge on, each with its own randomness of the agents. Luck
            moves the largest of many ratios most, so the verdict needs many draws.
        tuning: other draws to choose the constant on, no more than `runs`.
        again: runs of each draw when judging, because settling on the wrong arm is rare and costly.
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

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, K and T."""
        return self.agents, self.arms, self.horizon


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
        title: description.
        make: the problem of a seed.
        stationary: whether one arm is best throughout, so that regret is positive and ratios have
            a meaning.
    """

    title: str
    make: Callable[[int], fb.problems.Problem]
    stationary: bool


def families(sizes: Sizes = FULL) -> dict[str, Family]:
    """Return the families of these sizes, by number and name."""
    problems, shape = fb.problems, sizes.shape

    def far(seed: int) -> fb.problems.Problem:
        return problems.delayed_experts(*shape, cluster=sizes.agents // 4, block=20, seed=seed)

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
        "4 moderate": Family(
            "bernoulli, one arm of mean 0.3, the others 0.5", lambda s: moderate(*shape, s), True
        ),
        "5 switching": Family(
            "switching, 4 parts", lambda s: problems.switching(*shape, seed=s), False
        ),
        "6 far": Family("delayed_experts, a quarter of the agents, blocks of 20", far, False),
    }
    return {name: known[name] for name in sizes.families}


def moderate(agents: int, arms: int, horizon: int, seed: int) -> fb.problems.Problem:
    """Return coins with mean 0.3 for one random arm and mean 0.5 for the others."""
    means = np.full(arms, 0.5)
    means[np.random.default_rng(seed).integers(arms)] = 0.3
    return fb.problems.bernoulli(means, horizon, agents=agents, seed=seed)


def networks(sizes: Sizes = FULL) -> dict[str, fb.Gossip]:
    """Return the four networks, with the paper's matrix."""
    graphs = {
        "complete": fb.networks.complete(sizes.agents),
        "grid": fb.networks.grid(sizes.rows, sizes.cols),
        "path": fb.networks.path(sizes.agents),
        "star": fb.networks.star(sizes.agents),
    }
    return {name: fb.gossip.max_degree(graph) for name, graph in graphs.items()}


def contenders() -> dict[str, fb.FedExp3]:
    """Return rates without tuning, the default with other factors, and the authors' constant."""
    rates, c = fb.schedules, fb.schedules.mixing_aware().c
    return {
        DEFAULT: fb.FedExp3(),
        "half its factor": fb.FedExp3(rates.mixing_aware(c / 2), EXPLORATION),
        "twice its factor": fb.FedExp3(rates.mixing_aware(2 * c), EXPLORATION),
        "small_loss": fb.FedExp3(rates.small_loss(), EXPLORATION),
        "anytime": fb.FedExp3(rates.anytime(), EXPLORATION),
        AUTHORS: fb.FedExp3(LEARNING_RATE, EXPLORATION),
    }


class Case(NamedTuple):
    """The regrets of one family on one network.

    Attributes:
        family: its number and name.
        network: its name.
        best: the constant chosen on the tuning draws.
        at_edge: whether it is the smallest or largest candidate.
        regret: expected regret at T, mean over agents, of each contender and of the chosen
            constant on fresh draws, `[draws]`.
        uniform: the exact regret of uniform play, `[draws]`.
    """

    family: str
    network: str
    best: float
    at_edge: bool
    regret: dict[str, Floats]
    uniform: Floats

    @property
    def chosen(self) -> str:
        """The chosen constant as text, marked if it is at the edge of the candidates."""
        return f"{self.best:.3g}{' (edge)' * self.at_edge}"

    def mean(self, label: str) -> str:
        """Return the mean regret of a contender as text."""
        return f"{self.regret[label].mean():,.1f}"


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play the suite and judge it; write `suite.csv` and two pictures as .png, .pdf and .svg."""
    from . import slow_networks  # imports this module

    sizes = sizes or (QUICK if options.quick else FULL)
    runs, chosen = options.runs or sizes.runs, families(sizes)
    seeds = fresh_seeds(options.seed, runs, sizes.tuning)
    section = options.section(
        "suite",
        "The suite: learning rates that need no tuning",
        {
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
    """Seeds of the losses and of the agents' randomness."""

    tuning: range
    judging: range


def fresh_seeds(seed: int, runs: int, tuning: int | None = None) -> Seeds:
    """Return disjoint seeds for choosing and for judging.

    Args:
        seed: of the study; two of them share no seeds.
        runs: draws to judge on.
        tuning: draws to choose on, no more than `runs`; as many by default.

    Example:
        >>> fresh_seeds(0, 20, 5)
        Seeds(tuning=range(0, 5), judging=range(20, 40))
    """
    first = 2 * seed * runs
    return Seeds(range(first, first + runs)[:tuning], range(first + runs, first + 2 * runs))


def play(chosen: Mapping[str, Family], seeds: Seeds, sizes: Sizes, kept: KeptCells) -> list[Case]:
    """Play every family on every network."""
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
    """Return expected regret at T, `[draws, agents]`, mean over runs, and uniform play's."""
    simulation = Simulation(problems[0], algorithm, gossip, runs, seed)
    found = totals.play_totals(simulation.on(problems)).isel(time=-1)
    by_arm = found["arm_loss"]
    uniform = by_arm.mean("arm") - by_arm.min("arm")
    regret = found["expected_regret"].mean("run")
    return regret.to_numpy(), uniform.to_numpy()


def ratio(case: Case, label: str) -> Interval:
    """Return regret over that of the best constant, with a 95% bootstrap interval over draws."""
    return geometric_mean([case], label)


def geometric_mean(cases: list[Case], label: str) -> Interval:
    """Return the geometric mean of the ratios of several cases, with a 95% bootstrap interval."""
    return geometric_mean_ratio([(case.regret[label], case.regret[BEST]) for case in cases])


def excess(case: Case, label: str) -> Interval:
    """Return regret less that of the authors' constant, in units of uniform play's regret."""
    return interval((case.regret[label] - case.regret[AUTHORS]) / case.uniform.mean())


def split(cases: list[Case]) -> tuple[list[Case], list[Case]]:
    """Return the cases of families 1 to 4, and of 5 and 6."""
    known = families()
    stationary = [case for case in cases if known[case.family].stationary]
    return stationary, [case for case in cases if not known[case.family].stationary]


def frame(cases: list[Case]) -> pd.DataFrame:
    """Return every mean with its interval, tidy."""
    rows = [
        (case.family, case.network, label, *interval(values), len(values), case.best)
        for case in cases
        for label, values in [*case.regret.items(), ("uniform play", case.uniform)]
    ]
    columns = ["family", "network", "rate", "mean", "low", "high", "runs", "best_constant"]
    return pd.DataFrame(rows, columns=columns)


def ratio_table(cases: list[Case]) -> Table:
    """Compare the default with the best constant, case by case of families 1 to 4."""
    return Table.of(
        "Families 1 to 4: beside the best constant of each case",
        split(cases)[0],
        [
            ("case", lambda case: f"{case.family}, {case.network}"),
            ("best constant", lambda case: case.chosen),
            ("its regret", lambda case: case.mean(BEST)),
            ("default", lambda case: case.mean(DEFAULT)),
            *ratio_columns("ratio", lambda case: ratio(case, DEFAULT)),
            (AUTHORS, lambda case: case.mean(AUTHORS)),
            ("uniform play", lambda case: f"{case.uniform.mean():,.0f}"),
        ],
        "Expected regret at T, mean over agents and draws. The best of 13 constants was chosen for "
        "each case on other draws; at the edge of the 13 a larger or smaller one may be better.",
    )


def adversarial_table(cases: list[Case]) -> Table:
    """Compare the default with the authors' constant, case by case of families 5 and 6."""
    return Table.of(
        "Families 5 and 6: beside the authors' constant",
        split(cases)[1],
        [
            ("case", lambda case: f"{case.family}, {case.network}"),
            (AUTHORS, lambda case: case.mean(AUTHORS)),
            ("default", lambda case: case.mean(DEFAULT)),
            ("uniform play", lambda case: f"{case.uniform.mean():,.0f}"),
            ("excess", lambda case: f"{excess(case, DEFAULT).mean:+.2f}"),
            ("95%", lambda case: span(*excess(case, DEFAULT)[1:])),
        ],
        "Excess: default less constant 0.1, in units of uniform play's regret; paired by draw.",
    )


def verdict_table(cases: list[Case]) -> Table:
    """Compare every contender with the three goals."""
    stationary, adversarial = split(cases)

    def largest(of: Callable[[Case, str], Interval], among: list[Case], label: str) -> float:
        return max(of(case, label).mean for case in among)

    return Table.of(
        "The verdict",
        contenders(),
        [
            ("rate", str),
            ("geometric mean", lambda label: f"{geometric_mean(stationary, label).mean:.3f}"),
            ("95%", lambda label: span(*geometric_mean(stationary, label)[1:], 3)),
            ("largest ratio", lambda label: f"{largest(ratio, stationary, label):.2f}"),
            ("largest excess", lambda label: f"{largest(excess, adversarial, label):+.3f}"),
        ],
        f"Goals: {GOAL}, {GOAL_OF_ONE:g} and {GOAL_ADVERSARIAL}. Of {len(cases[0].uniform)} "
        f"draws: {WHY_SO_MANY}",
    )


def findings(cases: list[Case]) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    stationary, adversarial = split(cases)
    mean = geometric_mean(stationary, DEFAULT)
    worst = max(stationary, key=lambda case: ratio(case, DEFAULT).mean)
    above = max(adversarial, key=lambda case: excess(case, DEFAULT).mean)
    ratios, most = ratio(worst, DEFAULT), excess(above, DEFAULT)
    met, met_of_one, met_adversarial = (
        "met" if found.mean <= goal else "missed"
        for found, goal in ((mean, GOAL), (ratios, GOAL_OF_ONE), (most, GOAL_ADVERSARIAL))
    )
    return [
        f"The default pays {mean.mean:.3f} times what the best constant of each case pays "
        f"(geometric mean, 95%: {span(mean.low, mean.high, 3)}; goal {GOAL}: {met}), at most "
        f"{ratios.mean:.2f} times ({worst.family}, {worst.network}, 95%: "
        f"{span(ratios.low, ratios.high)}; goal {GOAL_OF_ONE:g}: {met_of_one}). Where the best "
        f"arm changes, its regret less that of the constant 0.1 is at most {most.mean:+.2f} of "
        f"uniform play's ({above.family}, {above.network}, 95%: {span(most.low, most.high)}; goal "
        f"{GOAL_ADVERSARIAL}: {met_adversarial}). {IN_VIEW}"
    ]


PICTURE = Picture(
    "suite",
    "Regret of FedExp3's default learning rate and of the authors' constant over that of the best "
    "of 13 constants chosen for each case. Bars are 95%, over draws of the losses. Dashed: the "
    "goals for the geometric mean and for a single case.",
    "Ratios of sixteen cases on a log axis: the default lies near 1, the constant 0.1 up to 10.",
)


def draw(cases: list[Case]) -> Figure:
    """Draw the ratios of families 1 to 4."""
    ax = new_axes()
    stationary = split(cases)[0]
    x = np.arange(len(stationary))
    for i, label in enumerate((DEFAULT, AUTHORS)):
        points = [ratio(case, label) for case in stationary]
        draw_points(ax, x + 0.15 * (2 * i - 1), points, i, label, linestyle="none")
    for goal in (GOAL, GOAL_OF_ONE):
        ax.axhline(goal, color="0.5", ls="--", lw=0.8, zorder=0)
    ax.axhline(1, color="0.3", lw=0.8, zorder=0)
    plain_log(ax, x=False)
    ax.set_xticks(x, [f"{case.family}, {case.network}" for case in stationary], rotation=90)
    ax.tick_params(axis="x", labelsize="x-small")
    return finished(ax, "", "regret / best constant's")
