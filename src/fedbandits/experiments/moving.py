"""A best arm that moves: trackers beside the best memory and rate, and beside who never forgets.

Where the best arm moves, regret is above the best sequence of arms, and it is compared with that of
the best pair (memory, constant rate) of 6 × 13, chosen for each case on draws of the losses that
are not used again. Where it stays, with that of FedExp3(): what a tracker pays for being ready.
Losses, networks and sizes stand in `moving_cases`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.simulation.simulation import Simulation

from . import moving_cases
from .figure1 import EXPLORATION
from .kept_cells import KeptCells, forget_cells, kept_cells
from .measure import Interval, in_threads, interval, mean_ratio, span
from .moving_cases import Case
from .section import Options, Section, Table
from .suite import Seeds, fresh_seeds

if TYPE_CHECKING:
    import pandas as pd

    from fedbandits.algorithms import AnyAlgorithm

Floats = npt.NDArray[np.float64]

FOREVER = 1e30
"""A memory: 1 - 1/m is 1 to the last bit, so that one program plays those who forget and who do
not."""
MEMORIES = (30.0, 100.0, 300.0, 1000.0, 3000.0, FOREVER)
RATES = tuple(float(rate) for rate in np.geomspace(0.003, 3, 13))

PLAIN, TRACKER, BEST = "FedExp3()", "TrackingFedExp3()", "best pair"
GOAL_MOVING, GOAL_STILL, GOAL_OF_ONE = 1.3, 1.25, 1.6
"""Of the tracker: geometric mean of its ratios to the best pair where the best arm moves, to
FedExp3() where it stays, and the largest of the latter."""


SHARING = "SharingFedExp3()"
REMEMBERING = (0.2, 0.99, 0.999, 0.9999)
"""The tracker's weights of remembering forever, beside its default: what it trades for what."""
KEEPING = (100, 300, 1000, 3000)
"""Single memories, in rounds: the same trade without a choice among them."""


def contenders() -> dict[str, AnyAlgorithm]:
    """Who plays as it comes, the same in all cases; one more is one more line."""
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
    """Two trades of following for staying, by name: their contenders in order, by what is told.

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
    """What is played.

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
    """All cases."""
    return Sizes(moving_cases.tracking(), moving_cases.stationary())


def quick() -> Sizes:
    """A few small cases, few draws, a coarse grid."""
    few = moving_cases.few()
    moving, still = (tuple(c for c in few if c.moves is moves) for moves in (True, False))
    return Sizes(moving, still, 2, 1, memories=(100.0, FOREVER), rates=(0.03, 0.3))


class Played(NamedTuple):
    """What was found in one case.

    Attributes:
        case: what was played.
        memory: of the best pair; `FOREVER` where the best arm stays.
        rate: of the best pair.
        at_edge: whether the rate is the smallest or largest of those tried.
        regret: at T, expected, of the mean agent, of each contender and of the best pair on fresh
            draws, `[D]`.
        uniform: the same of uniform play, exact.
    """

    case: Case
    memory: float
    rate: float
    at_edge: bool
    regret: dict[str, Floats]
    uniform: Floats


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play and judge; writes `moving.csv` and `moving` as .png, .pdf and .svg."""
    from . import moving_picture  # which draws what is here

    sizes = sizes or (quick() if options.quick else full())
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    seeds = fresh_seeds(options.seed, sizes.draws, sizes.tuning)
    count = len(sizes.memories) * len(sizes.rates)
    section = Section(
        "moving",
        "A best arm that moves: trackers that need no tuning",
        options.command("moving"),
        settings={
            "cases": f"{len(sizes.moving)} with a best arm that moves, {len(sizes.still)} with one "
            "that stays; gossip max_degree",
            "pairs": f"{count} for each moving case, memories {_listed(sizes.memories)}, rates "
            f"{len(sizes.rates)} from {sizes.rates[0]:g} to {sizes.rates[-1]:g}",
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
    section.add_picture(options.out, moving_picture.draw(moving, still), moving_picture.PICTURE)
    section.paragraphs += findings(moving, still)
    forget_cells(options, "moving")
    return section


def play(sizes: Sizes, seeds: Seeds, kept: KeptCells) -> tuple[list[Played], list[Played]]:
    """Every case: those whose best arm moves, and those whose best arm stays."""
    cases = (*sizes.moving, *sizes.still)

    def one(cell: tuple[Any, ...]) -> Played:
        return play_case(cases[cell[0]], sizes, seeds)._replace(case=None)  # type: ignore[arg-type]  # put back below

    # The largest first, so that none is left to run alone in the end.
    order = sorted(range(len(cases)), key=lambda c: -math.prod(_numbers(cases[c])))
    cells = [(c, cases[c].name, *_numbers(cases[c]), cases[c].yardstick) for c in order]
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
    """The (memory, constant rate) with the least regret; one program plays them all.

    Above which sequence does not matter: it is the same for all pairs.
    """
    from fedbandits.tuning.play import at_end, play_each

    players = [fb.FedExp3(rate, EXPLORATION, memory=memory) for memory, rate in pairs]
    total = np.zeros(len(pairs))
    for seed in seeds:
        simulation = Simulation(case.make(seed), players[0], gossip, runs=1)
        total += [
            at_end(result).mean() for result in play_each(simulation, players, seed, progress=False)
        ]
    return pairs[int(np.argmin(total))]


def judged(
    case: Case,
    problems: Sequence[fb.problems.Problem],
    players: Mapping[str, AnyAlgorithm],
    gossip: fb.Gossip,
    seed: int,
) -> tuple[dict[str, Floats], Floats]:
    """Regret at T of every player, mean over agents, and uniform play's: `[D]`."""
    from fedbandits.engine.totals import play_totals

    regret: dict[str, Floats] = {}
    above: Floats | None = None
    for label, player in players.items():
        # The losses are the same for all: the first keeps those of every round.
        wanted = above is None and case.moves
        simulation = Simulation(problems[0], player, gossip, runs=1, seed=seed)
        found = play_totals(simulation.on(problems), rounds=wanted).isel(time=-1)
        by_arm = found["arm_loss"].to_numpy()
        fixed = by_arm.min(axis=1)
        if above is None:
            losses = found["round_loss"].transpose("round", "arm", "draw") if wanted else None
            above = fixed - (fixed if losses is None else best_loss(case, losses.to_numpy()))
            uniform: Floats = by_arm.mean(axis=1) - fixed + above
        regret[label] = found["expected_regret"].mean(["run", "agent"]).to_numpy() + above
    return regret, uniform


def best_loss(case: Case, losses: Floats) -> Floats:
    """What the best sequence of arms lost, `[D]`, of the losses of every round, `[T, K, D]`."""
    from fedbandits.results.dynamic_regret import best_of_parts, best_sequences

    ends = [case.horizon]
    if case.parts is not None:
        found: Floats = best_of_parts(losses, case.parts, case.horizon, ends)[0]
    else:
        found = best_sequences(losses, case.changes or 0, ends)[0, -1]
    return found


def ratio(played: Sequence[Played], label: str, beside: str) -> Interval:
    """Geometric mean of regret over another's, with a 95% bootstrap interval over draws."""
    return mean_ratio([(each.regret[label], each.regret[beside]) for each in played])


def largest(played: Sequence[Played], label: str, beside: str) -> tuple[Interval, Case]:
    """The largest of the ratios, and where; one that is no number is larger than all."""
    found = {each.case: ratio([each], label, beside) for each in played}
    case = max(found, key=lambda c: math.inf if math.isnan(found[c].mean) else found[c].mean)
    return found[case], case


def frame(played: Sequence[Played]) -> pd.DataFrame:
    """Every mean with its interval, tidy."""
    import pandas as pd

    rows = [
        (
            *(each.case.name, each.case.network.agents, each.case.arms, each.case.horizon),
            *(each.case.yardstick, label, *interval(values), len(values)),
            *(_rounds(each.memory), each.rate),
        )
        for each in played
        for label, values in [*each.regret.items(), ("uniform play", each.uniform)]
    ]
    columns = ["case", "agents", "arms", "horizon", "above", "player", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "draws", "best_memory", "best_rate"])


def verdict_table(moving: Sequence[Played], still: Sequence[Played]) -> Table:
    """The goals, for every contender."""
    rows = []
    for label in labels(moving):
        tracks, stays = ratio(moving, label, BEST), ratio(still, label, PLAIN)
        most = largest(still, label, PLAIN)[0]
        rows.append(
            (
                label,
                *(f"{tracks.mean:.2f}", span(tracks.low, tracks.high)),
                f"{largest(moving, label, BEST)[0].mean:.2f}",
                *(f"{stays.mean:.2f}", span(stays.low, stays.high)),
                *(f"{most.mean:.2f}", span(most.low, most.high)),
            )
        )
    columns = ("player", "moving", "95%", "largest", "staying", "95%", "largest", "95%")
    note = (
        "Geometric means of ratios of regret, and the largest. Moving: above the best sequence of "
        "arms, over that of the best pair (memory, constant rate) of each case. Staying: above the "
        f"best arm, over that of {PLAIN}. Goals: {GOAL_MOVING}, {GOAL_STILL} and, of a single "
        f"staying case, {GOAL_OF_ONE}."
    )
    return Table("Tracking: the verdict", columns, rows, note)


def moving_table(moving: Sequence[Played]) -> Table:
    """Case by case, the best arm moving."""
    rows = []
    for each in moving:
        found = ratio([each], TRACKER, BEST)
        rows.append(
            (
                *(each.case.name, _sizes(each.case), each.case.yardstick),
                f"{_rounds(each.memory)}, {each.rate:.2g}{' (edge)' * each.at_edge}",
                *(f"{each.regret[label].mean():,.0f}" for label in (BEST, TRACKER, PLAIN)),
                f"{each.uniform.mean():,.0f}",
                *(f"{found.mean:.2f}", span(found.low, found.high)),
            )
        )
    columns = (
        *("case", "N, K, T", "above", "best pair", "its regret", TRACKER, PLAIN),
        *("uniform play", "ratio", "95%"),
    )
    note = (
        "Regret at T above the best sequence of arms with so many changes, or the best arm of each "
        "of so many parts: mean over agents and draws. The best of the pairs (memory in rounds, "
        "constant rate) was chosen for each case on other draws; at the edge of the rates a larger "
        f"or smaller one may be better. Ratio: {TRACKER} over the best pair."
    )
    return Table("Tracking: a best arm that moves", columns, rows, note)


def still_table(still: Sequence[Played]) -> Table:
    """Case by case, the best arm staying."""
    rows = []
    for each in still:
        found, plain = ratio([each], TRACKER, PLAIN), ratio([each], PLAIN, BEST)
        rows.append(
            (
                *(each.case.name, _sizes(each.case)),
                f"{each.rate:.2g}{' (edge)' * each.at_edge}",
                *(f"{each.regret[label].mean():,.0f}" for label in (BEST, PLAIN, TRACKER)),
                f"{each.uniform.mean():,.0f}",
                f"{plain.mean:.2f}",
                *(f"{found.mean:.2f}", span(found.low, found.high)),
            )
        )
    columns = (
        *("case", "N, K, T", "best constant", "its regret", PLAIN, TRACKER, "uniform play"),
        *("default / best", "tracker / default", "95%"),
    )
    note = (
        "Regret at T above the best arm: mean over agents and draws. The best of the constant "
        "rates was chosen for each case on other draws."
    )
    return Table("Tracking: a best arm that stays", columns, rows, note)


def findings(moving: Sequence[Played], still: Sequence[Played]) -> list[str]:
    """What was found, in words made from the numbers."""
    tracks, stays = ratio(moving, TRACKER, BEST), ratio(still, TRACKER, PLAIN)
    most_moving, where_moving = largest(moving, TRACKER, BEST)
    most_still, where_still = largest(still, TRACKER, PLAIN)
    plain, memoryless = ratio(moving, PLAIN, BEST), ratio(still, PLAIN, BEST)
    most_plain, where_plain = largest(still, PLAIN, BEST)
    good = [label for label in labels(moving) if meets_all(moving, still, label)]
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
        f"All three goals are met by {', '.join(good)}."
        if good
        else "None of those compared meets all three goals.",
    ]


def trade(moving: Sequence[Played], still: Sequence[Played]) -> list[str]:
    """What the tracker's weight of remembering forever trades for what, from end to end."""
    played = labels(moving)
    weights = {
        label: told for label, told in next(iter(curves().values())).items() if label in played
    }
    if len(weights) < 2:
        return []
    told = [
        f"{ratio(moving, label, BEST).mean:.2f}, {ratio(still, label, PLAIN).mean:.2f} and "
        f"{largest(still, label, PLAIN)[0].mean:.2f} with {told}"
        for label, told in weights.items()
    ]
    good = [told for label, told in weights.items() if meets_all(moving, still, label)]
    return [
        "Its weight of remembering forever trades one for the other. The three numbers, moving, "
        f"staying and the largest staying, are {'; '.join(told)}: all three goals are met with "
        f"{', '.join(good) or 'none of these'}."
    ]


def meets_all(moving: Sequence[Played], still: Sequence[Played], label: str) -> bool:
    """Whether a contender meets the three goals; not where a ratio is no number."""
    return (
        ratio(moving, label, BEST).mean <= GOAL_MOVING
        and ratio(still, label, PLAIN).mean <= GOAL_STILL
        and largest(still, label, PLAIN)[0].mean <= GOAL_OF_ONE
    )


def verdict(found: float, goal: float) -> str:
    """Whether a goal is met, and by how much it is missed.

    Example:
        >>> verdict(1.2, 1.25), verdict(1.3, 1.25), verdict(math.nan, 1.25)
        ('met', 'missed by 0.05', 'missed: no ratio')
    """
    if math.isnan(found):
        return "missed: no ratio"
    return "met" if found <= goal else f"missed by {found - goal:.2f}"


def labels(played: Sequence[Played]) -> list[str]:
    """Who is compared with the best pair, in order."""
    return [label for label in played[0].regret if label != BEST]


def _numbers(case: Case) -> tuple[int, int, int]:
    return case.network.agents, case.arms, case.horizon


def _sizes(case: Case) -> str:
    return "{}, {}, {:,}".format(*_numbers(case))


def _rounds(memory: float) -> str:
    return "∞" if memory >= FOREVER else f"{memory:,.0f}"


def _listed(memories: Sequence[float]) -> str:
    return ", ".join(_rounds(memory) for memory in memories)
