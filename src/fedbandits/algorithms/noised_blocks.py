"""Blocks of rounds with Laplace noise at the end of each, before other agents see the sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeVar

from fedbandits.arrays import Array

from .base import Algorithm, Leaf
from .tunable import BLOCK, EXPLORATION, LEARNING_RATE, Tunable

S = TypeVar("S")


class NoisedBlocks(Algorithm[S]):
    """An algorithm that adds noise to the sums of each block of B rounds, then learns from them.

    Attributes:
        block: B; None before `set_up` fills it in.
    """

    block: int | None

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    noised: ClassVar[bool] = True
    tunable: ClassVar[Mapping[str, Tunable]] = {
        "learning_rate": LEARNING_RATE,
        "block": BLOCK,
        "exploration": EXPLORATION,
    }

    @property
    def rounds_before_learning(self) -> int:
        """One block."""
        return self.block or 0

    def noise_due(self, t: Array) -> Array:
        """Return whether round t is the last of a block."""
        if self.block is None:
            raise ValueError(self.not_set_up)
        return t % self.block == 0

    @property
    def not_set_up(self) -> str:
        """The error about an algorithm without `set_up`."""
        return (
            f"{type(self).__name__} takes what was not given from the number of arms and agents: "
            "call set_up(fb.Setting(arms, agents, gossip)) first"
        )


def laplace(uniforms: Array) -> Array:
    """Return Laplace(1) numbers, of density exp(-|x|)/2, by the inverse distribution function.

    They are ln(2u) below the median and -ln(2(1 - u)) above it. The uniforms of the simulator are
    the centres of 2^23 equal intervals in float32 (2^32 in float64). So no |x| is above 23 ln 2,
    about 16 (or 32 ln 2, about 22); larger values, of probability 2^-23 (2^-32), are never drawn.

    The noise is therefore simulated. The claimed ε holds for real numbers of this distribution. It
    does not hold for sums of floating-point numbers on a grid, whose last digits can reveal the
    value (Mironov, On significance of the least significant bits for differential privacy, CCS
    2012).

    Args:
        uniforms: in (0, 1), `[...]`.

    Returns:
        numbers of the same shape.

    Example:
        >>> import numpy as np
        >>> laplace(np.array([0.125, 0.5, 0.875])).round(3) + 0.0
        array([-1.386,  0.   ,  1.386])
    """
    xp = uniforms.__array_namespace__()
    tail = xp.log(2.0 * xp.minimum(uniforms, 1.0 - uniforms))
    return xp.where(uniforms < 0.5, tail, -tail)
