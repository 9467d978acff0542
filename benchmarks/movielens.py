"""The size of the paper's MovieLens experiment: 3364 users, 20 genres, 12,800 rounds, 10 runs.

On an accelerator whole calls; on a CPU, which would need hours, some rounds of a shorter horizon,
without a goal. GossipUCB has FedExp3 on the same network as its goal, not plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax

import fedbandits as fb
from benchmarks import baseline, floor
from benchmarks.rows import Measure, Measured
from benchmarks.timing import a_round, each, repeated
from fedbandits.algorithms import AnyAlgorithm

RUNS = 10
HORIZON = 12_800
UCB_GOAL = 3.0
"""Times FedExp3 on the same network."""

NETWORKS: dict[str, tuple[Callable[[int], fb.Network], bool, float]] = {
    "RGG(0.5)": (lambda n: fb.networks.random_geometric(n, 0.5, seed=0), True, 0.448),
    "complete": (fb.networks.complete, False, 0.25),
    "grid": (fb.networks.square_grid, False, 0.25),
}
"""How to make each, whether it takes a dense product, and the goal on an accelerator, in s: 35 µs a
round where it does."""
ONE_RUN = {"complete": 12.0, "grid": 12.0}
"""On an accelerator, where one run alone may not take longer than ten: the goal, in µs a round."""

ALGORITHMS: dict[str, AnyAlgorithm] = {"FedExp3": fb.FedExp3(0.1), "GossipUCB": fb.GossipUCB()}


def measures(quick: bool) -> list[Measure]:
    """Both algorithms on the three networks."""
    agents = 100 if quick else 3364
    unit = "ms a round" if jax.default_backend() == "cpu" else "s"
    rows = [
        Measure(
            f"movielens/{network}/{algorithm}",
            unit,
            lambda network=network, algorithm=algorithm: _row(network, algorithm, agents),  # type: ignore[misc]
        )
        for network in NETWORKS
        for algorithm in ALGORITHMS
    ]
    if jax.default_backend() == "cpu":
        return rows
    return rows + [
        Measure(
            f"movielens/{network}/one run",
            "µs a round",
            lambda network=network: _one_run(network, agents),  # type: ignore[misc]
        )
        for network in ONE_RUN
    ]


def _row(network: str, algorithm: str, agents: int) -> Measured:
    cpu = jax.default_backend() == "cpu"
    values = _played(network, algorithm, agents)
    rounds, scale = (1, 1e3) if cpu else (HORIZON, 1.0)
    _, dense, goal = NETWORKS[network]
    problem = _problem(agents, 10)
    # GossipUCB remembers its estimates, its own means, and two kinds of counts.
    least = floor.a_round(
        problem.arms * RUNS * agents,
        arrays=1 if algorithm == "FedExp3" else 4,
        dense_agents=agents if dense else 0,
    )
    least *= scale * rounds
    how = f"N={agents}, {RUNS} runs"
    if not cpu:
        how += f", T={HORIZON}, {1e6 * min(values) / HORIZON:.0f} µs a round"
    if algorithm == "FedExp3":
        in_numpy = scale * rounds * RUNS * _numpy_round(network, agents)
        target = None if cpu else goal
        return Measured(min(values), values, target, in_numpy, least, how)
    beside = min(_played(network, "FedExp3", agents))
    how += f"; {min(values) / beside:.2f} times FedExp3, goal {UCB_GOAL:g} times"
    target = None if cpu else UCB_GOAL * beside
    return Measured(min(values), values, target, None, least, how)


def _one_run(network: str, agents: int) -> Measured:
    gossip = _gossip(network, agents)

    def play(horizon: int) -> fb.Result:
        problem = _problem(agents, horizon)
        return fb.simulate(problem, ALGORITHMS["FedExp3"], gossip, runs=1, progress=False)

    values = tuple(1e6 * seconds for seconds in a_round(play, HORIZON // 4, 5))
    least = 1e6 * floor.a_round(_problem(agents, 10).arms * agents)
    return Measured(min(values), values, ONE_RUN[network], None, least, f"N={agents}, FedExp3")


@cache
def _played(network: str, algorithm: str, agents: int) -> tuple[float, ...]:
    """Milliseconds a round on a CPU, seconds of the whole call on an accelerator."""
    gossip, player = _gossip(network, agents), ALGORITHMS[algorithm]

    def play(horizon: int) -> fb.Result:
        return fb.simulate(_problem(agents, horizon), player, gossip, runs=RUNS, progress=False)

    if jax.default_backend() != "cpu":
        return repeated(lambda: play(HORIZON), 3)
    # The first K = 20 rounds of GossipUCB are a formality; of rounds 12 to 36 most are not.
    return tuple(1e3 * seconds for seconds in a_round(play, 12, 3, seconds=2.0))


@cache
def _gossip(network: str, agents: int) -> fb.Gossip:
    return fb.gossip.max_degree(NETWORKS[network][0](agents))


@cache
def _problem(agents: int, horizon: int) -> fb.Problem:
    return fb.problems.movielens_generated(agents, horizon)


def _numpy_round(network: str, agents: int) -> float:
    """Seconds of a round of one run; the losses are read from memory."""
    n = 5
    problem = _problem(agents, 10)
    losses = problem.block(1, n + 1)
    W = _gossip(network, agents).matrix
    full = W.toarray() if network != "grid" else W
    rounds = baseline.fedexp3(lambda t: losses[t - 1], full, problem.arms, baseline.luck(agents))
    return min(each(rounds, n))
