"""Exp3-Coop: agents that face the same losses and share what they played and saw."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common.checks import INT32, whole
from fedbandits.schedules import Power, Schedule, as_schedule

from .base import Setting
from .cooperation import Cooperation, CooperativeLearner
from .exponential_weights import LossEstimates, exponential_weights
from .tunable import LEARNING_RATE, Tunable


@dataclass(frozen=True, init=False)
class Exp3Coop(CooperativeLearner):
    """Exponential weights on what everyone within `hops` played, `hops` rounds late.

    z_{t+1}^v = z_t^v + ℓ̂_{t-d}^v with ℓ̂(i) = ℓ(i) 1{someone within d hops played i}/q(i),
    q(i) = 1 - Π (1 - p^u(i)), d = hops, and p_t ∝ exp(-η_{t-1} z_t).

    Made for losses that are equal for all agents. Where they are not, ℓ(i) is the mean over those
    in reach who played i, so an agent learns the arm best for the agents near it, those who play
    an arm more often counting more: no regret against the arm best for everyone is promised.
    An agent alone, or without a network, runs Exp3 with a delay of `hops` rounds.

    Args:
        learning_rate: η, a number or a schedule. By default sqrt(ln K / ((K m + d) t)), m the
            mean over agents of 1/(how many are in reach): the balance of variance and delay in the
            source's analysis, with t for the horizon; not a rate that the source proves. Its own
            is γ/(K e (d + 1)), γ at most 1.
        hops: d, how far plays are passed on; they arrive that many rounds later.

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
        rate = None if learning_rate is None else as_schedule(learning_rate, "learning_rate")
        object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "hops", whole(hops, "hops", least=1, most=INT32))

    def set_up(self, setting: Setting) -> Self:
        """The default rate, from how many agents are in reach."""
        if self.learning_rate is not None:
            return self
        alone = setting.gossip is None or setting.gossip.silent
        share = 1.0
        if setting.gossip is not None and not alone:
            share = float(np.mean(1.0 / setting.gossip.network.reached(self.hops)))
        scale = math.sqrt(math.log(setting.arms) / (setting.arms * share + self.hops))
        return replace(self, learning_rate=Power(scale, 0.5))

    def distribution(self, state: Cooperation, t: Array) -> Array:
        """p_t ∝ exp(-η_{t-1} z_t)."""
        if self.learning_rate is None:
            raise ValueError(
                "Exp3Coop needs a learning_rate, or set_up(setting) to choose one by the network"
            )
        return exponential_weights(LossEstimates(state.z, state.agents), self.learning_rate, t)
