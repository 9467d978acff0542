"""Several algorithms of one kind on one problem: a sweep over hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.gossip import Gossip
from fedbandits.problems.base import Problem

from .simulate import DType, simulate

if TYPE_CHECKING:
    from fedbandits.results import Result


def simulate_each(
    problem: Problem,
    algorithms: Sequence[AnyAlgorithm],
    gossip: Gossip | None = None,
    runs: int = 10,
    seed: int = 0,
    *,
    against: Literal["current", "final"] = "current",
    dtype: DType = "float32",
    progress: bool | None = None,
) -> list[Result]:
    """What `simulate` finds for each of several algorithms that differ in numbers alone."""
    return [
        simulate(
            problem,
            algorithm,
            gossip,
            runs,
            seed,
            against=against,
            dtype=dtype,
            progress=progress,
        )
        for algorithm in algorithms
    ]
