"""Randomised response of one agent: it learns from a noisy bit instead of each loss.

The computation is exact, in whole numbers. Of 2^64 equally likely draws, f lead to a flip, where f
is 2^64 / (1 + e^ε) rounded up. The number of draws that give a 1 is always within [f, 2^64 - f].
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
"""Number of random bits of a draw."""


class NoisyBits:
    """The noisy bits that an agent learns from.

    Args:
        epsilon: ε per round for the losses of this agent (event level), even if all others collude;
            arms are public. Finite.
        draw: returns a whole number of 64 random bits, which no attacker can predict.

    Example:
        >>> NoisyBits(1.0, draw=lambda bits: 2**63).bit(1.0)
        1.0
        >>> round(NoisyBits(1.0).expected(1.0), 3)  # flipped with probability 0.269
        0.731
    """

    def __init__(self, epsilon: float, draw: Callable[[int], int] = secrets.randbits) -> None:
        self.epsilon = RandomisedResponse(epsilon).epsilon
        if math.isinf(self.epsilon):
            raise ValueError("epsilon must be finite, not inf; leave it out for no guarantee")
        self._flips = flips(self.epsilon, BITS)
        self._draw = draw

    def ones(self, loss: float) -> int:
        """Return the number of the 2^64 draws that give a 1 for a loss."""
        span = 2**BITS - 2 * self._flips
        return self._flips + int(span * Fraction(loss))

    def bit(self, loss: float) -> float:
        """Draw the bit of a loss in [0, 1]: 0 or 1."""
        return float(self._draw(BITS) < self.ones(loss))

    def expected(self, loss: float) -> float:
        """Return the mean of the bit, for a loss that is not secret."""
        return self.ones(loss) / (1 << BITS)

    @property
    def noise(self) -> float:
        """The largest standard deviation of `estimate` from one bit."""
        return float(Fraction(1 << BITS, 2 * ((1 << BITS) - 2 * self._flips)))

    def estimate(self, bits: float) -> float:
        """Return the unbiased estimate of a mean loss from a mean of bits; it may leave [0, 1].

        Example:
            >>> one = NoisyBits(1.0)
            >>> round(one.estimate(one.expected(0.25)), 9)
            0.25
        """
        return (bits - self._flips / (1 << BITS)) * 2 * self.noise


class RehearsedBits(NoisyBits):
    """The bits of `fb.simulate`, from given random numbers and without a guarantee.

    Args:
        privacy: the randomised response of the simulation.
        uniform: returns the random number of the round, in (0, 1).
    """

    def __init__(self, privacy: RandomisedResponse, uniform: Callable[[], float]) -> None:
        super().__init__(privacy.epsilon)
        self._privacy = privacy
        self._uniform = uniform

    def bit(self, loss: float) -> float:
        """Return the bit of the simulation."""
        return float(self._privacy.respond(np.asarray(loss), np.asarray(self._uniform())))


def noisy_bits(epsilon: float | NoisyBits | None, algorithm: AnyAlgorithm) -> NoisyBits | None:
    """Return the noisy bits of an agent; None for one that learns from losses.

    Raises:
        ValueError: for an algorithm that learns from the losses of all arms.
    """
    if epsilon is None:
        return None
    if algorithm.feedback == "full":
        raise ValueError(
            f"{type(algorithm).__name__} learns from the losses of all arms, and one noisy bit "
            "cannot replace them; leave epsilon out, or choose an algorithm that learns from the "
            "arm played, such as fb.FedExp3()"
        )
    return epsilon if isinstance(epsilon, NoisyBits) else NoisyBits(epsilon)
