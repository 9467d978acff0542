"""Randomised response at a site: one bit of chance from the operating system instead of a loss.

All in whole numbers: of 2^64 equally likely draws, f lead to a flip, f being 2^64 / (1 + e^ε)
rounded up, and a loss never moves the share of ones out of [f, 2^64 - f].
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.privacy.response import RandomisedResponse, flips

BITS = 64
"""Of a draw."""


class Responses:
    """What an agent is told instead of its losses.

    Args:
        epsilon: ε per round for the losses of this agent (event level), even if all others collude;
            arms are public. Finite.
        drawn: a whole number of 64 bits, by chance that nobody can know or repeat.

    Example:
        >>> Responses(1.0, drawn=lambda bits: 2**63).bit(1.0)
        1.0
        >>> round(Responses(1.0).expected(1.0), 3)  # flipped with probability 0.269
        0.731
    """

    def __init__(self, epsilon: float, drawn: Callable[[int], int] = secrets.randbits) -> None:
        self.epsilon = RandomisedResponse(epsilon).epsilon
        if math.isinf(self.epsilon):
            raise ValueError("epsilon must be finite, not inf; leave it out for no guarantee")
        self._flips = flips(self.epsilon, BITS)
        self._drawn = drawn

    def ones(self, loss: float) -> int:
        """How many of the 2^64 draws make the bit of a loss 1."""
        span = 2**BITS - 2 * self._flips
        return self._flips + int(span * Fraction(loss))

    def bit(self, loss: float) -> float:
        """The bit of a loss in [0, 1]: 0 or 1, another one whenever it is asked for."""
        return float(self._drawn(BITS) < self.ones(loss))

    def expected(self, loss: float) -> float:
        """What the bit is on average: a loss that is no secret, on the scale of bits."""
        return self.ones(loss) / (1 << BITS)

    @property
    def noise(self) -> float:
        """The largest standard deviation of `estimate` from one bit."""
        return float(Fraction(1 << BITS, 2 * ((1 << BITS) - 2 * self._flips)))

    def estimate(self, bits: float) -> float:
        """Return the unbiased estimate of a mean loss from a mean of bits; it may leave [0, 1].

        Example:
            >>> one = Responses(1.0)
            >>> round(one.estimate(one.expected(0.25)), 9)
            0.25
        """
        return (bits - self._flips / (1 << BITS)) * 2 * self.noise


class Rehearsed(Responses):
    """What `fb.simulate` would tell an agent: from given numbers, and no guarantee.

    Args:
        privacy: of the simulation.
        uniform: the number of the round, in (0, 1).
    """

    def __init__(self, privacy: RandomisedResponse, uniform: Callable[[], float]) -> None:
        super().__init__(privacy.epsilon)
        self._privacy = privacy
        self._uniform = uniform

    def bit(self, loss: float) -> float:
        """The same bit."""
        return float(self._privacy.respond(np.asarray(loss), np.asarray(self._uniform())))


def responses(epsilon: float | Responses | None, algorithm: AnyAlgorithm) -> Responses | None:
    """Those of an agent; None where its losses are not blurred.

    Raises:
        ValueError: for an algorithm that learns from the losses of all arms.
    """
    if epsilon is None:
        return None
    if algorithm.feedback == "full":
        raise ValueError(
            f"{type(algorithm).__name__} learns from the losses of all arms, and one noisy bit "
            "cannot stand for them; leave epsilon out, or agree on an algorithm that learns from "
            "the arm played, such as fb.FedExp3()"
        )
    return epsilon if isinstance(epsilon, Responses) else Responses(epsilon)
