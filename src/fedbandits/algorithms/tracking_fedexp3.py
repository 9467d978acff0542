"""TrackingFedExp3: FedExp3 that chooses how long to remember."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, taken
from fedbandits.common import checks
from fedbandits.schedules import MixingAware, Power, Schedule, SmallLoss

from .base import Leaf
from .exponential_weights import (
    Exploring,
    LossEstimates,
    explore,
    exponential_weights,
    importance_weighted,
    largest_importance_weighted,
)

MEMORIES: Mapping[str, float] = {
    "z30": 30.0,
    "z100": 100.0,
    "z300": 300.0,
    "z1000": 1000.0,
    "z": math.inf,
}
"""Memories in rounds, by the field of the state that has it."""

_WEIGHING = SmallLoss()
"""The rate for the weights of memories, which take the place of arms."""
_JUDGED, _JUDGED_PART = 300.0, 0.1
"""Memories are weighed by their losses in about the last max(300, t/10) rounds. Without forgetting,
a change of the weights would take as long as the time before it; with a constant memory, short
memories would be tried again forever, at a cost in every round."""
_FOREVER = 0.95
"""π(∞). Equal weights follow changes slightly faster, and cost much more if nothing changes
(docs/understand/moving.md)."""


class SeveralMemories(NamedTuple):
    """The state of an agent.

    Attributes:
        z30: loss estimates with a memory of 30 rounds, `[K, *batch]`.
        z100: with one of 100.
        z300: with one of 300.
        z1000: with one of 1000.
        z: of all rounds.
        lost: estimated loss of each memory, had it played, `[M, *batch]`.
        x: distributions of all memories at the agent's last update, one after the other,
            `[M K, *batch]`. A live agent receives messages between its updates. Charging memories
            by later distributions would omit the noise of its own last estimate.
        agents: number of agents in the network, a scalar.
    """

    z30: Array
    z100: Array
    z300: Array
    z1000: Array
    z: Array
    lost: Array
    x: Array
    agents: Array


@dataclass(frozen=True, init=False)
class TrackingFedExp3(Exploring[SeveralMemories]):
    """FedExp3 with five memories m in parallel, weighed by the loss of each, had it played.

    z_{t+1}^{v,m} = λ_m Σ_u W_uv z_t^{u,m} + g_t^v,  λ_m = 1 - 1/m,  m = 30, 100, 300, 1000, ∞,
    x_t^m ∝ exp(-η z_t^m), η being the rate at z_t^m,
    L_{t+1}^v(m) = (1 - 1/J_t) Σ_u W_uv L_t^u(m) + ⟨x_t^{v,m}, g_t^v⟩,  J_t = max(300, t/10),
    w_t(m) ∝ π(m) exp(-ζ L_t(m)),  ζ = 2 sqrt(ln 5 / ((5/N + 1) (1/2 + min_m L_t(m)))),
    p_t = (1 - γ_t) Σ_m w_t(m) x_t^m + γ_t / K.

    All memories learn from the same unbiased g_t = ℓ_t 1{a_t} / p_t, so ⟨x^m, g⟩ estimates the loss
    of memory m, had it played. Agents average these sums by gossip too. ζ is FedExp3's default rate
    with memories for arms. The sums are discounted, so the weights adapt when changes begin or end.
    Before the first loss, and if all memories lose the same, the weights are π: `forever` for
    m = ∞, and equal shares of the rest for the others.

    It sends 5 K + 5 numbers; FedExp3 sends K. No bound is known for it. It is made for a best arm
    that changes. If the best arm never changes, it loses more than FedExp3.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        forever: π(∞) in (0, 1), the initial weight of remembering forever. Smaller values follow
            changes faster, and cost more if nothing changes.

    Example:
        >>> import fedbandits as fb
        >>> list(fb.TrackingFedExp3().leaves)
        ['z30', 'z100', 'z300', 'z1000', 'z', 'lost']

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, for FedExp3; Auer,
        Cesa-Bianchi, Freund and Schapire, The nonstochastic multiarmed bandit problem, 2002, for
        weights of experts (Exp4).
    """

    forever: float

    leaves: ClassVar[Mapping[str, Leaf]] = dict.fromkeys(
        [*MEMORIES, "lost"], Leaf(kind="estimate", combine="average")
    )

    def __init__(
        self,
        learning_rate: float | Schedule = MixingAware(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
        *,
        forever: float = _FOREVER,
    ) -> None:
        super().__init__(learning_rate, exploration)
        fix = "; FedExp3(memory=...) has one memory alone"
        self._assign(forever=checks.within(forever, "forever", "(0, 1)", fix))

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> SeveralMemories:
        """Return z_1 = 0, and weights π."""
        zeros = np.zeros((arms, *batch), dtype)
        lost = np.zeros((len(MEMORIES), *batch), dtype)
        estimates = dict.fromkeys(MEMORIES, zeros)
        x = np.full((len(MEMORIES) * arms, *batch), 1.0 / arms, dtype)
        return SeveralMemories(**estimates, lost=lost, x=x, agents=np.asarray(agents, dtype))

    def distribution(self, state: SeveralMemories, t: Array) -> Array:
        """Return p_t = (1 - γ_t) Σ_m w_t^m x_t^m + γ_t / K."""
        weights = self._weights(state, t)
        parts = [
            weight * self._learner(getattr(state, name), state.agents, t)
            for weight, name in zip(weights, MEMORIES, strict=True)
        ]
        mixed = _sum(parts) / _sum(weights)
        return explore(mixed, self.exploration(t, state))

    def update(
        self,
        state: SeveralMemories,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> SeveralMemories:
        """Discount each memory by its factor, add the same estimate, and charge each its loss."""
        xp, arms, g = p.__array_namespace__(), len(p), importance_weighted(feedback, action, p)
        drawn, judged = feedback / taken(p, action), xp.maximum(_JUDGED, _JUDGED_PART * t)
        places = range(0, len(MEMORIES) * arms, arms)
        charged = [taken(state.x[first : first + arms], action) * drawn for first in places]
        z = {name: (1.0 - 1.0 / kept) * received[name] + g for name, kept in MEMORIES.items()}
        return state._replace(
            **z,
            lost=(1.0 - 1.0 / judged) * received["lost"] + xp.stack(charged),
            x=xp.concat([self._learner(each, state.agents, t + 1) for each in z.values()]),
        )

    def largest_estimate(self, arms: int, rounds: float) -> float:
        """Return T K / γ_T, which m = ∞ can reach."""
        return rounds * largest_importance_weighted(self.exploration, arms, rounds)

    def _weights(self, state: SeveralMemories, t: Array) -> list[Array]:
        """Return π(m) exp(-ζ L(m)) of each memory, up to a factor: `[*batch]`."""
        by_loss = exponential_weights(LossEstimates(state.lost, state.agents), _WEIGHING, t)
        other = (1.0 - self.forever) / (len(MEMORIES) - 1)
        return [
            (self.forever if math.isinf(memory) else other) * by_loss[place]
            for place, memory in enumerate(MEMORIES.values())
        ]

    def _learner(self, z: Array, agents: Array, t: Array) -> Array:
        """Return x^m ∝ exp(-η z^m), with the rate at z^m."""
        return exponential_weights(LossEstimates(z, agents), self.learning_rate, t)


def _sum(terms: list[Array]) -> Array:
    return functools.reduce(operator.add, terms)
