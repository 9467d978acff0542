"""TrackingFedExp3: FedExp3 that chooses how long to remember."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, taken
from fedbandits.common import checks
from fedbandits.schedules import MixingAware, Power, Schedule, SmallLoss, as_schedule

from .base import Algorithm, Leaf, Setting
from .exponential_weights import (
    LossEstimates,
    checked_exploration,
    explore,
    exponential_weights,
    importance_weighted,
    largest_importance_weighted,
    told,
)
from .tunable import EXPLORATION, LEARNING_RATE, Tunable

MEMORIES: Mapping[str, float] = {
    "z30": 30.0,
    "z100": 100.0,
    "z300": 300.0,
    "z1000": 1000.0,
    "z": math.inf,
}
"""In rounds, by the field of the state that forgets so."""

_WEIGHING = SmallLoss()
"""The rate at which memories are weighed: they are to it what arms are to FedExp3."""
_JUDGED, _JUDGED_PART = 300.0, 0.1
"""Memories are weighed by what they lost in about so many rounds, and in that part of all. Never
forgotten, it would take as long to change a mind as it was of one mind before; always forgotten as
soon, short memories would be tried again for ever, at a price in every round."""
_FOREVER = 0.95
"""π(∞). Equal weights follow changes a little faster, and cost much more where there are none
(docs/understand/moving.md)."""


class SeveralMemories(NamedTuple):
    """The state of an agent.

    Attributes:
        z30: loss estimates with a memory of 30 rounds, `[K, *batch]`.
        z100: with one of 100.
        z300: with one of 300.
        z1000: with one of 1000.
        z: of all rounds.
        lost: what each memory would have lost, as estimated, `[M, *batch]`.
        x: what each memory would play, as it was when the agent last learnt, one after the other,
            `[M K, *batch]`. Live agents hear more before they learn again; who is charged by that
            is not charged for the noise of its own last estimate, with which it played.
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


@dataclass(frozen=True)
class TrackingFedExp3(Algorithm[SeveralMemories]):
    """FedExp3 with five memories m side by side, weighed by what each would have lost.

    z_{t+1}^{v,m} = λ_m Σ_u W_uv z_t^{u,m} + g_t^v,  λ_m = 1 - 1/m,  m = 30, 100, 300, 1000, ∞,
    x_t^m ∝ exp(-η z_t^m), η being the rate that reads z_t^m,
    L_{t+1}^v(m) = (1 - 1/J_t) Σ_u W_uv L_t^u(m) + ⟨x_t^{v,m}, g_t^v⟩,  J_t = max(300, t/10),
    w_t(m) ∝ π(m) exp(-ζ L_t(m)),  ζ = 2 sqrt(ln 5 / ((5/N + 1) (1/2 + min_m L_t(m)))),
    p_t = (1 - γ_t) Σ_m w_t(m) x_t^m + γ_t / K.

    All memories learn from the same g_t = ℓ_t 1{a_t} / p_t, which is unbiased whoever of them had
    its way, so that ⟨x^m, g⟩ estimates what memory m would have lost. These sums are averaged like
    all else, and ζ is FedExp3's default with memories for arms. They are themselves forgotten, so
    that a world that begins or ceases to change is noticed. Before any loss counts, and wherever
    memories lose the same, π has its way: most of it is with remembering forever, the rest is
    shared equally.

    It sends 5 K + 5 numbers where FedExp3 sends K. No bound is known for it. It is for a best arm
    that changes; where none does, it pays for the choice.

    Args:
        learning_rate: η, a number or a schedule; `fb.schedules.mixing_aware()` by default.
        exploration: γ, a number in [0, 1] or a schedule (clipped at 1).
        forever: π(∞), the weight of remembering forever before any loss, above 0 and below 1. Less
            of it follows changes faster, and costs more where there are none.

    Example:
        >>> import fedbandits as fb
        >>> list(fb.TrackingFedExp3().leaves)
        ['z30', 'z100', 'z300', 'z1000', 'z', 'lost']

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, for FedExp3; Auer,
        Cesa-Bianchi, Freund and Schapire, The nonstochastic multiarmed bandit problem, 2002, for
        the weighing of advisers (Exp4).
    """

    learning_rate: Schedule
    exploration: Schedule
    forever: float

    leaves: ClassVar[Mapping[str, Leaf]] = dict.fromkeys(
        [*MEMORIES, "lost"], Leaf(kind="estimate", combine="average")
    )
    tunable: ClassVar[Mapping[str, Tunable]] = {
        "learning_rate": LEARNING_RATE,
        "exploration": EXPLORATION,
    }

    def __init__(
        self,
        learning_rate: float | Schedule = MixingAware(),  # noqa: B008 (frozen)
        exploration: float | Schedule = Power(0.01, 1 / 3),  # noqa: B008 (frozen)
        *,
        forever: float = _FOREVER,
    ) -> None:
        object.__setattr__(self, "learning_rate", as_schedule(learning_rate, "learning_rate"))
        object.__setattr__(self, "exploration", checked_exploration(exploration))
        object.__setattr__(self, "forever", _checked_weight(forever))

    def set_up(self, setting: Setting) -> Self:
        """The rate, told of the network where it reads it."""
        return replace(self, learning_rate=told(self.learning_rate, setting.gossip))

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> SeveralMemories:
        """Nothing is known, and memories weigh π."""
        zeros = np.zeros((arms, *batch), dtype)
        lost = np.zeros((len(MEMORIES), *batch), dtype)
        estimates = dict.fromkeys(MEMORIES, zeros)
        x = np.full((len(MEMORIES) * arms, *batch), 1.0 / arms, dtype)
        return SeveralMemories(**estimates, lost=lost, x=x, agents=np.asarray(agents, dtype))

    def distribution(self, state: SeveralMemories, t: Array) -> Array:
        """p_t = (1 - γ_t) Σ_m w_t^m x_t^m + γ_t / K."""
        weights = self._weights(state, t)
        parts = [
            weight * self._learner(getattr(state, name), state.agents, t)
            for weight, name in zip(weights, MEMORIES, strict=True)
        ]
        mixed = _sum(parts) / _sum(weights)
        return explore(mixed, self.exploration(t, state))

    def message(self, state: SeveralMemories) -> dict[str, Array]:
        """The estimates of every memory, and what each has lost."""
        return {name: getattr(state, name) for name in self.leaves}

    def update(
        self,
        state: SeveralMemories,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> SeveralMemories:
        """Every memory fades at its own pace and learns the same; each is charged its own loss."""
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
        """Return T K / γ_T, for the memory that forgets nothing."""
        return rounds * largest_importance_weighted(self.exploration, arms, rounds)

    def _weights(self, state: SeveralMemories, t: Array) -> list[Array]:
        """π(m) exp(-ζ L(m)) of each memory, up to a factor: `[*batch]`."""
        by_loss = exponential_weights(LossEstimates(state.lost, state.agents), _WEIGHING, t)
        other = (1.0 - self.forever) / (len(MEMORIES) - 1)
        return [
            (self.forever if math.isinf(memory) else other) * by_loss[place]
            for place, memory in enumerate(MEMORIES.values())
        ]

    def _learner(self, z: Array, agents: Array, t: Array) -> Array:
        """x^m ∝ exp(-η z^m), the rate reading the z of the same memory."""
        return exponential_weights(LossEstimates(z, agents), self.learning_rate, t)


def _sum(terms: list[Array]) -> Array:
    return functools.reduce(operator.add, terms)


def _checked_weight(forever: float) -> float:
    found = checks.number(forever, "forever")
    if not 0 < found < 1:
        raise ValueError(
            f"forever is the weight of remembering forever among the memories, above 0 and below "
            f"1, not {forever}; one memory alone is FedExp3(memory=...)"
        )
    return found
