"""Sequences of simulations, and the number of programs of rounds that each of them compiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

import fedbandits as fb
from fedbandits.engine.executors.program import compilations

from .capture import never_compiled
from .table import (
    FED,
    SECRET,
    coins,
    drawn,
    grid,
    linear,
    matrix,
    on_host,
    play,
    several_algorithms,
    several_draws,
    stored,
    unreliable,
)


@dataclass(frozen=True)
class Sequence:
    """Simulations in order, and how many programs all of them compile."""

    programs: int
    simulations: tuple[Callable[[], object], ...]

    def count(self) -> int:
        """Return the number of programs that JAX traces, from empty caches."""
        jax.clear_caches()
        before = compilations()
        with never_compiled():
            for simulate in self.simulations:
                simulate()
        return compilations() - before


def plain(gossip: Callable[[], fb.Gossip] = grid, **options: Any) -> Callable[[], object]:
    """Return the simulation that the others differ from."""
    return partial(play, coins, FED, gossip, **options)


def one(*simulations: Callable[[], object]) -> Sequence:
    """Return simulations that share a program."""
    return Sequence(1, simulations)


def each(*simulations: Callable[[], object]) -> Sequence:
    """Return simulations that have a program each."""
    return Sequence(len(simulations), simulations)


def with_losses(value: float) -> Callable[[], fb.Problem]:
    """Return a problem of which every loss has this value."""
    return lambda: fb.problems.from_tensor(np.full((20, 9, 4), value))


def coins_with(*means: float) -> fb.Problem:
    """Return coins with these means."""
    return fb.problems.bernoulli(means, 20, agents=9)


def by_seed(seed: int) -> Callable[[], fb.Problem]:
    """Return coins by seed."""
    return partial(drawn, seed)


def liars(*agents: int) -> dict[int, Any]:
    """Return liars with one attack."""
    return {agent: fb.attacks.swap() for agent in agents}


SEQUENCES: dict[str, Sequence] = {
    "seeds": one(plain(), plain(seed=5), partial(play, by_seed(2), FED, grid)),
    "means of coins": one(
        partial(play, partial(coins_with, 0.1, 0.2, 0.3, 0.4), FED, grid),
        partial(play, partial(coins_with, 0.9, 0.5, 0.5, 0.5), FED, grid),
    ),
    "kinds of coins": each(
        plain(), partial(play, lambda: fb.problems.switching(9, 4, 20), FED, grid)
    ),
    "tensors and functions on the host": one(
        *(partial(play, made, FED, grid) for made in (stored, with_losses(0.5), on_host))
    ),
    "features of arms": one(
        *(partial(play, partial(linear, seed), fb.LinearBlockGossip, grid) for seed in (1, 2))
    ),
    "networks and matrices of one size": one(
        plain(),
        plain(lambda: matrix(fb.networks.ring(9))),
        plain(lambda: fb.gossip.metropolis(fb.networks.star(9))),
        plain(lambda: fb.gossip.none(fb.networks.path(9))),
    ),
    "random edges of networks of one size": one(
        plain(lambda: fb.gossip.random_edge(fb.networks.path(9))),
        plain(lambda: fb.gossip.random_edge(fb.networks.complete(9))),
    ),
    "weights on a large grid": one(
        partial(play, partial(coins, 340), FED, partial(grid, 20, 17)),
        partial(
            play, partial(coins, 340), FED,
            lambda: fb.gossip.max_degree(fb.networks.grid(20, 17), lazy=False),
        ),
    ),
    "large grids of other shapes": each(
        partial(play, partial(coins, 340), FED, partial(grid, 20, 17)),
        partial(play, partial(coins, 340), FED, partial(grid, 17, 20)),
    ),
    "sizes": each(
        plain(),
        partial(play, partial(coins, 9, 5), FED, grid),
        partial(play, partial(coins, 12), FED, partial(grid, 3, 4)),
        plain(runs=3),
        plain(dtype="float64"),
        partial(play, partial(coins, horizon=30), FED, grid),
    ),
    "a horizon of two equal chunks": one(partial(play, partial(coins, horizon=1000), FED, grid)),
    "a horizon with a remainder": Sequence(
        2, (partial(play, partial(coins, horizon=1009), FED, grid),)
    ),
    "horizons with chunks of one size": each(
        partial(play, partial(coins, horizon=1000), FED, grid),
        partial(play, partial(coins, horizon=1500), FED, grid),
    ),
    "one draw after another": one(plain(draws=3), plain()),
    "snapshots after every round": one(plain(record="agents")),
    "snapshots after two and three rounds": Sequence(
        2, (partial(play, partial(coins, horizon=1200), FED, grid, record="agents"),)
    ),
    "kinds of schedules": each(
        plain(),
        partial(play, coins, partial(FED, 0.1), grid),
        partial(play, coins, partial(FED, fb.schedules.power(0.5, 0.5)), grid),
    ),
    "conditions": each(
        plain(),
        plain(privacy=SECRET),
        plain(liars=liars(2)),
        plain(privacy=SECRET, liars=liars(2)),
        plain(liars=liars(3)),
        plain(liars=liars(2, 3)),
        plain(liars={2: fb.attacks.promote(1)}),
    ),
    "rules of unreliable links": each(
        *(plain(unreliable(rule)) for rule in ("symmetric", "receiver", "flow", "lost"))
    ),
    "links that lose nothing": one(plain(), plain(lambda: fb.gossip.unreliable(grid(), 0.0))),
    "hops of floods": each(
        *(partial(play, coins, partial(fb.Exp3Coop, hops=hops), grid) for hops in (1, 2, 3))
    ),
    "batches and a simulation alone": Sequence(
        2, (several_algorithms, partial(several_algorithms, seed=3), plain(runs=1))
    ),
    "draws in one program": one(
        partial(several_draws, drawn),
        partial(several_draws, lambda d: drawn(d + 10), seed=4),
    ),
    "rounds after which draws are compared": Sequence(
        2, (partial(several_draws, drawn, times=[8, 20]),)
    ),
}  # fmt: skip
