"""The algorithm contract: what one agent does, as four pure functions over an explicit state.

The same lines serve one live agent on NumPy (`[K]`), all agents (`[K, N]`) and all runs
(`[K, R, N]`) under JAX: no Python branching on array values, no in-place writes, array functions
taken from the array's own namespace. Arms are the first axis everywhere.

Parameters are fields of a frozen dataclass. The engine traces them, so changing a learning rate
compiles nothing; mark a field that must stay a Python value with
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
    """One named part of a message: what it is, and how it is combined on the way.

    Attributes:
        kind: `estimate` (computed from losses), `count` (how often an arm was played) or `raw`
            (an arm or a loss as it was). A declaration of what leaves, not a privacy guarantee:
            neighbours can reconstruct arms and losses from estimates.
        combine: `average` by the gossip matrix, `Σ_u W_uv x^u`; `maximum` over the agent and its
            neighbours in the network; or `flood`, passed on from agent to agent: what arrives in
            round t is the sum of what everyone within `hops` hops, the agent included, sent in
            round t - hops + 1, which is the first round it can have come from that far.
        one_hot: at most one entry is not zero, so that its number and value are all that is sent.
        attracts: which values make others play an arm: low ones, as losses do, or high ones. Who
            lies about an arm must know.
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
    """What every agent is told before round 1; nothing of the losses.

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
    """What one agent does in a round: play from a distribution, send, receive, learn.

    In round t the agent plays an arm from `distribution(state, t)`, sends `message(state)` to its
    neighbours, and moves on to `update(...)`. Messages are those of the round's start, so what an
    agent learns in a round reaches a neighbour one round later (Definition 1 of the paper).
    """

    feedback: ClassVar[Feedback] = "bandit"
    """`bandit`: the agent sees the loss of its arm. `full`: the losses of all arms."""

    leaves: ClassVar[Mapping[str, Leaf]] = {}
    """What leaves the agent, by name. Empty: nothing does."""

    tunable: ClassVar[Mapping[str, Tunable]] = {}
    """The traced fields that can be tuned, and how they are searched. A budget is shared among them
    in this order."""

    theorem: ClassVar[str | None] = None
    """The upper bound that speaks of it, as `theory.theorems` calls it; None where none does."""

    hops: int = 1
    """How far a leaf is flooded, where one is; a field that is static to JAX."""

    common_round: ClassVar[str | None] = None
    """Why agents need a round in common, and cannot live apart; None where they need none."""

    sleeps: ClassVar[bool] = False
    """Whether some arms may be absent in a round; `charge_absent` says what is learnt of them."""

    noised: ClassVar[bool] = False
    """Whether it adds noise of its own to what it knows: `noise_due` and `disturb` say how."""

    guarantee: ClassVar[str | None] = None
    """What differential privacy it has, with ε (`{epsilon}`, a field), unit and adversary; None: no
    guarantee."""

    @property
    def arms_given(self) -> int | None:
        """K, where the algorithm was told its arms; None if it plays any number of them."""
        return None

    @property
    def rounds_before_learning(self) -> int:
        """How many rounds are played before anything seen changes what is played."""
        return 0

    def set_up(self, setting: Setting) -> Self:  # noqa: ARG002
        """The algorithm with what it needs to know of the network and the arms filled in.

        Called once before round 1. What was given by hand stays as it is.
        """
        return self

    def with_values(self, **values: Any) -> Self:
        """A copy with other values of some fields, also of those its constructor does not take."""
        made = copy(self)
        for name, value in values.items():
            if not hasattr(self, name):
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            object.__setattr__(made, name, value)
        return made

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

    def rounds_before_gossip(self, arms: int) -> int:  # noqa: ARG002
        """How many first rounds overwrite what was received, so that no average may move yet."""
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
        """The state of an agent that has heard from neighbours and not played since.

        A leaf is by default the field of the state that bears its name.
        """
        return state._replace(**received) if received else state  # type: ignore[attr-defined]

    def charge_absent(self, state: S, absent: Array, loss: Array) -> S:
        """The state after a round in which some arms could not be played, where `sleeps`.

        Args:
            state: after `update`, whose p was restricted to the arms that were there.
            absent: which arms were not, `[K]` of booleans.
            loss: of the arm played.
        """
        raise NotImplementedError(f"{type(self).__name__} plays all arms or none")

    def noise_due(self, t: Array) -> Array:
        """Whether `disturb` follows `update` in round t, where `noised`."""
        raise NotImplementedError(f"{type(self).__name__} adds no noise")

    def disturb(self, state: S, uniforms: Array, t: Array) -> S:
        """The state with its noise, after `update` of a round in which it is due.

        Only what was disturbed may be played from or sent.

        Args:
            state: after `update`.
            uniforms: fresh ones in (0, 1), `[K, *batch]`.
            t: the round.
        """
        raise NotImplementedError(f"{type(self).__name__} adds no noise")

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
