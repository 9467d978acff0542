"""Uniform play, the baseline of every comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array

from .base import Algorithm


class UniformState(NamedTuple):
    """The distribution, which never changes: `[K, *batch]`."""

    p: Array


@dataclass(frozen=True)
class Uniform(Algorithm[UniformState]):
    """Play every arm with probability 1/K in every round; learn and send nothing.

    Example:
        >>> Uniform().init(arms=4, agents=1).p
        array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    def init(
        self,
        arms: int,
        agents: int,  # noqa: ARG002
        batch: tuple[int, ...] = (),
        dtype: DTypeLike = np.float32,
    ) -> UniformState:
        """Return 1/K for every arm."""
        return UniformState(np.full((arms, *batch), 1 / arms, dtype))

    def distribution(self, state: UniformState, t: Array) -> Array:  # noqa: ARG002
        """Return 1/K for every arm."""
        return state.p

    def update(
        self,
        state: UniformState,
        received: Mapping[str, Array],  # noqa: ARG002
        action: Array,  # noqa: ARG002
        feedback: Array,  # noqa: ARG002
        p: Array,  # noqa: ARG002
        t: Array,  # noqa: ARG002
    ) -> UniformState:
        """Return the state unchanged."""
        return state
