"""AcceleratedFedExp3: FedExp3 whose gossip has momentum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.gossip import acceleration as accelerated
from fedbandits.schedules import MixingAware, Power, Schedule, as_schedule

from .base import Algorithm, Leaf, Setting
from .exponential_weights import (
    checked_exploration,
    explore,
    exponential_weights,
    importance_weighted,
    told,
)
from .tunable import EXPLORATION, LEARNING_RATE, Tunable


class AcceleratedState(NamedTuple):
    """The state of an agent.

    Attributes:
        z: cumulative loss estimates, `[K, *batch]`.
        y: the same one step of gossip earlier, `[K, *batch]`.
        agents: number of agents in the network, a scalar.
    """

    z: Array
    y: Array
    agents: Array


@dataclass(frozen=True)
class AcceleratedFedExp3(Algorithm[AcceleratedState]):
    """FedExp3 with accelerated gossip: every estimate spreads in 1/sqrt(1 - σ2) rounds or so.

    z_{t+1}^v = (1 + κ) Σ_u W_uv z_t^u - κ y_t^v + g_t^v,  y_{t+1}^v = z_t^v + g_t^v,
    x_t ∝ exp(-η_{t-1} z_t),  p_t = (1 - γ_t) x_t + γ_t / K.

    Each g_t enters z and y alike, and then follows x^{b+1} = (1 + κ) W x^b - κ x^{b-1} from
    x^0 = x^{-1} = g_t, whatever comes after; the means of z and y over agents stay equal, and
    equal to FedExp3's. What is sent is what FedExp3 sends. No theorem is known for it.

    It is not always better: `python -m studies leaderboard` has both, network by network. A star
    gains, a complete graph has nothing to gain, a path loses. A likely cause: on a path an agent's
    share of an estimate is often negative on the way to the mean, which never happens in plain
    gossip.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        momentum: κ; None for the best constant of the network, (1 - s)/(1 + s) with
            s = sqrt(1 - σ2²), and 0, which is FedExp3, where W is random or asymmetric.

    Example:
        >>> import fedbandits as fb
        >>> gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
        >>> setting = fb.algorithms.base.Setting(arms=20, agents=36, gossip=gossip)
        >>> round(fb.AcceleratedFedExp3().set_up(setting).momentum, 3)
        0.626

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, for FedExp3.
    """

    learning_rate: Schedule
    exploration: Schedule
    momentum: float | None

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    common_round: ClassVar[str | None] = "its momentum is of the round before, everywhere the same"
    tunable: ClassVar[Mapping[str, Tunable]] = {
        "learning_rate": LEARNING_RATE,
        "exploration": EXPLORATION,
    }

    def __init__(
        self,
        learning_rate: float | Schedule = MixingAware(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
        momentum: float | None = None,
    ) -> None:
        if momentum is not None and not 0 <= checks.number(momentum, "momentum") <= 1:
            raise ValueError(f"momentum must be from 0 to 1, not {momentum}")
        object.__setattr__(self, "learning_rate", as_schedule(learning_rate, "learning_rate"))
        object.__setattr__(self, "exploration", checked_exploration(exploration))
        object.__setattr__(self, "momentum", momentum if momentum is None else float(momentum))

    def set_up(self, setting: Setting) -> Self:
        """The best constant momentum of the network, unless one was given, and the rate told."""
        momentum = self.momentum
        if momentum is None:
            momentum = accelerated.best_momentum(accelerated.usable_sigma(setting.gossip))
        rate = told(self.learning_rate, setting.gossip, momentum)
        return replace(self, momentum=momentum, learning_rate=rate)

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> AcceleratedState:
        """z_1 = y_1 = 0."""
        zeros = np.zeros((arms, *batch), dtype)
        return AcceleratedState(zeros, zeros, np.asarray(agents, dtype))

    def distribution(self, state: AcceleratedState, t: Array) -> Array:
        """p_t = (1 - γ_t) x_t + γ_t / K."""
        x = exponential_weights(state, self.learning_rate, t)
        return explore(x, self.exploration(t, state))

    def message(self, state: AcceleratedState) -> dict[str, Array]:
        """Only the running estimates leave the agent."""
        return {"z": state.z}

    def update(
        self,
        state: AcceleratedState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> AcceleratedState:
        """One step of gossip with momentum, then the new estimate into both z and y."""
        if self.momentum is None:
            raise ValueError(
                "AcceleratedFedExp3 takes its momentum from the network: call "
                "set_up(Setting(arms, agents, gossip)) first, or give it"
            )
        g = importance_weighted(feedback, action, p)
        z = (1.0 + self.momentum) * received["z"] - self.momentum * state.y
        return state._replace(z=z + g, y=state.z + g)
