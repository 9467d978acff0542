"""A million agents: the grid, and a random geometric graph of mean degree 20, one run each."""

from __future__ import annotations

import math
from functools import cache

import jax
import numpy as np

import fedbandits as fb
from benchmarks import baseline, floor, memory
from benchmarks.rows import Measure, Measured
from benchmarks.timing import a_round, each
from fedbandits.networks.families import Numbering

ARMS = 20
MEAN_DEGREE = 20
GOAL_GRID_US = 300.0
"""On an H200; on a CPU the goal is relative to its floor."""
GOAL_FLOORS = 4.0
GOAL_GRIDS = 4.0
"""Of the random graph, in times the grid."""
GOAL_STATES = 4.0
"""Of the peak memory, in times the state."""


def measures(quick: bool) -> list[Measure]:
    """Time a round on both graphs, and the peak memory for two horizons."""
    side = 40 if quick else 1000
    short = _horizon()
    return [
        Measure("million/grid", "µs a round", lambda: _grid_row(side)),
        Measure("million/random geometric", "µs a round", lambda: _geometric_row(side, "hilbert")),
        Measure(
            "million/random geometric/networkx's numbering",
            "µs a round",
            lambda: _geometric_row(side, "networkx"),
        ),
        Measure("million/memory/short", "states", lambda: _memory_row(side, short)),
        Measure("million/memory/long", "states", lambda: _memory_row(side, 3 * short)),
    ]


def problem(agents: int, horizon: int) -> fb.Problem:
    """Independent coins, the same means for every agent."""
    return fb.problems.bernoulli(np.linspace(0.3, 0.7, ARMS), horizon, agents=agents)


def grid(side: int) -> fb.Gossip:
    """The paper's matrix on a square grid."""
    return fb.gossip.max_degree(fb.networks.grid(side, side))


def geometric(
    agents: int, degree: float = MEAN_DEGREE, numbering: Numbering = "networkx"
) -> fb.Gossip:
    """The paper's matrix on agents spread over a square, each linked to those nearby."""
    radius = math.sqrt(degree / (math.pi * agents))
    network = fb.networks.random_geometric(agents, radius, seed=0, numbering=numbering)
    return fb.gossip.max_degree(network)


def _horizon() -> int:
    """Rounds of the shorter of two calls: a second or more of work at the goals."""
    return 3 if jax.default_backend() == "cpu" else 200


@cache
def _grid_round(side: int) -> tuple[float, ...]:
    return _microseconds(grid(side))


def _grid_row(side: int) -> Measured:
    values = _grid_round(side)
    least = 1e6 * floor.a_round(ARMS * side**2)
    goal = GOAL_FLOORS * least if jax.default_backend() == "cpu" else GOAL_GRID_US
    note = f"N={side**2:,}, K={ARMS}; {_bandwidth()}"
    return Measured(min(values), values, goal, _numpy(grid(side)), least, note)


def _geometric_row(side: int, numbering: Numbering) -> Measured:
    """Its goal is for agents numbered along a curve; as networkx numbers them there is none."""
    gossip = geometric(side**2, numbering=numbering)
    values = _microseconds(gossip)
    beside = min(_grid_round(side))
    least = 1e6 * floor.a_round(ARMS * side**2, directed_edges=gossip.directed_edges)
    degree = gossip.directed_edges / side**2
    note = (
        f"N={side**2:,}, K={ARMS}, mean degree {degree:.1f}, agents numbered "
        f"{'along a Hilbert curve' if numbering == 'hilbert' else 'as networkx does'}; "
        f"{min(values) / beside:.2f} times the grid"
    )
    if numbering != "hilbert":
        return Measured(min(values), values, None, _numpy(gossip), least, note)
    note += f", goal {GOAL_GRIDS:g} times"
    return Measured(min(values), values, GOAL_GRIDS * beside, _numpy(gossip), least, note)


def _microseconds(gossip: fb.Gossip) -> tuple[float, ...]:
    agents = gossip.network.agents
    made = cache(lambda horizon: problem(agents, horizon))

    def play(horizon: int) -> fb.Result:
        return fb.simulate(made(horizon), fb.FedExp3(0.1), gossip, runs=1, progress=False)

    return tuple(1e6 * seconds for seconds in a_round(play, _horizon(), 5))


def _numpy(gossip: fb.Gossip) -> float:
    """Microseconds of a round of the baseline, with a sparse matrix."""
    agents = gossip.network.agents
    losses = baseline.coins(np.linspace(0.3, 0.7, ARMS), agents)
    rounds = baseline.fedexp3(losses, gossip.matrix, ARMS, baseline.luck(agents))
    return 1e6 * min(each(rounds, 2))


def _bandwidth() -> str:
    return f"copies of {floor.copy_bandwidth() / 1e9:,.1f} GB/s"


def _memory_row(side: int, horizon: int) -> Measured:
    used = memory.peak_states(side, horizon)
    note = f"T={horizon}, over graph and problem, of {4 * ARMS * side**2 / 1e6:,.0f} MB"
    return Measured(used, (used,), GOAL_STATES, None, 2.0, f"{note}; floor: the old and the new")
