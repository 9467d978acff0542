"""Several algorithms that differ in numbers alone, in one compiled call: a sweep's batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.interrupts import calm
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves

from .checkpoint import Checkpoint
from .chunks import play_chunks
from .devices import spread
from .mixing import Mixer
from .pytrees import register
from .rounds import Carry, play_chunk
from .simulate import DType, Start, finish, precision, prepare

if TYPE_CHECKING:
    from fedbandits.results.result import Result


def simulate_each(
    problem: Problem,
    algorithms: Sequence[AnyAlgorithm],
    gossip: Gossip | None = None,
    runs: int = 10,
    seed: int = 0,
    *,
    against: Literal["current", "final"] = "current",
    dtype: DType = "float32",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> list[Result]:
    """What `simulate` finds for each of several algorithms that differ in numbers alone.

    They face the same losses with the same randomness of their agents, made once for all. Rounding
    may differ from `simulate`'s in the last bit, which in float32 flips one arm in millions. The
    file in `checkpoint` is of all of them together, and the caller's to remove once the results are
    safe.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> each = simulate_each(problem, [fb.FedExp3(0.1), fb.FedExp3(0.3)], gossip, runs=2)
        >>> [result.config["algorithm"]["learning_rate"]["value"] for result in each]
        [0.1, 0.3]
    """
    if not algorithms:
        return []
    with precision(dtype):
        starts, stacked, carry = start_each(
            problem, algorithms, gossip, runs, seed, against=against, dtype=dtype
        )
        config = {"batch": [start.config for start in starts]}
        keeper = None if checkpoint is None else Checkpoint(checkpoint, config)
        with calm():
            carry = play_chunks(
                *(play_each, problem, stacked, starts[0].mix, carry),
                *([start.record for start in starts], seed, spread(None, runs, problem.agents)),
                *(keeper, progress),
            )
            return [
                finish(
                    *(start, problem, gossip),
                    jax.tree.map(lambda leaf, h=h: leaf[h], carry.state),
                    against,
                )
                for h, start in enumerate(starts)
            ]


def start_each(
    problem: Problem,
    algorithms: Sequence[AnyAlgorithm],
    gossip: Gossip | None,
    runs: int,
    seed: int,
    *,
    against: Literal["current", "final"],
    dtype: DType,
) -> tuple[list[Start], AnyAlgorithm, Carry]:
    """What each algorithm starts from; and all of them, set up, and their carries, stacked."""
    starts = [
        prepare(problem, algorithm, gossip, runs, seed, against, dtype) for algorithm in algorithms
    ]
    ready = [start.algorithm for start in starts]
    if not alike(ready):
        raise ValueError(f"only algorithms of one kind can be batched, not {algorithms!r}")
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *ready)
    carry = jax.tree.map(lambda *leaves: np.stack(leaves), *(start.carry for start in starts))
    return starts, stacked, carry


def alike(algorithms: Sequence[AnyAlgorithm]) -> bool:
    """Whether algorithms, set up, differ in numbers alone, so that one program plays them all."""
    for algorithm in algorithms:
        register(algorithm)
    kinds = {
        (jax.tree.structure(each), tuple(np.shape(leaf) for leaf in jax.tree.leaves(each)))
        for each in algorithms
    }
    return len(kinds) == 1


@partial(
    jax.jit,
    static_argnames=("runs", "rounds", "block", "ahead", "checked", "where"),
    donate_argnames=("carries",),
)
def play_each(
    algorithms: AnyAlgorithm,
    mixer: Mixer,
    losses: Problem | Array,
    carries: Carry,
    first: Array,
    seed: Array,
    **sizes: Any,
) -> tuple[Carry, Curves, AgentTotals]:
    """`play_chunk` for algorithms and carries along a first axis."""

    def play(algorithm: AnyAlgorithm, carry: Carry) -> tuple[Carry, Curves, AgentTotals]:
        outcome: tuple[Carry, Curves, AgentTotals] = play_chunk(
            algorithm, mixer, losses, carry, first, seed, **sizes
        )
        return outcome

    played: tuple[Carry, Curves, AgentTotals] = jax.vmap(play)(algorithms, carries)
    return played
