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
from fedbandits.schedules import MixingAware, Power, Schedule

from .base import Leaf, Setting
from .exponential_weights import (
    Exploring,
    explore,
    exponential_weights,
    importance_weighted,
    with_scatter,
)


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


@dataclass(frozen=True, init=False)
class AcceleratedFedExp3(Exploring[AcceleratedState]):
    """FedExp3 with accelerated gossip: an estimate spreads in about 1/sqrt(1 - σ2) rounds.

    z_{t+1}^v = (1 + κ) Σ_u W_uv z_t^u - κ y_t^v + g_t^v,  y_{t+1}^v = z_t^v + g_t^v,
    x_t ∝ exp(-η_{t-1} z_t),  p_t = (1 - γ_t) x_t + γ_t / K.

    Each g_t is added to z and to y. From there it follows x^{b+1} = (1 + κ) W x^b - κ x^{b-1} with
    x^0 = x^{-1} = g_t. The means of z and y over agents therefore stay equal, and equal to those of
    FedExp3. It sends the same messages as FedExp3. No theorem is known for it.

    It is not always better than FedExp3: it gains on a star, not on a complete graph, and loses on
    a path (`python -m studies leaderboard`). On a path an agent's share of an estimate is often
    negative before it reaches the mean, which never happens in plain gossip.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        momentum: κ in [0, 1]. None takes the best constant of the network, (1 - s)/(1 + s) with
            s = sqrt(1 - σ2²), or 0, which is FedExp3, if W is random or asymmetric.

    Example:
        >>> import fedbandits as fb
        >>> gossip = fb.gossip.max_degree(fb.networks.grid(6, 6))
        >>> setting = fb.algorithms.base.Setting(arms=20, agents=36, gossip=gossip)
        >>> round(fb.AcceleratedFedExp3().set_up(setting).momentum, 3)
        0.626

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, for FedExp3.
    """

    momentum: float | None

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    common_round: ClassVar[str | None] = (
        "its momentum uses the estimates of the previous round, which must be one round for all"
    )

    def __init__(
        self,
        learning_rate: float | Schedule = MixingAware(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
        momentum: float | None = None,
    ) -> None:
        super().__init__(learning_rate, exploration)
        if momentum is not None:
            momentum = checks.within(momentum, "momentum", "[0, 1]")
        self._assign(momentum=momentum)

    def set_up(self, setting: Setting) -> Self:
        """Fill in the best constant momentum of the network and the scatter of the rate."""
        momentum = self.momentum
        if momentum is None:
            momentum = accelerated.best_momentum(accelerated.usable_sigma(setting.gossip))
        rate = with_scatter(self.learning_rate, setting.gossip, momentum)
        return replace(self, momentum=momentum, learning_rate=rate)

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> AcceleratedState:
        """Return z_1 = y_1 = 0."""
        zeros = np.zeros((arms, *batch), dtype)
        return AcceleratedState(zeros, zeros, np.asarray(agents, dtype))

    def distribution(self, state: AcceleratedState, t: Array) -> Array:
        """Return p_t = (1 - γ_t) x_t + γ_t / K."""
        x = exponential_weights(state, self.learning_rate, t)
        return explore(x, self.exploration(t, state))

    def update(
        self,
        state: AcceleratedState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,  # noqa: ARG002
    ) -> AcceleratedState:
        """Make one step of gossip with momentum, then add the new estimate to z and y."""
        if self.momentum is None:
            raise ValueError(
                "AcceleratedFedExp3 takes its momentum from the network: call "
                "set_up(Setting(arms, agents, gossip)) first, or give it"
            )
        g = importance_weighted(feedback, action, p)
        z = (1.0 + self.momentum) * received["z"] - self.momentum * state.y
        return state._replace(z=z + g, y=state.z + g)
