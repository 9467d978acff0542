"""FTRL for delayed feedback, on cooperative estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedbandits.arrays import Array

from .cooperation import Cooperation, CooperativeLearner
from .regularisers import regularised_leader


def outstanding(t: Array, delay: int) -> Array:
    """Return 𝔇_t = Σ_{s <= t} min(s - 1, d), the missing feedback summed over rounds 1 to t.

    Example:
        >>> import numpy as np
        >>> outstanding(np.arange(1, 7), 2)
        array([0., 1., 3., 5., 7., 9.])
    """
    start = (t < delay + 1) * 1.0
    early, late = 0.5 * t * (t - 1.0), delay * (t - 1.0) - 0.5 * delay * (delay - 1.0)
    return start * early + (1.0 - start) * late


@dataclass(frozen=True)
class DelayedFTRL(CooperativeLearner):
    """The learner of Zimmert and Seldin for delayed feedback, on the estimates of Exp3Coop.

    p_t minimises ⟨x, z_t⟩ - 2 sqrt(t) Σ sqrt(x_k) + sqrt(2 𝔇_t / ln K) Σ x_k ln x_k, where 𝔇_t is
    the missing feedback, summed over the rounds so far. It needs no horizon.

    For one agent it is their algorithm with a fixed delay of `hops` rounds, and its regret is at
    most 4 sqrt(KT) + sqrt(8 D ln K), D = hops · T. For several agents with equal losses the
    estimates have less variance, and no bound is known. For unequal losses see Exp3Coop.

    Args:
        hops: distance over which plays are passed on; they arrive that many rounds later.

    Example:
        >>> import fedbandits as fb
        >>> fb.DelayedFTRL(hops=3)
        DelayedFTRL(hops=3)

    Reference:
        Zimmert and Seldin, An optimal algorithm for adversarial bandits with arbitrary delays, 2020
        (the learner); Cesa-Bianchi, Gentile, Mansour and Minora, Delay and cooperation in
        nonstochastic bandits, 2016 (the estimates).
    """

    theorem: ClassVar[str | None] = "delayed"

    def distribution(self, state: Cooperation, t: Array) -> Array:
        """Return the regularised leader with the rates of round t."""
        arms = state.z.shape[0]
        missing = outstanding(t, self.hops)
        return regularised_leader(
            state.z,
            tsallis=(t + 0.0) ** 0.5,
            entropy=(2.0 * missing / math.log(max(arms, 2))) ** 0.5,
        )
