"""The nine networks of figure 1 from a standing start: import, compile and play."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import small
from benchmarks.processes import python
from benchmarks.rows import Measure, Measured

RUNS = 10
NETWORKS = 9
GOAL_FIRST = 15.0
GOAL_SECOND = 5.0

_PLAY = """
import sys
import fedbandits as fb
from fedbandits.paper import figure1

horizon = int(sys.argv[1])
for network in figure1.right_networks().values():
    gossip = fb.gossip.max_degree(network, lazy=False)
    problem = fb.problems.activated_bernoulli(network.agents, figure1.ARMS, horizon)
    algorithm = fb.FedExp3(figure1.LEARNING_RATE, figure1.EXPLORATION)
    fb.simulate(problem, algorithm, gossip, runs=int(sys.argv[2]), progress=False)
"""


def measures(quick: bool) -> list[Measure]:
    """A first start, and a second one that finds the compiled programs on disk."""
    horizon, n = (50, 1) if quick else (3000, 2)
    return [
        Measure("figure 1/first start", "s", lambda: _first(horizon, n)),
        Measure("figure 1/second start", "s", lambda: _second(horizon, n)),
    ]


def _first(horizon: int, n: int) -> Measured:
    taken = []
    for _ in range(n):
        with _compiled_programs() as settings:
            taken.append(_start(horizon, settings))
    return _measured(tuple(taken), GOAL_FIRST, horizon, "nothing compiled before")


def _second(horizon: int, n: int) -> Measured:
    with _compiled_programs() as settings:
        _start(horizon, settings)
        taken = tuple(_start(horizon, settings) for _ in range(n))
    return _measured(taken, GOAL_SECOND, horizon, "with JAX's persistent compilation cache")


def _start(horizon: int, settings: dict[str, str]) -> float:
    return python("-c", _PLAY, str(horizon), str(RUNS), settings=settings).seconds


@contextmanager
def _compiled_programs() -> Iterator[dict[str, str]]:
    """Settings with which JAX keeps every compiled program in a folder that starts empty."""
    with tempfile.TemporaryDirectory() as folder:
        yield {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        }


def _measured(taken: tuple[float, ...], goal: float, horizon: int, how: str) -> Measured:
    return Measured(
        min(taken),
        taken,
        goal,
        NETWORKS * RUNS * small.numpy_run(horizon),
        NETWORKS * RUNS * small.floor_run(RUNS, horizon),
        f"{NETWORKS} networks × {RUNS} runs, T={horizon}, whole process, {how}",
    )
