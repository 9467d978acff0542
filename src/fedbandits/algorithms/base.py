"""The contract of algorithms: one agent as four pure functions of an explicit state.

The same code serves one live agent on NumPy (`[K]`), and all agents (`[K, N]`) and runs
(`[K, R, N]`) under JAX. Therefore it has no Python branches on array values and no in-place writes,
and it takes array functions from the namespace of the array. Arms are always the first axis.

Parameters are fields of a frozen dataclass. The engine traces them, so a change of the learning
rate compiles nothing. Mark a field that must stay a Python value with
`field(metadata={"static": True})`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
)

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common import checks

from .tunable import Tunable

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip

Kind = Literal["estimate", "count", "raw"]
Combine = Literal["average", "maximum", "flood"]
Feedback = Literal["bandit", "full"]

S = TypeVar("S")


@dataclass(frozen=True)
class Leaf:
    """One named part of a message: what it contains, and how neighbours combine it.

    Attributes:
        kind: `estimate` (computed from losses), `count` (how often an arm was played) or `raw`
            (an arm or a loss itself). It declares what leaves the agent and is no privacy
            guarantee: neighbours can reconstruct arms and losses from estimates.
        combine: `average` by the gossip matrix, `Σ_u W_uv x^u`; `maximum` over the agent and its
            neighbours in the network; or `flood`, passed on from agent to agent: in round t an
            agent receives the sum over all agents within `hops` hops, itself included, of the
            values sent in round t - hops + 1. That is the latest round that can reach it from the
            agents `hops` hops away.
        one_hot: at most one entry is not zero, so only its index and value are sent.
        attracts: which values make neighbours play an arm: low ones, as losses do, or high ones.
            Attacks need it.
    """

    kind: Kind
    combine: Combine
    one_hot: bool = False
    attracts: Literal["low", "high"] = "low"

    def __post_init__(self) -> None:
        for name, valid in (("kind", Kind), ("combine", Combine)):
            if getattr(self, name) not in get_args(valid):
                raise ValueError(
                    f"a leaf's {name} must be one of {', '.join(get_args(valid))}, not "
                    f"{getattr(self, name)!r}"
                )


class Setting(NamedTuple):
    """Settings that every agent receives before round 1; the losses are not among them.

    Attributes:
        arms: number of arms, K.
        agents: number of agents in the network, N.
        gossip: the network and its matrix; None where there is none.
        actions: the arms as vectors, `[K, d]`, where the problem has them.
    """

    arms: int
    agents: int
    gossip: Gossip | None = None
    actions: Array | None = None


class Algorithm(ABC, Generic[S]):
    """The behaviour of one agent: play from a distribution, send, receive, learn.

    In round t the agent plays an arm from `distribution(state, t)`, sends `message(state)` to its
    neighbours, and computes its next state with `update(...)`. It sends the state of the start of
    the round, so its observation reaches a neighbour one round later (Definition 1 of the paper).
    """

    feedback: ClassVar[Feedback] = "bandit"
    """`bandit`: the agent sees the loss of its arm. `full`: the losses of all arms."""

    leaves: ClassVar[Mapping[str, Leaf]] = {}
    """The parts of a message, by name; empty if the agent sends nothing."""

    tunable: ClassVar[Mapping[str, Tunable]] = {}
    """The traced fields that can be tuned, with their search ranges. They share a budget in this
    order."""

    theorem: ClassVar[str | None] = None
    """The name in `theory.theorems` of the upper bound that applies; None if there is none."""

    hops: int = 1
    """The distance over which leaves are flooded; a static field."""

    common_round: ClassVar[str | None] = None
    """The reason why agents need common rounds and cannot run live; None if they can."""

    sleeps: ClassVar[bool] = False
    """Whether arms may be absent in a round; `charge_absent` then updates their estimates."""

    noised: ClassVar[bool] = False
    """Whether it adds its own noise, in the rounds of `noise_due` by `disturb`."""

    guarantee: ClassVar[str | None] = None
    """Its differential privacy with ε (`{epsilon}`, a field), unit and adversary; None if it has no
    guarantee."""

    def _assign(self, **values: Any) -> None:
        """Set fields of this frozen dataclass; for constructors."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def arms_given(self) -> int | None:
        """K, if its parameters fix the arms; None if it plays any number of arms."""
        return None

    @property
    def rounds_before_learning(self) -> int:
        """The number of rounds before an observation changes the distribution."""
        return 0

    def set_up(self, setting: Setting) -> Self:  # noqa: ARG002
        """Return the algorithm with parameters that depend on the network and the arms filled in.

        It is called once before round 1. Parameters that the user gave stay as they are.
        """
        return self

    def with_values(self, **values: Any) -> Self:
        """Return a copy with other values of some fields, also of fields set by `set_up`."""
        made = copy(self)
        for name in values:
            if not hasattr(self, name):
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
        made._assign(**values)
        return made

    @abstractmethod
    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> S:
        """Return the state before round 1: a NamedTuple of NumPy arrays `[K, *batch]` or scalars.

        Args:
            arms: number of arms, K.
            agents: number of agents in the network, N.
            batch: axes after the arms: `()` for one agent, `(R, N)` in the engine.
            dtype: of the floating point arrays.
        """

    def rounds_before_gossip(self, arms: int) -> int:  # noqa: ARG002
        """Return the number of initial rounds that ignore received averages."""
        return 0

    def largest_estimate(self, arms: int, rounds: float) -> float:  # noqa: ARG002
        """Return a bound on what an agent alone can put into an entry of an averaged leaf.

        Live agents count no estimate of a neighbour for more than N times this bound.

        Args:
            arms: number of arms, K.
            rounds: number of rounds, T.

        Returns:
            The bound, which no losses in [0, 1] exceed; infinite if unknown.
        """
        return math.inf

    def hear(self, state: S, received: Mapping[str, Array]) -> S:
        """Return the state of an agent that has received messages and not played since.

        By default each leaf replaces the field of the state with its name.
        """
        return state._replace(**received) if received else state  # type: ignore[attr-defined]

    def charge_absent(self, state: S, absent: Array, loss: Array) -> S:
        """Return the state after a round with absent arms; needed if `sleeps`.

        Args:
            state: after `update`, whose p was restricted to the present arms.
            absent: which arms were absent, `[K]` of booleans.
            loss: of the arm played.
        """
        raise NotImplementedError(f"{type(self).__name__} plays all arms or none")

    def noise_due(self, t: Array) -> Array:
        """Return whether `disturb` follows `update` in round t; needed if `noised`."""
        raise NotImplementedError(f"{type(self).__name__} adds no noise")

    def disturb(self, state: S, uniforms: Array, t: Array) -> S:
        """Return the state with noise added, after `update` of a round in which noise is due.

        Distributions and messages may depend on disturbed values only.

        Args:
            state: after `update`.
            uniforms: independent numbers in (0, 1), `[K, *batch]`.
            t: the round.
        """
        raise NotImplementedError(f"{type(self).__name__} adds no noise")

    @abstractmethod
    def distribution(self, state: S, t: Array) -> Array:
        """Return p_t, from which the agent draws its arm in round t = 1, 2, ...: `[K, *batch]`."""

    def message(self, state: S) -> dict[str, Array]:
        """Return all that leaves the agent: an array `[M, *batch]`, any M, for each leaf.

        By default each leaf is the field of the state with its name.
        """
        return {name: getattr(state, name) for name in self.leaves}

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
        """Return the state before round t + 1.

        Args:
            state: the state before round t.
            received: the combined messages, with names and shapes as sent.
            action: the arms played, counted from 0, `[*batch]`.
            feedback: the losses of the arms played, `[*batch]`; of all arms, `[K, *batch]`, where
                `self.feedback` is `full`.
            p: the result of `distribution(state, t)`, `[K, *batch]`.
            t: the round.
        """


AnyAlgorithm = Algorithm[Any]


def check_class(cls: type[AnyAlgorithm]) -> None:
    """Reject a class that is not a frozen dataclass, or whose `leaves` are not leaves."""
    checks.frozen_dataclass(cls)
    name, example = cls.__name__, '{"z": fb.Leaf("estimate", "average")}'
    if not isinstance(cls.leaves, Mapping):
        raise TypeError(
            f"{name}.leaves must be a mapping from names to leaves, not {cls.leaves!r}; write "
            f"{example}"
        )
    for leaf, declared in cls.leaves.items():
        if not isinstance(declared, Leaf):
            raise TypeError(
                f"{name}.leaves[{leaf!r}] must be a Leaf, not {declared!r}; write leaves = "
                f"{example}"
            )
        if declared.one_hot and declared.combine != "flood":
            raise ValueError(
                f"{name}.leaves[{leaf!r}] is one_hot, but its combine is {declared.combine!r}: "
                "only flooded leaves arrive unchanged. Remove one_hot, or combine by flood"
            )
