"""Exp3-Coop: agents with equal losses share their plays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from fedbandits.arrays import Array
from fedbandits.schedules import Power, Schedule

from .base import Setting
from .cooperation import Cooperation, CooperativeLearner
from .exponential_weights import LossEstimates, exponential_weights, optional_rate
from .tunable import LEARNING_RATE, Tunable


@dataclass(frozen=True, init=False)
class Exp3Coop(CooperativeLearner):
    """Exponential weights on the plays of all agents within `hops`, `hops` rounds late.

    z_{t+1}^v = z_t^v + ℓ̂_{t-d}^v with ℓ̂(i) = ℓ(i) 1{an agent within d hops played i}/q(i),
    q(i) = 1 - Π (1 - p^u(i)), d = hops, and p_t ∝ exp(-η_{t-1} z_t).

    It is made for losses that are equal for all agents. Otherwise ℓ(i) is the mean over the agents
    in reach that played i. An agent then learns the best arm for the agents near it, weighted by
    how often they play an arm, and no regret against the best arm for all agents is guaranteed. An
    agent alone, or without a network, runs Exp3 with a delay of `hops` rounds.

    Args:
        learning_rate: η, a number or a schedule. By default sqrt(ln K / ((K m + d) t)), m the
            mean over agents of 1/(number of agents in reach). It balances variance and delay in the
            analysis of the source, with t for the horizon. The source proves its bound for another
            rate, γ/(K e (d + 1)) with γ at most 1.
        hops: d, distance over which plays are passed on; they arrive that many rounds later.

    Example:
        >>> import fedbandits as fb
        >>> {name: leaf.kind for name, leaf in fb.Exp3Coop(hops=2).leaves.items()}
        {'arm': 'raw', 'loss': 'raw', 'unplayed': 'estimate'}

    Reference:
        Cesa-Bianchi, Gentile, Mansour and Minora, Delay and cooperation in nonstochastic bandits,
        2016.
    """

    learning_rate: Schedule | None = None

    tunable: ClassVar[Mapping[str, Tunable]] = {"learning_rate": LEARNING_RATE}

    def __init__(self, learning_rate: float | Schedule | None = None, hops: int = 1) -> None:
        self._assign(learning_rate=optional_rate(learning_rate), hops=hops)
        self.__post_init__()

    def set_up(self, setting: Setting) -> Self:
        """Fill in the default rate, which depends on the number of agents in reach."""
        if self.learning_rate is not None:
            return self
        alone = setting.gossip is None or setting.gossip.silent
        share = 1.0
        if setting.gossip is not None and not alone:
            share = float(np.mean(1.0 / setting.gossip.network.reached(self.hops)))
        scale = math.sqrt(math.log(setting.arms) / (setting.arms * share + self.hops))
        return replace(self, learning_rate=Power(scale, 0.5))

    def distribution(self, state: Cooperation, t: Array) -> Array:
        """Return p_t ∝ exp(-η_{t-1} z_t)."""
        if self.learning_rate is None:
            raise ValueError(
                "Exp3Coop needs a learning_rate, or set_up(setting) to choose one by the network"
            )
        return exponential_weights(LossEstimates(state.z, state.agents), self.learning_rate, t)
