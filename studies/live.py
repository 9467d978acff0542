"""Live agents under faults: regret with lost and late messages, absent agents and partitions.

36 agents on a 6 × 6 grid, 20 arms, 1000 rounds, three kinds of losses. Live agents exchange
messages in memory, under a virtual clock, and each acts at its own time. They are compared with the
synchronous simulation and with Exp3, whose agents send nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.common.statistics import Interval, interval
from fedbandits.live import Away, Faults, Federation, Partition
from fedbandits.live.rehearsal.rehearsal import Rehearsal, rehearse_all
from fedbandits.paper.intervals import Floats, span, with_half
from fedbandits.paper.pictures import Picture, error_bars, legend_under, new_panels
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import COLOURS

from .entries import Sizes
from .ratios import mean_ratio
from .suite import moderate

GOAL = 1.25
"""The largest ratio of regret with 30% of the messages lost to regret without faults."""

SHORT, LONG = 0.3, 5.0
"""Longest delays, in rounds."""
REPEATED = 0.1
"""Share of messages that arrive twice, under lost messages."""

LOSSLESS = "no faults"
LOSSY = "30% lost"
TOGETHER = "synchronous, simulated"
ALONE = "Exp3, alone"

FULL = Sizes(agents=36, arms=20, horizon=1000, draws=5)
QUICK = Sizes(agents=9, arms=5, horizon=60, draws=2)


def reproduce(options: Options) -> Section:
    """Rehearse, draw and write `live` as .png, .pdf and .svg, and `live.csv`.

    `options.runs` are the draws of the losses.
    """
    sizes = (QUICK if options.quick else FULL).with_options(options)
    federation = federation_of(sizes, fb.FedExp3())
    section = options.section(
        "live",
        "Live: regret under faults",
        {
            "sizes": f"N = {sizes.agents} on a grid({sizes.side}, {sizes.side}), K = {sizes.arms}, "
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


def families(sizes: Sizes) -> dict[str, tuple[str, Callable[[int], fb.problems.Problem]]]:
    """Return three kinds of losses: a description, and the problem of a seed."""
    shape = (sizes.agents, sizes.arms, sizes.horizon)
    return {
        "paper": (
            "activated_bernoulli",
            lambda seed: fb.problems.activated_bernoulli(*shape, seed=seed),
        ),
        "flat": (
            "bernoulli, one arm of mean 0.3, the others 0.5, for all agents",
            lambda seed: moderate(*shape, seed),
        ),
        "heterogeneous": (
            "heterogeneous, gap 0.1",
            lambda seed: fb.problems.heterogeneous(*shape, seed=seed),
        ),
    }


def federation_of(sizes: Sizes, algorithm: fb.algorithms.AnyAlgorithm) -> Federation:
    """Return agents on a grid with the default gossip period."""
    arms = [f"arm{i}" for i in range(sizes.arms)]
    return Federation(arms, fb.networks.grid(sizes.side, sizes.side), algorithm=algorithm)


CONDITIONS = {
    LOSSLESS: "every message arrives at once",
    **{
        f"{share} lost": f"also late by up to {SHORT} rounds, and {REPEATED:.0%} arrive twice"
        for share in ("10%", "30%", "50%")
    },
    f"late, {SHORT} rounds": f"every message by up to {SHORT} rounds",
    f"late, {LONG:g} rounds": f"every message by up to {LONG:g} rounds",
    "one away": "an agent in the middle crashes and is back after a fifth of the time",
    "one lost its disk": "an agent in the middle loses its whole state after half of the time",
    "halves apart": "two halves of the grid exchange no messages in the middle third",
}
"""Faults by name, in words."""


def faults(sizes: Sizes) -> dict[str, Faults]:
    """Return the faults by name."""
    members, side, horizon = federation_of(sizes, fb.FedExp3()).members, sizes.side, sizes.horizon
    middle = members[side // 2 * side + side // 2]
    third, half = horizon // 3, frozenset(members[: side // 2 * side])
    start, there = 2 * horizon // 5, horizon // 2
    found = [
        Faults(),
        *(Faults(loss, (0.0, SHORT), REPEATED) for loss in (0.1, 0.3, 0.5)),
        *(Faults(delay=(0.0, longest)) for longest in (SHORT, LONG)),
        Faults(away=[Away(middle, start, start + horizon // 5)]),
        Faults(away=[Away(middle, there, there, disk_lost=True)]),
        Faults(partitions=[Partition(third, 2 * third, half)]),
    ]
    return dict(zip(CONDITIONS, found, strict=True))


class Played(NamedTuple):
    """The regret of one family under one kind of faults, or of another player.

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
    """Play all families, faults and players on the same draws of the losses."""
    together, alone = (federation_of(sizes, player) for player in (fb.FedExp3(), fb.Exp3()))
    players = [(name, together, fault) for name, fault in faults(sizes).items()]
    players.append((ALONE, alone, Faults()))
    seeds = sizes.seeds(seed)
    problems = {
        (family, s): make(s) for family, (_, make) in families(sizes).items() for s in seeds
    }
    rehearsals = {
        (family, name, s): Rehearsal.of(problem, federation, fault, seed=s)
        for (family, s), problem in problems.items()
        for name, federation, fault in players
    }
    played = rehearse_all([*rehearsals.values()], os.cpu_count() or 1)
    results = dict(zip(rehearsals, played, strict=True))
    gossip = together.gossip
    assert isinstance(gossip, fb.Gossip)
    for (family, s), problem in problems.items():
        results[family, TOGETHER, s] = fb.simulate(
            problem, fb.FedExp3(), gossip, 1, seed=s, dtype="float64", progress=False
        )
    names = [*CONDITIONS, TOGETHER, ALONE]
    return {
        family: {name: _played([results[family, name, s] for s in seeds]) for name in names}
        for family in families(sizes)
    }


def _played(results: list[fb.Result]) -> Played:
    regret = [float(result.dataset["expected_regret"][0, -1]) for result in results]
    worst = [float(result.dataset["agent_expected_regret"].max()) for result in results]
    sent = [
        float(np.mean([result.communication[what] for result in results]))
        for what in ("messages", "bytes")
    ]
    return Played(np.array(regret), np.array(worst), *sent)


def ratio(over: Played, under: Played) -> Interval:
    """Return the ratio of mean regrets, with a 95% bootstrap interval over their draws."""
    return mean_ratio([(over.regret, under.regret)])


def ratios(found: Found, other: str) -> dict[tuple[str, str], Interval]:
    """Return the ratio to another player, by family and faults."""
    return {
        (family, name): ratio(by_name[name], by_name[other])
        for family, by_name in found.items()
        for name in CONDITIONS
    }


def frame(found: Found) -> pd.DataFrame:
    """Return every mean with its interval, tidy."""
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
    """Return regret by faults and losses."""
    rows = []
    for name in next(iter(found.values())):
        row = [name]
        for by_name in found.values():
            row.append(with_half(interval(by_name[name].regret)))
            row.append(f"{by_name[name].worst.mean():.1f}")
        rows.append(row)
    columns = ["faults", *(column for family in found for column in (family, "worst agent"))]
    draws = len(next(iter(found.values()))[LOSSLESS].regret)
    note = (
        f"Expected regret at T, mean over agents, ± half a 95% interval over {draws} draws of the "
        "losses, which are the same for all; next to it the largest regret of an agent, mean over "
        "draws."
    )
    return Table("Regret under faults", columns, rows, note)


def ratio_table(found: Found) -> Table:
    """Compare regret with that without faults, and with Exp3's."""
    rows = []
    for name in (*list(CONDITIONS)[1:], TOGETHER):
        row = [name]
        for by_name in found.values():
            mean, low, high = ratio(by_name[name], by_name[LOSSLESS])
            row.append(f"{mean:.2f} ({span(low, high)})")
        most = max(ratio(played[name], played[ALONE]).mean for played in found.values())
        rows.append([*row, f"{most:.2f}"])
    columns = ("faults", *found, "of Exp3's, at most")
    note = (
        "Regret over that of live agents without faults, with a 95% bootstrap interval over draws; "
        "and over that of Exp3 alone, the largest of the three."
    )
    return Table("Regret beside that without faults", columns, rows, note)


def traffic_table(found: Found) -> Table:
    """Return the messages and bytes that an agent sends."""
    by_name = next(iter(found.values()))
    return Table.of(
        "What is sent",
        by_name,
        [
            ("faults", str),
            ("messages", lambda name: f"{by_name[name].messages:.2f}"),
            ("bytes", lambda name: f"{by_name[name].bytes:,.0f}"),
        ],
        "What an agent sends in a round, mean over agents, rounds and draws; counted when live, "
        "lost messages included, and computed for the simulation, whose messages are only numbers.",
    )


def findings(found: Found) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    costs, against = ratios(found, LOSSLESS), ratios(found, ALONE)
    missed = [family for family in found if costs[family, LOSSY].mean > GOAL]
    verdict = "met on all" if not missed else f"missed on {' and '.join(missed)}"
    (family, name), most = max(against.items(), key=lambda item: item[1].mean)
    worse = [f"{name} ({family})" for (family, name), of in against.items() if of.mean > 1]
    against_alone = (
        "On the mean over draws no faults make it worse than Exp3 alone"
        if not worse
        else f"Worse than Exp3 alone: {', '.join(worse)}"
    )
    (where, what), dearest = max(costs.items(), key=lambda item: item[1].mean)
    apart = {family: ratio(by[LOSSLESS], by[TOGETHER]) for family, by in found.items()}
    return [
        f"With 30% of the messages lost, {REPEATED:.0%} repeated and all late by up to {SHORT} "
        f"rounds, live agents pay {_each({f: costs[f, LOSSY] for f in found})} times what they pay "
        f"without faults; the goal of at most {GOAL} is {verdict}.",
        f"{against_alone}: the most is {most.mean:.2f} times its regret ({name}, {family}). "
        f"{_in_single_draws(found)} Most is paid for {what} ({where}): {dearest.mean:.2f} times "
        f"({span(*dearest[1:])}) the regret without faults.",
        f"Without a common round, each agent at its own time, they pay {_each(apart)} times what "
        "the synchronous simulation pays, whose agents exchange once a round.",
    ]


def _in_single_draws(found: Found) -> str:
    """Count the draws in which agents under one kind of faults were worse than Exp3."""
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
    """Return ratios by family, as text."""
    return ", ".join(f"{of.mean:.2f} ({family}, {span(*of[1:])})" for family, of in ratios.items())


PICTURE = Picture(
    "live",
    "Expected regret at T of live agents under faults, mean over agents, with 95% intervals over "
    "draws of the losses. Lines: the synchronous simulation (dashed) and Exp3, whose agents send "
    "nothing (dotted).",
    "Regret under nine kinds of faults, for three kinds of losses, between that of the synchronous "
    "simulation and that of Exp3.",
)


def draw(found: Found) -> Figure:
    """Draw a panel for each kind of losses, with a row for each kind of faults."""
    figure, panels = new_panels(1, len(found), 3.0, sharey=True)
    places = range(len(CONDITIONS))
    for ax, (family, by_name) in zip(panels, found.items(), strict=True):
        mean, bars = error_bars([interval(by_name[name].regret) for name in CONDITIONS])
        ax.errorbar(mean, places, xerr=bars, fmt="o", ms=4, color=COLOURS[0], capsize=2)
        for name, style, colour in ((TOGETHER, "--", "0.35"), (ALONE, ":", COLOURS[1])):
            ax.axvline(by_name[name].regret.mean(), ls=style, color=colour, lw=1.2, label=name)
        ax.set_yticks(places, list(CONDITIONS))
        ax.set_xlim(left=0)
        ax.set_title(family, fontsize="medium")
    panels[0].invert_yaxis()
    panels[len(found) // 2].set_xlabel("cumulative regret at T, mean over agents")
    legend_under(figure, panels[0], 2)
    return figure
