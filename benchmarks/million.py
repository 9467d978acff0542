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
GOAL_GRID_US = 120.0
GOAL_TEN_US = 1000.0
"""On an H200, of a million and of ten million agents."""
GOAL_PARTS = 2.0
"""On a CPU, in times the sum of what a round is made of."""
GOAL_GRIDS = 4.0
"""Of the random graph, in times the grid."""
GOAL_STATES = 4.0
"""Of the peak memory, in times the state."""


def measures(quick: bool) -> list[Measure]:
    """Time a round on both graphs, and the peak memory for two horizons."""
    side = 40 if quick else 1000
    short = _horizon(200)
    ten = [Measure("million/ten of them", "µs a round", lambda: _ten_row(quick))]
    return [
        Measure("million/grid", "µs a round", lambda: _grid_row(side)),
        *([] if jax.default_backend() == "cpu" else ten),
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


def _horizon(on_accelerator: int) -> int:
    """Rounds of the shorter of two calls: so many that noise in the set-up hardly counts."""
    return 10 if jax.default_backend() == "cpu" else on_accelerator


@cache
def _grid_round(side: int) -> tuple[float, ...]:
    return _microseconds(grid(side), _horizon(2000))


def _grid_row(side: int) -> Measured:
    values = _grid_round(side)
    least = 1e6 * floor.a_round(ARMS * side**2)
    goal, note = GOAL_GRID_US, f"{_sizes(side, _horizon(2000))}; {_bandwidth()}"
    if jax.default_backend() == "cpu":
        parts = floor.parts(ARMS, side**2)
        goal = GOAL_PARTS * 1e6 * sum(parts)
        milliseconds = "; ".join(
            f"{name} {1e3 * part:.1f} ms" for name, part in parts._asdict().items()
        )
        note = f"{note}; {milliseconds}; goal {GOAL_PARTS:g} times their sum"
    return Measured(min(values), values, goal, _numpy(grid(side)), least, note)


def _ten_row(quick: bool) -> Measured:
    """On accelerators alone: two cores would take minutes."""
    side = 126 if quick else 3162
    horizon = 80 if quick else 800  # whole chunks
    values = _microseconds(grid(side), horizon)
    least = 1e6 * floor.a_round(ARMS * side**2)
    note = _sizes(side, horizon)
    if not quick:
        note += f"; {min(values) / min(_grid_round(1000)):.1f} times a million"
    return Measured(min(values), values, GOAL_TEN_US, None, least, note)


def _geometric_row(side: int, numbering: Numbering) -> Measured:
    """Its goal is for agents numbered along a curve; as networkx numbers them there is none."""
    gossip = geometric(side**2, numbering=numbering)
    horizon = _horizon(2000 if numbering == "hilbert" else 200)
    values = _microseconds(gossip, horizon)
    beside = min(_grid_round(side))
    least = 1e6 * floor.a_round(ARMS * side**2, directed_edges=gossip.directed_edges)
    degree = gossip.directed_edges / side**2
    note = (
        f"{_sizes(side, horizon)}, mean degree {degree:.1f}, agents numbered "
        f"{'along a Hilbert curve' if numbering == 'hilbert' else 'as networkx does'}; "
        f"{min(values) / beside:.2f} times the grid"
    )
    if numbering != "hilbert":
        return Measured(min(values), values, None, _numpy(gossip), least, note)
    note += f", goal {GOAL_GRIDS:g} times"
    return Measured(min(values), values, GOAL_GRIDS * beside, _numpy(gossip), least, note)


def _sizes(side: int, horizon: int) -> str:
    return f"N={side**2:,}, K={ARMS}, T={horizon:,} and {3 * horizon:,}"


def _microseconds(gossip: fb.Gossip, horizon: int) -> tuple[float, ...]:
    agents = gossip.network.agents
    made = cache(lambda horizon: problem(agents, horizon))

    def play(horizon: int) -> fb.Result:
        return fb.simulate(made(horizon), fb.FedExp3(0.1), gossip, runs=1, progress=False)

    return tuple(1e6 * seconds for seconds in a_round(play, horizon, 5))


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
