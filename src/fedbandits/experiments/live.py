"""Live agents under faults: regret with lost and late messages, absent agents and partitions.

36 agents on a 6 × 6 grid, 20 arms, 1000 rounds, three kinds of losses. Real agents exchange real
messages, in memory and under a virtual clock, each with a phase of its own; beside them stand the
synchronous simulation and Exp3, whose agents do not talk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.live import Away, Faults, Federation, Partition
from fedbandits.live.rehearsal.rehearsal import Rehearsal, rehearse_all

from .measure import Interval, interval, resamples, span
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

GOAL = 1.25
"""By how much the regret may be larger where 30% of the messages are lost."""

SHORT, LONG = 0.3, 5.0
"""Longest delays, in rounds."""
REPEATED = 0.1
"""The share of messages that arrives twice where some are lost."""

LOSSLESS = "no faults"
LOSSY = "30% lost"
TOGETHER = "synchronous, simulated"
ALONE = "Exp3, alone"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """What is played: `--quick` is smaller in every way."""

    rows: int
    cols: int
    arms: int
    horizon: int
    draws: int
    """Of the losses, each with its own draw of the agents' randomness and of the faults."""

    @property
    def agents(self) -> int:
        """N."""
        return self.rows * self.cols


FULL = Sizes(rows=6, cols=6, arms=20, horizon=1000, draws=5)
QUICK = Sizes(rows=3, cols=3, arms=5, horizon=60, draws=2)


def reproduce(options: Options) -> Section:
    """Rehearse, draw and write; `live` as .png, .pdf and .svg, and `live.csv`.

    `options.runs` are the draws of the losses.
    """
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    federation = federation_of(sizes, fb.FedExp3())
    section = Section(
        "live",
        "Live: regret under faults",
        options.command("live"),
        settings={
            "sizes": f"N = {sizes.agents} on a grid({sizes.rows}, {sizes.cols}), K = {sizes.arms}, "
            f"T = {sizes.horizon:,}; gossip metropolis, every {federation.gossip_period:g} rounds",
            "losses": "; ".join(f"{name}: {what}" for name, (what, _) in families(sizes).items()),
            "faults": "; ".join(f"{name}: {what}" for name, what in CONDITIONS.items()),
            "seeds": f"{sizes.draws} draws of the losses, the agents' randomness and the faults, "
            f"seeds {options.seed * sizes.draws} on; the same losses for all; intervals are over "
            "draws",
        },
    )
    with section.timed(f"{sizes.draws} draws, {os.cpu_count()} processes"):
        found = play(sizes, options.seed)
    section.add_csv(options.out, "live.csv", frame(found))
    section.tables += [regret_table(found), ratio_table(found), traffic_table(found)]
    section.add_picture(options.out, draw(found), PICTURE)
    section.paragraphs += findings(found)
    return section


Make = Callable[[int], fb.problems.Problem]


def families(sizes: Sizes) -> dict[str, tuple[str, Make]]:
    """Three kinds of losses: what they are, and the problem of a seed."""
    shape = (sizes.agents, sizes.arms, sizes.horizon)

    def flat(seed: int) -> fb.problems.Problem:
        means = np.full(sizes.arms, 0.5)
        means[np.random.default_rng(seed).integers(sizes.arms)] = 0.3
        return fb.problems.bernoulli(means, sizes.horizon, agents=sizes.agents, seed=seed)

    return {
        "paper": (
            "activated_bernoulli",
            lambda seed: fb.problems.activated_bernoulli(*shape, seed=seed),
        ),
        "flat": ("bernoulli, one arm of mean 0.3, the others 0.5, for all agents", flat),
        "heterogeneous": (
            "heterogeneous, gap 0.1",
            lambda seed: fb.problems.heterogeneous(*shape, seed=seed),
        ),
    }


def federation_of(sizes: Sizes, algorithm: fb.algorithms.AnyAlgorithm) -> Federation:
    """Agents on a grid that gossip as often as federations do by default."""
    arms = [f"arm{i}" for i in range(sizes.arms)]
    return Federation(arms, fb.networks.grid(sizes.rows, sizes.cols), algorithm=algorithm)


CONDITIONS = {
    LOSSLESS: "every message arrives at once",
    **{
        f"{share} lost": f"also late by up to {SHORT} rounds, and {REPEATED:.0%} arrive twice"
        for share in ("10%", "30%", "50%")
    },
    f"late, {SHORT} rounds": f"every message by up to {SHORT} rounds",
    f"late, {LONG:g} rounds": f"every message by up to {LONG:g} rounds",
    "one away": "an agent in the middle crashes and is back after a fifth of the time",
    "one lost its disk": "an agent in the middle forgets everything after half of the time",
    "halves apart": "two halves of the grid hear nothing of each other in the middle third",
}
"""Faults by name, in words."""


def faults(sizes: Sizes) -> dict[str, Faults]:
    """Faults by name."""
    members = federation_of(sizes, fb.FedExp3()).members
    middle = members[sizes.rows // 2 * sizes.cols + sizes.cols // 2]
    third, half = sizes.horizon // 3, frozenset(members[: sizes.rows // 2 * sizes.cols])
    start, there = 2 * sizes.horizon // 5, sizes.horizon // 2
    found = [
        Faults(),
        *(Faults(loss, (0.0, SHORT), REPEATED) for loss in (0.1, 0.3, 0.5)),
        *(Faults(delay=(0.0, longest)) for longest in (SHORT, LONG)),
        Faults(away=[Away(middle, start, start + sizes.horizon // 5)]),
        Faults(away=[Away(middle, there, there, disk_lost=True)]),
        Faults(partitions=[Partition(third, 2 * third, half)]),
    ]
    return dict(zip(CONDITIONS, found, strict=True))


class Played(NamedTuple):
    """What was found for one family under one kind of faults, or by another player.

    Attributes:
        regret: expected regret at T, mean over agents, `[draws]`.
        worst: the largest of an agent, `[draws]`.
        messages: an agent's in a round.
        bytes: the same.
    """

    regret: Floats
    worst: Floats
    messages: float
    bytes: float


Found = Mapping[str, Mapping[str, Played]]
"""By family, then by faults or player."""


def play(sizes: Sizes, seed: int) -> dict[str, dict[str, Played]]:
    """Everything on the same draws of the losses."""
    together, alone = (federation_of(sizes, player) for player in (fb.FedExp3(), fb.Exp3()))
    players = [(name, together, fault) for name, fault in faults(sizes).items()]
    players.append((ALONE, alone, Faults()))
    seeds = range(seed * sizes.draws, (seed + 1) * sizes.draws)
    problems = {name: [make(s) for s in seeds] for name, (_, make) in families(sizes).items()}
    rehearsals = {
        (family, name, s): Rehearsal.of(problem, federation, fault, seed=s)
        for family, drawn in problems.items()
        for name, federation, fault in players
        for problem, s in zip(drawn, seeds, strict=True)
    }
    results = dict(
        zip(
            rehearsals,
            rehearse_all([*rehearsals.values()], os.cpu_count() or 1),
            strict=True,
        )
    )
    gossip = together.gossip
    assert isinstance(gossip, fb.Gossip)
    for family, drawn in problems.items():
        for problem, s in zip(drawn, seeds, strict=True):
            results[family, TOGETHER, s] = fb.simulate(
                problem, fb.FedExp3(), gossip, 1, seed=s, dtype="float64", progress=False
            )
    names = [*CONDITIONS, TOGETHER, ALONE]
    return {
        family: {name: _played([results[family, name, s] for s in seeds]) for name in names}
        for family in problems
    }


def _played(results: list[fb.Result]) -> Played:
    regret = [float(result.dataset["expected_regret"][0, -1]) for result in results]
    worst = [float(result.dataset["agent_expected_regret"].max()) for result in results]
    sent = [
        float(np.mean([result.communication[what] for result in results]))
        for what in ("messages", "bytes")
    ]
    return Played(np.array(regret), np.array(worst), *sent)


def ratio(over: Floats, under: Floats) -> Interval:
    """Of two means, with a 95% bootstrap interval over draws, which they have in common."""
    again = resamples(len(over))
    ratios = over[again].mean(axis=1) / under[again].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Interval(float(over.mean() / under.mean()), float(low), float(high))


def frame(found: Found) -> pd.DataFrame:
    """Every mean with its interval, tidy."""
    import pandas as pd

    rows = [
        (
            *(family, name, *interval(played.regret), len(played.regret)),
            *(played.worst.mean(), played.messages, played.bytes),
        )
        for family, by_name in found.items()
        for name, played in by_name.items()
    ]
    columns = ["losses", "faults", "mean", "low", "high", "draws", "worst", "messages", "bytes"]
    return pd.DataFrame(rows, columns=columns)


def regret_table(found: Found) -> Table:
    """Regret by faults and losses."""
    rows = []
    for name in next(iter(found.values())):
        row = [name]
        for by_name in found.values():
            mean, low, high = interval(by_name[name].regret)
            half = "" if np.isnan(low) else f" ± {(high - low) / 2:.1f}"
            row.append(f"{mean:.1f}{half}")
            row.append(f"{by_name[name].worst.mean():.1f}")
        rows.append(row)
    columns = ["faults", *(column for family in found for column in (family, "worst agent"))]
    draws = len(next(iter(found.values()))[LOSSLESS].regret)
    note = (
        f"Expected regret at T, mean over agents, ± half a 95% interval over {draws} draws of the "
        "losses, which are the same for all; beside it the largest regret of an agent, mean over "
        "draws."
    )
    return Table("Regret under faults", columns, rows, note)


def ratio_table(found: Found) -> Table:
    """Regret beside that without faults, and beside Exp3's."""
    rows = []
    for name in (*list(CONDITIONS)[1:], TOGETHER):
        row = [name]
        for by_name in found.values():
            mean, low, high = ratio(by_name[name].regret, by_name[LOSSLESS].regret)
            row.append(f"{mean:.2f} ({span(low, high)})")
        most = max(ratio(p[name].regret, p[ALONE].regret).mean for p in found.values())
        rows.append([*row, f"{most:.2f}"])
    columns = ("faults", *found, "of Exp3's, at most")
    note = (
        "Regret over that of live agents without faults, with a 95% bootstrap interval over draws; "
        "and over that of Exp3 alone, the largest of the three."
    )
    return Table("Regret beside that without faults", columns, rows, note)


def traffic_table(found: Found) -> Table:
    """What an agent sends."""
    by_name = next(iter(found.values()))
    rows = [(name, f"{p.messages:.2f}", f"{p.bytes:,.0f}") for name, p in by_name.items()]
    note = (
        "What an agent sends in a round, mean over agents, rounds and draws; counted when live, "
        "lost messages included, and computed for the simulation, whose messages are numbers alone."
    )
    return Table("What is sent", ("faults", "messages", "bytes"), rows, note)


def findings(found: Found) -> list[str]:
    """What was found, in words made from the numbers."""
    lossy = {
        family: ratio(by_name[LOSSY].regret, by_name[LOSSLESS].regret)
        for family, by_name in found.items()
    }
    missed = [family for family, of in lossy.items() if of.mean > GOAL]
    verdict = "met on all" if not missed else f"missed on {' and '.join(missed)}"
    beside = {
        (family, name): ratio(by_name[name].regret, by_name[ALONE].regret)
        for family, by_name in found.items()
        for name in CONDITIONS
    }
    (family, name), most = max(beside.items(), key=lambda item: item[1].mean)
    worse = [f"{name} ({family})" for (family, name), of in beside.items() if of.mean > 1]
    against_alone = (
        "On the mean over draws no faults make it worse than Exp3 alone"
        if not worse
        else f"Worse than Exp3 alone: {', '.join(worse)}"
    )
    costs = {
        (family, name): ratio(by_name[name].regret, by_name[LOSSLESS].regret)
        for family, by_name in found.items()
        for name in CONDITIONS
    }
    (where, what), dearest = max(costs.items(), key=lambda item: item[1].mean)
    apart = {
        family: ratio(by_name[LOSSLESS].regret, by_name[TOGETHER].regret)
        for family, by_name in found.items()
    }
    return [
        f"With 30% of the messages lost, {REPEATED:.0%} repeated and all late by up to {SHORT} "
        f"rounds, live agents pay {_each(lossy)} times what they pay without faults; the goal of "
        f"at most {GOAL} is {verdict}.",
        f"{against_alone}: the most is {most.mean:.2f} times its regret ({name}, {family}). "
        f"{_in_single_draws(found)} Most is paid for {what} ({where}): {dearest.mean:.2f} times "
        f"({span(*dearest[1:])}) what is paid without faults.",
        "Without a round in common, each agent at a time of its own, they pay "
        f"{_each(apart)} times what the synchronous simulation pays, whose agents exchange once a "
        "round.",
    ]


def _in_single_draws(found: Found) -> str:
    """How often one draw under one kind of faults was worse than Exp3 on the same losses."""
    beyond = [
        (float(of), name, family)
        for family, by_name in found.items()
        for name in CONDITIONS
        for of in by_name[name].regret / by_name[ALONE].regret
    ]
    worse = sorted(each for each in beyond if each[0] > 1)
    if not worse:
        return f"Nor was any of the {len(beyond)} single draws."
    most, name, family = worse[-1]
    return (
        f"Of the {len(beyond)} single draws {len(worse)} were, by {most:.2f} times at most "
        f"({name}, {family})."
    )


def _each(ratios: Mapping[str, Interval]) -> str:
    """Ratios by family, as text."""
    return ", ".join(f"{of.mean:.2f} ({family}, {span(*of[1:])})" for family, of in ratios.items())


PICTURE = Picture(
    "live",
    "Expected regret at T of live agents under faults, mean over agents, with 95% intervals over "
    "draws of the losses. Lines: the synchronous simulation (dashed) and Exp3, whose agents do not "
    "talk (dotted).",
    "Regret under nine kinds of faults, for three kinds of losses, between that of the synchronous "
    "simulation and that of Exp3.",
)


def draw(found: Found) -> Figure:
    """A panel for each kind of losses, a row for each kind of faults."""
    import matplotlib.pyplot as plt

    from fedbandits.results.plots import COLOURS

    figure, panels = plt.subplots(
        1, len(found), figsize=(7.2, 3.0), sharey=True, layout="constrained", squeeze=False
    )
    places = np.arange(len(CONDITIONS))
    for ax, (family, by_name) in zip(panels[0], found.items(), strict=True):
        means = [interval(by_name[name].regret) for name in CONDITIONS]
        mean, low, high = (np.array(part) for part in zip(*means, strict=True))
        bars = (mean - low, high - mean)
        ax.errorbar(mean, places, xerr=bars, fmt="o", ms=4, color=COLOURS[0], capsize=2)
        for name, style, colour in ((TOGETHER, "--", "0.35"), (ALONE, ":", COLOURS[1])):
            ax.axvline(by_name[name].regret.mean(), ls=style, color=colour, lw=1.2, label=name)
        ax.set_yticks(places, CONDITIONS)
        ax.set_xlim(left=0)
        ax.set_title(family, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
    panels[0][0].invert_yaxis()
    panels[0][len(found) // 2].set_xlabel("cumulative regret at T, mean over agents")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small"
    )
    return figure
