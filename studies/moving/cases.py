"""Cases of the trackers: losses, networks and sizes, with a best arm that moves or stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import fedbandits as fb

Losses = Callable[..., fb.problems.Problem]
"""Takes N, K and T, and a seed by name."""


@dataclass(frozen=True)
class Case:
    """One kind of losses on one network.

    Attributes:
        family: description of the losses.
        network: the links between agents; gossip is by max_degree.
        arms: K.
        horizon: T.
        losses: makes the problem.
        changes: number of changes of the best arm, if they are counted: regret is above the best
            sequence with so many.
        parts: parts of the horizon, if there are too many changes to count: regret is above the
            best arm of each. Without both, the best arm stays, and regret is above it.
    """

    family: str
    network: fb.Network
    arms: int
    horizon: int
    losses: Losses
    changes: int | None = None
    parts: int | None = None

    @property
    def moves(self) -> bool:
        """True if the best arm moves."""
        return self.changes is not None or self.parts is not None

    @property
    def numbers(self) -> tuple[int, int, int]:
        """N, K and T."""
        return self.network.agents, self.arms, self.horizon

    @property
    def sizes(self) -> str:
        """N, K and T as text."""
        return "{}, {}, {:,}".format(*self.numbers)

    @property
    def name(self) -> str:
        """Family and network, for tables."""
        alone = self.network.agents == 1
        return self.family if alone else f"{self.family}, {self.network.name.partition('(')[0]}"

    @property
    def yardstick(self) -> str:
        """The sequence that regret is above, in words."""
        if self.changes is not None:
            return f"{self.changes} change{'s' * (self.changes != 1)}"
        return "best arm" if self.parts is None else f"{self.parts} parts"

    def make(self, seed: int) -> fb.problems.Problem:
        """Return the losses of a seed."""
        return self.losses(*self.numbers, seed=seed)


def _coins(means_of: Callable[[int], list[float]]) -> Losses:
    """Return coins with these means of K arms, the same for all agents, shuffled by the seed."""

    def make(agents: int, arms: int, horizon: int, *, seed: int) -> fb.problems.Problem:
        means = np.random.default_rng(seed).permutation(np.asarray(means_of(arms)))
        return fb.problems.bernoulli(means, horizon, agents=agents, seed=seed)

    return make


def _one_below(best: float, other: float) -> Losses:
    return _coins(lambda arms: [best, *[other] * (arms - 1)])


_ladder = _coins(lambda arms: list(np.linspace(0.3, 0.7, arms)))
_rival = _coins(lambda arms: [0.4, 0.45, *[0.8] * (arms - 2)])
_switches, _turns = fb.problems.switching_at_random, fb.problems.taking_turns
_drift, _newcomer = fb.problems.drifting, fb.problems.newcomer
_disagree, _net = fb.problems.heterogeneous, fb.networks


def tracking() -> tuple[Case, ...]:
    """Return cases whose best arm changes at random, in turn, slowly, once, or for a newcomer."""
    return (
        Case("9 switches", _net.grid(6, 6), 20, 6000, partial(_switches, changes=9), changes=9),
        Case("30 switches", _net.ring(16), 5, 30_000, partial(_switches, changes=30), changes=30),
        Case(
            "5 switches, agents disagree",
            *(_net.star(25), 10, 6000),
            partial(_switches, changes=5, spread=0.25),
            changes=5,
        ),
        Case("turns of 50", _net.complete(16), 2, 3000, partial(_turns, period=50), parts=60),
        Case(
            "turns of 300",
            *(_net.grid(20, 20), 10, 3000),
            partial(_turns, period=300, contestants=3),
            changes=9,
        ),
        Case("turns of 1,000", _net.path(12), 8, 12_000, partial(_turns, period=1000), changes=11),
        Case(
            "turns of 5,000, agents disagree",
            *(_net.grid(3, 3), 20, 30_000),
            partial(_turns, period=5000, contestants=3, spread=0.25),
            changes=5,
        ),
        Case("drift", _net.random_geometric(50, 0.3, seed=1), 10, 10_000, _drift, parts=40),
        Case(
            "drift, agents disagree",
            *(_net.two_clusters(8, 4), 5, 12_000),
            partial(_drift, cycles=2.0, spread=0.25),
            parts=40,
        ),
        Case("one change, alone", _net.complete(1), 5, 10_000, partial(_switches, changes=1), 1),
        Case("one change", _net.star(36), 20, 6000, partial(_switches, changes=1), changes=1),
        Case("newcomer", _net.erdos_renyi(100, 0.08, seed=1), 50, 6000, _newcomer, changes=1),
        Case(
            "newcomer, agents disagree",
            *(_net.ring(30), 200, 12_000),
            partial(_newcomer, spread=0.1),
            changes=1,
        ),
    )


def stationary() -> tuple[Case, ...]:
    """Return cases whose best arm stays."""
    geometric, clusters = _net.random_geometric(50, 0.3, seed=1), _net.two_clusters(8, 4)
    much = partial(_disagree, gap=0.05, spread=0.45)
    return (
        Case("agents disagree", _net.star(36), 20, 12_000, _disagree),
        Case("agents disagree", _net.path(36), 20, 12_000, _disagree),
        Case("agents disagree much", _net.complete(100), 10, 3000, much),
        Case("ladder, alone", _net.complete(1), 10, 10_000, _ladder),
        Case("two arms", _net.ring(9), 2, 30_000, _one_below(0.4, 0.5)),
        Case("200 arms", _net.erdos_renyi(64, 0.12, seed=1), 200, 6000, _ladder),
        Case("close rival", _net.grid(20, 20), 10, 3000, _rival),
        Case("small losses", geometric, 20, 6000, _one_below(0.02, 0.1)),
        Case("large losses", clusters, 5, 12_000, _one_below(0.8, 0.9)),
    )


def few() -> tuple[Case, ...]:
    """Return small cases, to check that everything works."""
    drift = partial(_drift, spread=0.2)
    return (
        Case("4 switches", _net.grid(3, 3), 4, 1200, partial(_switches, changes=4), changes=4),
        Case("drift, agents disagree", _net.ring(6), 3, 1200, drift, parts=12),
        Case("turns of 100", _net.complete(4), 3, 600, partial(_turns, period=100), changes=5),
        Case("one change", _net.path(4), 3, 600, partial(_switches, changes=1), changes=1),
        Case("newcomer", _net.star(4), 3, 600, _newcomer, changes=1),
        Case("agents disagree", _net.star(9), 4, 1200, _disagree),
        Case("ladder, alone", _net.complete(1), 4, 1200, _ladder),
    )
