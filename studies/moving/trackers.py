"""A best arm that moves: algorithms that track it, against the best memory and rate.

Where the best arm moves, regret is above the best sequence of arms. It is compared with that of the
best pair (memory, constant rate) of 6 × 13, chosen for each case on draws of the losses that are
not used again. Where the best arm stays, a tracker is compared with FedExp3(), which never forgets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common.statistics import Interval, interval
from fedbandits.engine import totals
from fedbandits.paper.cells import KeptCells, forget_cells, in_threads, kept_cells
from fedbandits.paper.figure1 import EXPLORATION
from fedbandits.paper.intervals import Floats, span
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.dynamic_regret import best_of_parts, best_sequences
from fedbandits.simulation.simulation import Simulation
from fedbandits.tuning import play as tuning_play
from studies.ratios import geometric_mean_ratio, ratio_columns
from studies.suite import Seeds, fresh_seeds

from . import cases as all_cases
from .cases import Case

FOREVER = 1e30
"""A memory without forgetting: 1 - 1/m rounds to 1. So one program plays all memories."""
MEMORIES = (30.0, 100.0, 300.0, 1000.0, 3000.0, FOREVER)
RATES = tuple(float(rate) for rate in np.geomspace(0.003, 3, 13))

PLAIN, TRACKER, BEST = "FedExp3()", "TrackingFedExp3()", "best pair"
SHARING = "SharingFedExp3()"
GOAL_MOVING, GOAL_STILL, GOAL_OF_ONE = 1.3, 1.25, 1.6
"""Goals of the tracker: the geometric mean of its ratios to the best pair if the best arm moves, to
FedExp3() if it stays, and the largest of the latter."""

REMEMBERING = (0.2, 0.99, 0.999, 0.9999)
"""Weights that the tracker gives to remembering forever, besides its default."""
KEEPING = (100, 300, 1000, 3000)
"""Single memories, in rounds."""


def contenders() -> dict[str, AnyAlgorithm]:
    """Return the algorithms that are compared, the same in all cases."""
    return {
        PLAIN: fb.FedExp3(),
        TRACKER: fb.TrackingFedExp3(),
        **{_remembering(w): fb.TrackingFedExp3(forever=w) for w in REMEMBERING},
        SHARING: fb.SharingFedExp3(),
        **{_keeping(m): fb.FedExp3(memory=m) for m in KEEPING},
    }


def _remembering(forever: float) -> str:
    return f"TrackingFedExp3(forever={forever:g})"


def _keeping(memory: int) -> str:
    return f"FedExp3(memory={memory})"


def curves() -> dict[str, dict[str, str]]:
    """Return two trade-offs between moving and staying: contenders in order, with their parameter.

    Example:
        >>> [list(curve.values()) for curve in curves().values()]
        [['0.2', '0.95', '0.99', '0.999', '0.9999'], ['100', '300', '1,000', '3,000', '∞']]
    """
    weights = {_remembering(w): w for w in REMEMBERING} | {TRACKER: fb.TrackingFedExp3().forever}
    ordered = sorted(weights, key=lambda label: weights[label])
    return {
        "TrackingFedExp3(forever=...)": {label: f"{weights[label]:g}" for label in ordered},
        "FedExp3(memory=...)": {_keeping(m): f"{m:,}" for m in KEEPING} | {PLAIN: "∞"},
    }


@dataclass(frozen=True)
class Sizes:
    """Sizes of the study.

    Attributes:
        moving: cases whose best arm moves.
        still: cases whose best arm stays.
        draws: of the losses to judge on, each with its own randomness of the agents.
        tuning: other draws to choose on, no more than `draws`.
        memories: in rounds, of which the best is chosen for each moving case.
        rates: constants, likewise.
    """

    moving: tuple[Case, ...]
    still: tuple[Case, ...]
    draws: int = 24
    tuning: int = 6
    memories: tuple[float, ...] = MEMORIES
    rates: tuple[float, ...] = RATES


def full() -> Sizes:
    """Return all cases."""
    return Sizes(all_cases.tracking(), all_cases.stationary())


def quick() -> Sizes:
    """Return a few small cases, few draws and a coarse grid."""
    few = all_cases.few()
    moving, still = (tuple(c for c in few if c.moves is moves) for moves in (True, False))
    return Sizes(moving, still, 2, 1, memories=(100.0, FOREVER), rates=(0.03, 0.3))


class Played(NamedTuple):
    """The regrets of one case.

    Attributes:
        case: losses, network and sizes.
        memory: of the best pair; `FOREVER` if the best arm stays.
        rate: of the best pair.
        at_edge: whether the rate is the smallest or largest candidate.
        regret: at T, expected, of the mean agent, of each contender and of the best pair on fresh
            draws, `[D]`.
        uniform: exact regret of uniform play, `[D]`.
    """

    case: Case
    memory: float
    rate: float
    at_edge: bool
    regret: dict[str, Floats]
    uniform: Floats

    @property
    def chosen_rate(self) -> str:
        """The rate of the best pair as text, marked if it is at the edge of the candidates."""
        return f"{self.rate:.2g}{' (edge)' * self.at_edge}"

    def mean(self, label: str) -> str:
        """Return the mean regret of a contender as text."""
        return f"{self.regret[label].mean():,.0f}"


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play and judge; write `moving.csv` and `moving` as .png, .pdf and .svg."""
    from . import picture  # imports this module

    sizes = sizes or (quick() if options.quick else full())
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    seeds = fresh_seeds(options.seed, sizes.draws, sizes.tuning)
    section = options.section(
        "moving",
        "A best arm that moves: trackers that need no tuning",
        {
            "cases": f"{len(sizes.moving)} with a best arm that moves, {len(sizes.still)} with one "
            "that stays; gossip max_degree",
            "pairs": f"{len(sizes.memories) * len(sizes.rates)} for each moving case, memories "
            f"{', '.join(map(_rounds, sizes.memories))}, rates {len(sizes.rates)} from "
            f"{sizes.rates[0]:g} to {sizes.rates[-1]:g}",
            "exploration": f"{EXPLORATION}, the same throughout",
            "seeds": f"{sizes.draws} draws of the losses and agents to judge, seeds "
            f"{seeds.judging[0]} on; {len(seeds.tuning)} others to choose the "
            f"pair, seeds {seeds.tuning[0]} on",
        },
    )
    chosen_by = (sizes.draws, sizes.tuning, sizes.memories, sizes.rates)
    kept = kept_cells(options, "moving", [chosen_by, contenders()])
    with section.timed(f"{len(sizes.moving) + len(sizes.still)} cases"):
        moving, still = play(sizes, seeds, kept)
    section.add_csv(options.out, "moving.csv", frame(moving + still))
    section.tables += [verdict_table(moving, still), moving_table(moving), still_table(still)]
    section.add_picture(options.out, picture.draw(moving, still), picture.PICTURE)
    section.paragraphs += findings(moving, still)
    forget_cells(options, "moving")
    return section


def play(sizes: Sizes, seeds: Seeds, kept: KeptCells) -> tuple[list[Played], list[Played]]:
    """Play all cases: those whose best arm moves, and those whose best arm stays."""
    cases = (*sizes.moving, *sizes.still)

    def one(cell: tuple[Any, ...]) -> Played:
        return play_case(cases[cell[0]], sizes, seeds)._replace(case=None)  # type: ignore[arg-type]  # put back below

    # The largest first, so that no large case runs alone at the end.
    order = sorted(range(len(cases)), key=lambda c: -math.prod(cases[c].numbers))
    cells = [(c, cases[c].name, *cases[c].numbers, cases[c].yardstick) for c in order]
    found = in_threads(kept.keeping(lambda parts: Played(*parts), one), cells, "moving")
    by_number = dict(zip(order, found, strict=True))
    played = [by_number[c]._replace(case=case) for c, case in enumerate(cases)]
    return played[: len(sizes.moving)], played[len(sizes.moving) :]


def play_case(case: Case, sizes: Sizes, seeds: Seeds) -> Played:
    """Choose the best pair on some draws, and judge it with all contenders on others."""
    gossip = fb.gossip.max_degree(case.network)
    pairs = [(m, r) for m in (sizes.memories if case.moves else (FOREVER,)) for r in sizes.rates]
    memory, rate = best_pair(case, pairs, gossip, seeds.tuning)
    problems = [case.make(seed) for seed in seeds.judging]
    players = contenders() | {BEST: fb.FedExp3(rate, EXPLORATION, memory=memory)}
    regret, uniform = judged(case, problems, players, gossip, seeds.judging[0])
    return Played(case, memory, rate, rate in (sizes.rates[0], sizes.rates[-1]), regret, uniform)


def best_pair(
    case: Case, pairs: Sequence[tuple[float, float]], gossip: fb.Gossip, seeds: range
) -> tuple[float, float]:
    """Return the (memory, constant rate) with the least regret; one program plays them all.

    The sequence that regret is above does not matter: it is the same for all pairs.
    """
    players = [fb.FedExp3(rate, EXPLORATION, memory=memory) for memory, rate in pairs]
    total = np.zeros(len(pairs))
    for seed in seeds:
        simulation = Simulation(case.make(seed), players[0], gossip, runs=1)
        results = tuning_play.play_each(simulation, players, seed, progress=False)
        total += [tuning_play.at_end(result).mean() for result in results]
    return pairs[int(np.argmin(total))]


def judged(
    case: Case,
    problems: Sequence[fb.problems.Problem],
    players: Mapping[str, AnyAlgorithm],
    gossip: fb.Gossip,
    seed: int,
) -> tuple[dict[str, Floats], Floats]:
    """Return regret at T of every player, mean over agents, and uniform play's: `[D]`."""
    regret: dict[str, Floats] = {}
    above: Floats | None = None
    for label, player in players.items():
        # All players face the same losses, so only the first one records them.
        wanted = above is None and case.moves
        simulation = Simulation(problems[0], player, gossip, runs=1, seed=seed)
        found = totals.play_totals(simulation.on(problems), rounds=wanted).isel(time=-1)
        by_arm = found["arm_loss"].to_numpy()
        fixed = by_arm.min(axis=1)
        if above is None:
            losses = found["round_loss"].transpose("round", "arm", "draw") if wanted else None
            above = fixed - (fixed if losses is None else best_loss(case, losses.to_numpy()))
            uniform: Floats = by_arm.mean(axis=1) - fixed + above
        regret[label] = found["expected_regret"].mean(["run", "agent"]).to_numpy() + above
    return regret, uniform


def best_loss(case: Case, losses: Floats) -> Floats:
    """Return the loss of the best sequence of arms, `[D]`, from all losses, `[T, K, D]`."""
    ends = [case.horizon]
    if case.parts is not None:
        found: Floats = best_of_parts(losses, case.parts, case.horizon, ends)[0]
    else:
        found = best_sequences(losses, case.changes or 0, ends)[0, -1]
    return found


def ratio(played: Sequence[Played], label: str, other: str) -> Interval:
    """Return the geometric mean of regret over another's, with a 95% bootstrap interval."""
    return geometric_mean_ratio([(each.regret[label], each.regret[other]) for each in played])


def largest(played: Sequence[Played], label: str, other: str) -> tuple[Interval, Case]:
    """Return the largest of the ratios, and its case; NaN is larger than all numbers."""
    found = {each.case: ratio([each], label, other) for each in played}
    case = max(found, key=lambda c: math.inf if math.isnan(found[c].mean) else found[c].mean)
    return found[case], case


def frame(played: Sequence[Played]) -> pd.DataFrame:
    """Return every mean with its interval, tidy."""
    rows = [
        (
            *(each.case.name, *each.case.numbers, each.case.yardstick, label),
            *(*interval(values), len(values), _rounds(each.memory), each.rate),
        )
        for each in played
        for label, values in [*each.regret.items(), ("uniform play", each.uniform)]
    ]
    columns = ["case", "agents", "arms", "horizon", "above", "player", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "draws", "best_memory", "best_rate"])


def verdict_table(moving: Sequence[Played], still: Sequence[Played]) -> Table:
    """Compare every contender with the goals."""
    return Table.of(
        "Tracking: the verdict",
        labels(moving),
        [
            ("player", str),
            *ratio_columns("moving", lambda label: ratio(moving, label, BEST)),
            ("largest", lambda label: f"{largest(moving, label, BEST)[0].mean:.2f}"),
            *ratio_columns("staying", lambda label: ratio(still, label, PLAIN)),
            *ratio_columns("largest", lambda label: largest(still, label, PLAIN)[0]),
        ],
        "Geometric means of ratios of regret, and the largest. Moving: above the best sequence of "
        "arms, over that of the best pair (memory, constant rate) of each case. Staying: above the "
        f"best arm, over that of {PLAIN}. Goals: {GOAL_MOVING}, {GOAL_STILL} and, of a single "
        f"staying case, {GOAL_OF_ONE}.",
    )


def moving_table(moving: Sequence[Played]) -> Table:
    """Return the cases whose best arm moves."""
    return Table.of(
        "Tracking: a best arm that moves",
        moving,
        [
            ("case", lambda each: each.case.name),
            ("N, K, T", lambda each: each.case.sizes),
            ("above", lambda each: each.case.yardstick),
            ("best pair", lambda each: f"{_rounds(each.memory)}, {each.chosen_rate}"),
            ("its regret", lambda each: each.mean(BEST)),
            (TRACKER, lambda each: each.mean(TRACKER)),
            (PLAIN, lambda each: each.mean(PLAIN)),
            ("uniform play", lambda each: f"{each.uniform.mean():,.0f}"),
            *ratio_columns("ratio", lambda each: ratio([each], TRACKER, BEST)),
        ],
        "Regret at T above the best sequence of arms with so many changes, or the best arm of each "
        "of so many parts: mean over agents and draws. The best of the pairs (memory in rounds, "
        "constant rate) was chosen for each case on other draws; at the edge of the rates a larger "
        f"or smaller one may be better. Ratio: {TRACKER} over the best pair.",
    )


def still_table(still: Sequence[Played]) -> Table:
    """Return the cases whose best arm stays."""
    return Table.of(
        "Tracking: a best arm that stays",
        still,
        [
            ("case", lambda each: each.case.name),
            ("N, K, T", lambda each: each.case.sizes),
            ("best constant", lambda each: each.chosen_rate),
            ("its regret", lambda each: each.mean(BEST)),
            (PLAIN, lambda each: each.mean(PLAIN)),
            (TRACKER, lambda each: each.mean(TRACKER)),
            ("uniform play", lambda each: f"{each.uniform.mean():,.0f}"),
            ("default / best", lambda each: f"{ratio([each], PLAIN, BEST).mean:.2f}"),
            *ratio_columns("tracker / default", lambda each: ratio([each], TRACKER, PLAIN)),
        ],
        "Regret at T above the best arm: mean over agents and draws. The best of the constant "
        "rates was chosen for each case on other draws.",
    )


def findings(moving: Sequence[Played], still: Sequence[Played]) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    tracks, stays = ratio(moving, TRACKER, BEST), ratio(still, TRACKER, PLAIN)
    most_moving, where_moving = largest(moving, TRACKER, BEST)
    most_still, where_still = largest(still, TRACKER, PLAIN)
    plain, memoryless = ratio(moving, PLAIN, BEST), ratio(still, PLAIN, BEST)
    most_plain, where_plain = largest(still, PLAIN, BEST)
    good = ", ".join(label for label in labels(moving) if meets_all(moving, still, label))
    return [
        f"Where the best arm moves, {TRACKER} pays {tracks.mean:.2f} times what the best pair "
        "(memory, constant rate) of each case pays, in regret above the best sequence (geometric "
        f"mean of {len(moving)} cases, 95%: {span(tracks.low, tracks.high)}; goal {GOAL_MOVING}: "
        f"{verdict(tracks.mean, GOAL_MOVING)}), at most {most_moving.mean:.2f} times "
        f"({where_moving.name}). {PLAIN}, which never forgets, pays {plain.mean:.2f} times it.",
        f"Where it stays, {TRACKER} pays {stays.mean:.2f} times what {PLAIN} pays (geometric mean "
        f"of {len(still)} cases, 95%: {span(stays.low, stays.high)}; goal {GOAL_STILL}: "
        f"{verdict(stays.mean, GOAL_STILL)}), at most {most_still.mean:.2f} times "
        f"({where_still.name}, 95%: {span(most_still.low, most_still.high)}; goal {GOAL_OF_ONE}: "
        f"{verdict(most_still.mean, GOAL_OF_ONE)}). {PLAIN} itself pays {memoryless.mean:.2f} "
        "times what the best constant of each case pays, at most "
        f"{most_plain.mean:.2f} times ({where_plain.name}).",
        *trade(moving, still),
        f"All three goals are met by {good}."
        if good
        else "None of those compared meets all three goals.",
    ]


def trade(moving: Sequence[Played], still: Sequence[Played]) -> list[str]:
    """Return what the tracker's weight of remembering forever changes, from end to end."""
    played, (curve, *_) = labels(moving), curves().values()
    weights = {label: weight for label, weight in curve.items() if label in played}
    if len(weights) < 2:
        return []
    numbers = [
        f"{ratio(moving, label, BEST).mean:.2f}, {ratio(still, label, PLAIN).mean:.2f} and "
        f"{largest(still, label, PLAIN)[0].mean:.2f} with {weight}"
        for label, weight in weights.items()
    ]
    good = [weight for label, weight in weights.items() if meets_all(moving, still, label)]
    return [
        "Its weight of remembering forever trades one for the other. The three numbers, moving, "
        f"staying and the largest staying, are {'; '.join(numbers)}: all three goals are met with "
        f"{', '.join(good) or 'none of these'}."
    ]


def meets_all(moving: Sequence[Played], still: Sequence[Played], label: str) -> bool:
    """Return whether a contender meets the three goals; NaN does not meet a goal."""
    return (
        ratio(moving, label, BEST).mean <= GOAL_MOVING
        and ratio(still, label, PLAIN).mean <= GOAL_STILL
        and largest(still, label, PLAIN)[0].mean <= GOAL_OF_ONE
    )


def verdict(found: float, goal: float) -> str:
    """Return whether a goal is met, or the amount by which it is missed.

    Example:
        >>> verdict(1.2, 1.25), verdict(1.3, 1.25), verdict(math.nan, 1.25)
        ('met', 'missed by 0.05', 'missed: no ratio')
    """
    if math.isnan(found):
        return "missed: no ratio"
    return "met" if found <= goal else f"missed by {found - goal:.2f}"


def labels(played: Sequence[Played]) -> list[str]:
    """Return the contenders, in order."""
    return [label for label in played[0].regret if label != BEST]


def _rounds(memory: float) -> str:
    return "∞" if memory >= FOREVER else f"{memory:,.0f}"
