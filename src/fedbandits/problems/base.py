"""The contract of problems: an adversary, as a pure function of the round unless it is adaptive."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.common.describe import describe

Check = Literal["never", "before", "during"]

RoundKey: TypeAlias = tuple[Array, ...]
"""The key of a round: two words, and numbers that all agents share."""


class Problem(ABC):
    """Losses in [0, 1] for every round, agent and arm, fixed in advance.

    A subclass is a frozen dataclass. `agents`, `arms` and `horizon` are fields with the metadata
    `{"static": True}`; arrays and seeds are traced, so that another seed compiles nothing.

    Attributes:
        agents: number of agents, N.
        arms: number of arms, K.
        horizon: number of rounds, T, at most 2³¹ - 2.
    """

    agents: int
    arms: int
    horizon: int

    agent_names: ClassVar[tuple[str, ...] | None] = None
    arm_names: ClassVar[tuple[str, ...] | None] = None
    """Names of the agents and arms, if they have any."""

    dates: ClassVar[np.ndarray[Any, Any] | None] = None
    """The date of each round, `[T]` of datetime64, if rounds have dates."""

    filled: ClassVar[float] = 0.0
    """The share of losses that were missing in the data and filled."""

    actions: ClassVar[Array | None] = None
    """The arms as vectors, `[K, d]`, where losses are linear in them."""

    traced: ClassVar[bool] = True
    """True if JAX can trace `losses`; otherwise the engine calls `block` on the host."""

    binary: ClassVar[bool] = False
    """True if every loss is 0 or 1, so that a byte holds it."""

    pointwise: ClassVar[bool] = False
    """True if `loss_with` computes single losses."""

    constant: ClassVar[bool] = False
    """True if losses may be the same in every round; otherwise such losses are rejected."""

    adaptive: ClassVar[bool] = False
    """True if losses depend on the arms played before: see `problems.adaptive.Adaptive`."""

    @property
    def check(self) -> Check:
        """When losses are checked: `before` the run, `during` it, or `never`.

        `never` is for losses in [0, 1] by construction.
        """
        return "during"

    @property
    def loss_seed(self) -> int | None:
        """The seed that draws the losses; None where they are stored or computed."""
        return None

    def redraw(self, seed: int) -> Problem:  # noqa: ARG002
        """Return the same instance with losses drawn again; itself if they are not drawn."""
        return self

    @abstractmethod
    def losses(self, t: Array) -> Array:
        """Return ℓ_t^v(i), the losses of round t = 1, ..., T: `[N, K]`."""

    def key_of(self, t: Array) -> RoundKey:
        """Return the key of round t, if the problem is `pointwise`."""
        raise NotImplementedError(f"{type(self).__name__} makes the losses of a round at once")

    def loss_with(self, key: RoundKey, agent: Array, arm: Array) -> Array:
        """Return ℓ_t^v(i) of these agents and arms, number by number, if `pointwise`.

        Args:
            key: of the round, from `key_of`.
            agent: whole numbers, of any shape.
            arm: likewise, of the same shape.
        """
        raise NotImplementedError(f"{type(self).__name__} makes the losses of a round at once")

    @property
    def half_of_arms(self) -> int:
        """⌈K/2⌉."""
        return (self.arms + 1) // 2

    def two_losses_with(self, key: RoundKey, agent: Array, arm: Array) -> tuple[Array, Array]:
        """Return the losses of arms i < ⌈K/2⌉ and of arms i + ⌈K/2⌉.

        If K is odd, the last arm has no second arm, and the second value is meaningless.
        """
        other = (arm + self.half_of_arms).clip(max=self.arms - 1)
        return self.loss_with(key, agent, arm), self.loss_with(key, agent, other)

    def block(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Return rounds `first` to `last`, inclusive, on the host: `[last - first + 1, N, K]`."""
        if not self.traced:
            return np.stack([np.asarray(self.losses(t)) for t in range(first, last + 1)])
        import jax

        rounds = np.arange(first, last + 1, dtype=np.int32)
        return np.asarray(jax.jit(jax.vmap(self.losses))(rounds))

    def cell(self, t: int, v: int, i: int) -> str:
        """Return the name of the loss of round t, agent v and arm i, for errors."""
        agent = self.agent_names[v] if self.agent_names else v
        arm = self.arm_names[i] if self.arm_names else i
        return f"the loss at round {t}, agent {agent}, arm {arm}"

    def out_of_range(self, loss: float) -> str:
        """Return the end of the error about a loss outside [0, 1]: its value and the fix."""
        if np.isnan(loss):
            return "nan, not a number in [0, 1]"
        return (
            f"{loss:g}, not in [0, 1]. For rewards or losses in another range use "
            "fb.problems.scaled(problem, low, high)"
        )

    @property
    def title(self) -> str:
        """Its kind and sizes, and the share of losses that were filled."""
        filled = f", {checks.percent(self.filled)} of losses filled" if self.filled else ""
        return (
            f"{type(self).__name__}({self.horizon} rounds, {self.agents} agents, {self.arms} arms"
            f"{filled})"
        )

    def __repr__(self) -> str:
        return self.title

    def describe(self) -> dict[str, Any]:
        """Return the problem as plain data."""
        description: dict[str, Any] = describe(self)
        return description


static = {"static": True}
"""Metadata of fields that JAX must not trace."""


@dataclass(frozen=True, eq=False, repr=False)
class Sized(Problem):
    """A problem with its sizes as static fields."""

    agents: int = field(metadata=static)
    arms: int = field(metadata=static)
    horizon: int = field(metadata=static)


class Seeded(Problem):
    """Losses that a seed draws: the base of problems with a field `seed`.

    Attributes:
        seed: of the losses alone. Other parts of an instance, such as its means, are separate
            fields.
    """

    seed: Array

    @property
    def loss_seed(self) -> int:
        """The seed that draws the losses."""
        return int(self.seed)

    def redraw(self, seed: int) -> Self:
        """Return the same instance with losses drawn again.

        Example:
            >>> import fedbandits as fb
            >>> problem = fb.problems.switching(agents=3, arms=5, horizon=100, seed=1)
            >>> other = problem.redraw(2)
            >>> other.loss_seed, bool((other.best_arms == problem.best_arms).all())
            (2, True)
        """
        # Of the same type, so that nothing is compiled again.
        kind = int if isinstance(self.seed, int) else np.uint32
        opened: Any = self  # a dataclass, as every problem is
        redrawn: Self = dataclasses.replace(opened, seed=kind(seed))
        return redrawn


_BYTES = 16
"""Of an agent's arm while a round is played, at least: loss, state, distribution, new state."""


def check_sizes(agents: Any, arms: Any, horizon: Any) -> tuple[int, int, int]:
    """Return N >= 1, K >= 2 and T >= 1; reject sizes that cannot be counted or held."""
    sizes = (
        checks.whole(agents, "agents", least=1, most=checks.INT32),
        checks.whole(arms, "arms", least=2, most=checks.INT32),
        checks.whole(horizon, "horizon", least=1, most=checks.ROUNDS),
    )
    checks.fits(_BYTES * sizes[0] * sizes[1], f"{sizes[0]:,} agents with {sizes[1]:,} arms")
    return sizes


def check_losses(losses: np.ndarray[Any, Any], first: int, problem: Problem) -> None:
    """Refuse losses outside [0, 1] or NaN, naming round, agent and arm of the first.

    Args:
        losses: of consecutive rounds, `[C, N, K]`.
        first: the round of their first row.
        problem: where they come from.
    """
    bad = ~((losses >= 0) & (losses <= 1))  # NaN fails both
    if bad.any():
        row, v, i = (int(index) for index in np.argwhere(bad)[0])
        raise ValueError(
            f"{problem.title}: {problem.cell(first + row, v, i)} is "
            f"{problem.out_of_range(float(losses[row, v, i]))}"
        )


def check_shape(shape: tuple[int, ...], problem: Problem) -> None:
    """Refuse losses of one round that are not `[N, K]`."""
    if tuple(shape) != (problem.agents, problem.arms):
        raise ValueError(
            f"{problem.title}: the losses of a round have shape {tuple(shape)}; expected "
            f"(agents, arms) = ({problem.agents}, {problem.arms})"
        )


def loss_seeds(problem: Problem, draws: int) -> tuple[int, ...]:
    """Return a seed for each draw of the losses: the problem's own, and others made from it.

    Example:
        >>> import fedbandits as fb
        >>> loss_seeds(fb.problems.activated_bernoulli(4, 3, 100, seed=7), 3)
        (7, 1009178997, 4255937140)
    """
    first = problem.loss_seed
    if first is None:
        raise ValueError(
            f"the losses of {problem.title} are not drawn by a seed, so there is one draw of them "
            "alone; leave draws out, or give runs, which draw the agents' randomness again. A "
            "problem of your own that has a seed derives from fedbandits.problems.base.Seeded, or "
            "says `loss_seed` and `redraw`"
        )
    # Words that are the same are rare; some more are always enough.
    words = np.random.SeedSequence([first, 2]).generate_state(draws + 8)
    return tuple(dict.fromkeys([first, *(int(word) for word in words)]))[:draws]


@dataclass(frozen=True, eq=False, repr=False)
class Inside(Sized):
    """A problem with an inner problem, whose names, dates and seed it has.

    Attributes:
        problem: the inner problem.
    """

    problem: Problem

    @property
    def agent_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.agent_names

    @property
    def arm_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.arm_names

    @property
    def dates(self) -> np.ndarray[Any, Any] | None:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.dates

    @property
    def filled(self) -> float:  # type: ignore[override]
        """The share of filled losses of the inner problem."""
        return self.problem.filled

    @property
    def loss_seed(self) -> int | None:
        """That of the inner problem."""
        return self.problem.loss_seed

    def redraw(self, seed: int) -> Self:
        """Return the problem with the inner problem drawn again, if it is drawn."""
        inside = self.problem.redraw(seed)
        return self if inside is self.problem else replace(self, problem=inside)

    def cell(self, t: int, v: int, i: int) -> str:
        """Return the name that the inner problem has for a cell."""
        return self.problem.cell(t, v, i)
