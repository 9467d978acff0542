"""Several algorithms on the same losses, played together: a sweep's or a tuning's batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common.interrupts import calm
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem

from .batch import batch_of_algorithms
from .checkpoint import Checkpoint
from .chunk_runner import play_chunks
from .preparation import DType, Recorded, check_against, precision, prepare
from .recording.finish import finish
from .stages.liars import Liars

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
    privacy: RandomisedResponse | None = None,
    liars: Liars | None = None,
    record: Recorded = None,
    draws: int | None = None,
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
    check_against(against)
    if not algorithms:
        return []
    with precision(dtype):
        games = [
            prepare(
                problem,
                algorithm,
                gossip,
                runs,
                seed,
                dtype=dtype,
                privacy=privacy,
                liars=liars,
                record=record,
                draws=draws,
            )
            for algorithm in algorithms
        ]
        batch = batch_of_algorithms(games)
        config = {"batch": [game.identity for game in games]}
        kept = None if checkpoint is None else Checkpoint(checkpoint, config)
        with calm():
            carry = play_chunks(batch, kept, progress)
            return [
                finish(game, batch.part(carry.state, place), against)
                for place, game in enumerate(games)
            ]
