"""GossipUCB, the paper's stochastic baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, over_arms, played

from .base import Algorithm, Leaf

# Scores this close, relative to 1 + |best|, count as tied, so that rounding does not decide.
TIE = 1e-6


class GossipUCBState(NamedTuple):
    """The state of an agent: arrays `[K, *batch]`, and a scalar.

    Attributes:
        n: number of times that the agent played each arm.
        mean: the agent's own mean reward of each arm, X̃.
        theta: the gossiped estimate of each arm's mean reward over all agents, ϑ.
        n_most: the largest number of plays of each arm that was received, ñ.
        agents: number of agents in the network, a scalar.
    """

    n: Array
    mean: Array
    theta: Array
    n_most: Array
    agents: Array


@dataclass(frozen=True)
class GossipUCB(Algorithm[GossipUCBState]):
    """UCB on gossiped means of rewards, reward = 1 - loss; made for stationary losses.

    The first K rounds play each arm once. After that, an agent plays an arm i with
    n(i) < ñ(i) - N if there is one; otherwise it maximises ϑ(i) + sqrt(2 N ln t / n(i)).

    The source leaves some choices open. Here ties are broken uniformly at random (within 1e-6 of
    1 + |best|), the first pull counts in the mean, and t is the round, including the first K pulls.
    The bonus α₁ = 64/N^17 of the source is equal for all arms and left out. The source activates
    one random edge a round (`fb.gossip.random_edge`); any other gossip works too.

    Example:
        >>> GossipUCB().leaves["n_most"].combine
        'maximum'

    Reference:
        Zhu, Zhu, Liu and Liu, Federated bandit: a gossiping approach, 2021.
    """

    leaves: ClassVar[Mapping[str, Leaf]] = {
        "theta": Leaf(kind="estimate", combine="average", attracts="high"),
        "n_most": Leaf(kind="count", combine="maximum", attracts="high"),
    }

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> GossipUCBState:
        """Return the state before the first play."""
        zeros = np.zeros((arms, *batch), dtype)
        return GossipUCBState(zeros, zeros, zeros, zeros, np.asarray(agents, dtype))

    def largest_estimate(self, arms: int, rounds: float) -> float:  # noqa: ARG002
        """Return 1, the largest mean reward."""
        return 1.0

    def rounds_before_gossip(self, arms: int) -> int:
        """Return K: during the first K pulls ϑ = X̃, independent of messages."""
        return arms

    def distribution(self, state: GossipUCBState, t: Array) -> Array:
        """Return the uniform distribution over arms due: first pulls, arms behind, or the best."""
        xp = state.n.__array_namespace__()
        first = played(t - 1, like=state.n)
        behind = state.n < state.n_most - state.agents
        bonus = xp.sqrt(2.0 * state.agents * xp.log(t + 0.0) / xp.maximum(state.n, 1.0))
        score = state.theta + bonus
        best = over_arms("max", score)
        tied = score >= best - TIE * (1.0 + abs(best))
        catching_up = xp.where(over_arms("any", behind), behind, tied)
        due = xp.where(t <= state.n.shape[0], first, catching_up).astype(state.n.dtype)
        return due * (1.0 / over_arms("sum", due))

    def update(
        self,
        state: GossipUCBState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> GossipUCBState:
        """Return ϑ ← Σ_u W_uv ϑ^u + X̃_new - X̃_old, and ñ ← max(n_new, ñ of the neighbours)."""
        xp = p.__array_namespace__()
        chosen = played(action, like=p).astype(state.n.dtype)
        n = state.n + chosen
        mean = state.mean + chosen * (1.0 - feedback - state.mean) / xp.maximum(n, 1.0)
        # Gossip starts once every arm has been pulled: until then ϑ = X̃.
        theta = xp.where(t <= p.shape[0], mean, received["theta"] + (mean - state.mean))
        return state._replace(n=n, mean=mean, theta=theta, n_most=xp.maximum(n, received["n_most"]))
