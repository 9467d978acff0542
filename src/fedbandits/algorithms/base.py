"""The algorithm contract: what one agent does, as four pure functions over an explicit state.

The same lines serve one live agent on NumPy (`[K]`), all agents (`[K, N]`) and all runs
(`[K, R, N]`) under JAX: no Python branching on array values, no in-place writes, array functions
taken from the array's own namespace. Arms are the first axis everywhere.

Parameters are fields of a frozen dataclass. The engine traces them, so changing a learning rate
compiles nothing; mark a field that must stay a Python value with
`field(metadata={"static": True})`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array

Kind = Literal["estimate", "count", "raw"]
Combine = Literal["average", "maximum"]
Feedback = Literal["bandit", "full"]

S = TypeVar("S")


@dataclass(frozen=True)
class Leaf:
    """One named part of a message: what it is, and how it is combined on the way.

    Attributes:
        kind: `estimate` (computed from losses), `count` (how often an arm was played) or `raw`
            (an arm or a loss as it was). A declaration of what leaves, not a privacy guarantee:
            neighbours can reconstruct arms and losses from estimates.
        combine: `average` by the gossip matrix, `Σ_u W_uv x^u`; or `maximum` over the agent and
            its neighbours in the network.
    """

    kind: Kind
    combine: Combine


class Algorithm(ABC, Generic[S]):
    """What one agent does in a round: play from a distribution, send, receive, learn.

    In round t the agent plays an arm from `distribution(state, t)`, sends `message(state)` to its
    neighbours, and moves on to `update(...)`. Messages are those of the round's start, so what an
    agent learns in a round reaches a neighbour one round later (Definition 1 of the paper).
    """

    feedback: ClassVar[Feedback] = "bandit"
    """`bandit`: the agent sees the loss of its arm. `full`: the losses of all arms."""

    leaves: ClassVar[Mapping[str, Leaf]] = {}
    """What leaves the agent, by name. Empty: nothing does."""

    @abstractmethod
    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> S:
        """The state before round 1: a NamedTuple of NumPy arrays `[K, *batch]` or scalars.

        Args:
            arms: number of arms, K.
            agents: number of agents in the network, N, which every agent knows.
            batch: axes beside the arms: `()` for one agent, `(R, N)` in the engine.
            dtype: of the floating point arrays.
        """

    @abstractmethod
    def distribution(self, state: S, t: Array) -> Array:
        """p_t, what the agent plays from in round t = 1, 2, ...: `[K, *batch]`."""

    def message(self, state: S) -> dict[str, Array]:  # noqa: ARG002
        """The only thing that leaves the agent: an array `[M, *batch]`, any M, for each leaf."""
        return {}

    @abstractmethod
    def update(
        self,
        state: S,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> S:
        """The state before round t + 1.

        Args:
            state: the state before round t.
            received: the combined messages, named and shaped as those sent.
            action: the arms played, counted from 0, `[*batch]`.
            feedback: the losses of the arms played, `[*batch]`; of all arms, `[K, *batch]`, where
                `self.feedback` is `full`.
            p: what `distribution(state, t)` gave, `[K, *batch]`.
            t: the round.
        """


AnyAlgorithm = Algorithm[Any]
