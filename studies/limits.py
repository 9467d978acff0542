"""The limit of clipped gossip: live agents with one liar among them.

Each agent makes one choice a second. The limit is a multiple of the choices that an agent makes in
a gossip period. The liar promotes the worst arm, and reports as often as its neighbours allow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import fedbandits as fb
from fedbandits.common.statistics import interval
from fedbandits.live import Federation
from fedbandits.live.rehearsal.rehearsal import Rehearsal, rehearse_all
from fedbandits.networks import Network
from fedbandits.paper.intervals import Floats, with_half
from fedbandits.paper.section import Options, Section, Table

from .entries import Sizes

MEANS = (0.3, 0.5, 0.7)
"""Mean losses of the arms, the same for all agents."""

MULTIPLES = (0.5, 1.0, 2.0, 5.0, 20.0, np.inf)
"""Limits, in choices that an agent makes in a gossip period."""

FULL = Sizes(agents=9, arms=len(MEANS), horizon=300, draws=10)  # of the largest federation
QUICK = Sizes(agents=9, arms=len(MEANS), horizon=30, draws=2)


class Setting(NamedTuple):
    """A federation.

    Attributes:
        network: the links between agents.
        liar: the number of the agent that lies.
        period: the gossip period, in choices of an agent.
    """

    network: Network
    liar: int
    period: float


SETTINGS = {
    "path of 4": Setting(fb.networks.path(4), 0, 0.5),
    "3 × 3 grid": Setting(fb.networks.grid(3, 3), 4, 0.5),
    "grid, period 4": Setting(fb.networks.grid(3, 3), 4, 4.0),
}
"""Federations by their names in the table."""

Found = Mapping[tuple[str, float, bool], Floats]
"""Regret at T of each draw, by setting, multiple and whether there is a liar."""


def reproduce(options: Options) -> Section:
    """Rehearse and tabulate. `options.runs` are the draws of the losses."""
    sizes = (QUICK if options.quick else FULL).with_options(options)
    section = options.section(
        "limits",
        "Live: the limit of clipped gossip",
        {
            "losses": f"bernoulli, means {', '.join(map(str, MEANS))}, the same for all agents",
            "algorithm": "FedExp3 with its default rates, metropolis weights",
            "sizes": f"T = {sizes.horizon:,} choices of each agent",
            "seeds": f"{sizes.draws} draws of losses and randomness, seeds "
            f"{options.seed * sizes.draws} on; the same for all limits",
        },
    )
    with section.timed(f"{sizes.draws} draws, {os.cpu_count()} processes"):
        found = play(sizes, options.seed)
    section.tables.append(table(found, sizes))
    return section


def play(sizes: Sizes, seed: int) -> dict[tuple[str, float, bool], Floats]:
    """Return the expected regret at T of the honest agents, mean over them: `[draws]`."""
    worst, seeds = int(np.argmax(MEANS)), sizes.seeds(seed)
    arms = [f"arm{i}" for i in range(len(MEANS))]
    rehearsals = {}
    for name, setting in SETTINGS.items():
        agents = setting.network.agents
        plain = fb.gossip.metropolis(setting.network)
        for multiple in MULTIPLES:
            gossip = fb.gossip.clipped(plain, multiple * setting.period)
            federation = Federation(arms, gossip, gossip_period=setting.period)
            for lies in (False, True):
                liars = {setting.liar: fb.attacks.promote(worst)} if lies else None
                for s in seeds:
                    problem = fb.problems.bernoulli(MEANS, sizes.horizon, agents=agents, seed=s)
                    rehearsals[name, multiple, lies, s] = Rehearsal.of(
                        problem, federation, seed=s, liars=liars
                    )
    results = rehearse_all([*rehearsals.values()], os.cpu_count() or 1)
    regret = {
        key: float(result.dataset["expected_regret"][0, -1])
        for key, result in zip(rehearsals, results, strict=True)
    }
    cells = dict.fromkeys(key[:3] for key in regret)
    return {cell: np.array([regret[*cell, s] for s in seeds]) for cell in cells}


def table(found: Found, sizes: Sizes) -> Table:
    """Tabulate regret with and without the liar, by limit."""
    rows = [
        [
            "none" if np.isinf(multiple) else f"{multiple:g}",
            *(
                with_half(interval(found[name, multiple, lies]))
                for name in SETTINGS
                for lies in (False, True)
            ),
        ]
        for multiple in MULTIPLES
    ]
    heads = [head for name in SETTINGS for head in (name, "with a liar")]
    uniform = (np.mean(MEANS) - min(MEANS)) * sizes.horizon
    note = (
        "Regret at T of the honest agents, mean over agents, ± half a 95% interval over "
        f"{sizes.draws} draws. The limit and the gossip period are in choices that one agent "
        "makes; the period is 0.5 where no other is given. The liar is at one end of the path and "
        f"in the middle of the grid. Uniform play has regret {uniform:.0f}; an agent that always "
        f"plays the worst arm has {(max(MEANS) - min(MEANS)) * sizes.horizon:.0f}."
    )
    return Table("Regret by limit", ["limit / period", *heads], rows, note)
