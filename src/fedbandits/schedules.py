"""Learning and exploration rates: η_t and γ_t of the paper, as functions of the round and state.

A rate is called as `rate(t, state)` with the round t = 1, 2, ... and the algorithm's state, which
offers `state.z` (`[K, ...]`) and `state.agents` (N). Parameters are traced, so a sweep over them is
one compiled program.

A schedule of one's own is a function of (t, state), or a frozen dataclass that is called like one
and whose numbers are traced too:

    @dataclass(frozen=True)
    class Decaying:
        c: float

        def __call__(self, t, state):
            return self.c / t**0.5
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from types import FunctionType
from typing import Any, Protocol, Self, cast

from fedbandits.arrays import Array, over_arms
from fedbandits.common.checks import explained, nonnegative
from fedbandits.common.describe import Fresh

_NOTHING = 1e-9
"""In place of 0, where a power below 0 is taken."""
_SLOW = 6.0
"""What was measured to weigh learning soon against staying calm while news is slow."""


class RateState(Protocol):
    """What a rate may read of an algorithm's state."""

    @property
    def z(self) -> Array:
        """Cumulative loss estimates, `[K, ...]`."""

    @property
    def agents(self) -> Array:
        """The number of agents in the network, N."""


class Schedule(Protocol):
    """A rate over time."""

    def __call__(self, t: Array, state: RateState) -> Array:
        """The rate of round t: a scalar, or `[...]` for one rate per agent."""


class _Named:
    """Looks like the call that makes it."""

    def __repr__(self) -> str:
        given = [each.name for each in fields(self) if each.init]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in given)
        return f"{name_of(self)}({values})"


@dataclass(frozen=True, repr=False)
class Constant(_Named):
    """The same rate in every round."""

    value: float

    def __post_init__(self) -> None:
        _nonnegative(self, "value")

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """η_t = value."""
        return self.value


@dataclass(frozen=True, repr=False)
class Power(_Named):
    """A rate that decays as a power of the round."""

    c: float
    a: float

    def __post_init__(self) -> None:
        _nonnegative(self, "c", "a")

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """γ_t = c · t^(-a)."""
        return self.c * t ** (-self.a)


@dataclass(frozen=True, repr=False)
class Anytime(_Named):
    """A learning rate that needs no horizon."""

    c: float

    def __post_init__(self) -> None:
        _nonnegative(self, "c")

    def __call__(self, t: Array, state: RateState) -> Array:
        """η_t = c · sqrt(ln K / ((K/N + 1) t))."""
        arms = state.z.shape[0]
        return self.c * (math.log(arms) / ((arms / state.agents + 1.0) * t)) ** 0.5


@dataclass(frozen=True, repr=False)
class SmallLoss(_Named):
    """A learning rate that falls with the loss of the best arm, as each agent estimates it."""

    c: float = 2.0

    def __post_init__(self) -> None:
        _nonnegative(self, "c")

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """η_t = c · sqrt(ln K / ((K/N + 1) (1/2 + min_i z_t(i)))), `[...]`."""
        return self.c * _small_loss(state, _best_loss(state))


@dataclass(frozen=True, repr=False)
class MixingAware(_Named):
    """The small-loss rate, held down where gossip is slow and agents' estimates stay apart.

    Attributes:
        c: a factor.
        scatter: of the gossip (`fedbandits.gossip.scatter`), which set-up tells; None where nobody
            did, and the rate is the small-loss rate.
    """

    c: float = 2.0
    scatter: float | None = field(default=None, init=False, compare=False, metadata={"told": True})

    def __post_init__(self) -> None:
        _nonnegative(self, "c")

    def knowing(self, scatter: float) -> Self:
        """The same rate on a network whose gossip leaves sums apart by so much."""
        told = copy(self)
        object.__setattr__(told, "scatter", float(scatter))
        return told

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """η_t = c · min{(ln K/((K/N + 1) (1/2 + L)))^(1/2), (6 ln K/((K - 1) S L))^(1/3)}.

        L = min_i z_t(i), and S is the scatter; `[...]`.
        """
        best = _best_loss(state)
        rate = _small_loss(state, best)
        if self.scatter is None:
            return self.c * rate
        arms, xp = state.z.shape[0], state.z.__array_namespace__()
        # Before the best arm has lost, and for an agent alone, nothing holds the rate down.
        apart = xp.maximum((arms - 1) * self.scatter * best, _NOTHING)
        # A cube root by logarithm: a few instructions, where a power is a call for each number.
        root = xp.exp(xp.log(_SLOW * math.log(arms) / apart) / 3)
        return self.c * xp.minimum(rate, root)


def _best_loss(state: RateState) -> Array:
    """min_i z(i), `[...]`, which gossip with momentum may bring below 0."""
    return state.z.__array_namespace__().maximum(over_arms("min", state.z), 0.0)


def _small_loss(state: RateState, best: Array) -> Array:
    """sqrt(ln K / ((K/N + 1) (1/2 + L))), `[...]`."""
    arms = state.z.shape[0]
    return (math.log(arms) / ((arms / state.agents + 1.0) * (0.5 + best))) ** 0.5


@dataclass(frozen=True, eq=False)
class Computed:
    """A rate given as a function `rate(t, state)`, compiled as it stands."""

    function: Fresh = field(metadata={"static": True})

    def __call__(self, t: Array, state: RateState) -> Array:
        """η_t = function(t, state)."""
        return self.function(t, state)


@explained
def constant(value: float) -> Constant:
    """The rate `value` in every round.

    Example:
        >>> constant(0.1)
        constant(value=0.1)
    """
    return Constant(value)


@explained
def power(c: float, a: float) -> Power:
    """The rate c · t^(-a); `power(0.01, 1/3)` is the exploration behind the paper's figures.

    Example:
        >>> power(0.01, 1 / 3)(8, None)
        0.005
    """
    return Power(c, a)


@explained
def anytime(c: float = 1.0) -> Anytime:
    """The learning rate c · sqrt(ln K / ((K/N + 1) t)): no horizon is needed.

    Example:
        >>> anytime(0.5)
        anytime(c=0.5)
    """
    return Anytime(c)


@explained
def small_loss(c: float = SmallLoss.c) -> SmallLoss:
    """The learning rate c · sqrt(ln K / ((K/N + 1) (1/2 + min_i z(i)))), the default of Exp3.

    z(i) estimates the loss of arm i so far, so the rate is high while some arm has lost little,
    and falls like 1/sqrt(t) where every arm keeps losing. No horizon and no gap is needed, and
    nothing more is sent. It takes the agents to know the mean of their estimates; `mixing_aware`
    does not. No bound is proved for it (docs/understand/learning-rate.md).

    Example:
        >>> small_loss()
        small_loss(c=2.0)
    """
    return SmallLoss(c)


@explained
def mixing_aware(c: float = MixingAware.c) -> MixingAware:
    """FedExp3's default: `small_loss(c)`, and at most c · (6 ln K / ((K - 1) S min_i z(i)))^(1/3).

    S is the scatter of the gossip (`fedbandits.gossip.scatter`): how far apart it leaves the
    agents' estimates. A simulation and a live federation work it out from the network before
    round 1; nothing is sent. Without a network, for an agent alone, and in algorithms that do not
    tell it (FedExp3 does, and those whose default it is), it is the small-loss rate.
    `python -m studies suite` compares it with the best constants; no bound is proved for it
    (docs/understand/learning-rate.md).

    Example:
        >>> mixing_aware()
        mixing_aware(c=2.0)
    """
    return MixingAware(c)


def as_schedule(rate: float | Schedule, name: str) -> Schedule:
    """A number stands for a constant rate, a function `rate(t, state)` for itself.

    Example:
        >>> as_schedule(0.1, "learning_rate")
        constant(value=0.1)
        >>> as_schedule(-1, "learning_rate")
        Traceback (most recent call last):
            ...
        ValueError: learning_rate must be a finite number >= 0, not -1
    """
    given: Any = rate
    if isinstance(given, numbers.Real):
        return Constant(nonnegative(given, name))
    makes = any(given is make for make in REGISTRY.values())
    if makes or (isinstance(given, type) and is_dataclass(given)):
        values = ", ".join(f"{key}=..." for key in inspect.signature(given).parameters)
        raise TypeError(
            f"{name} must be a schedule, and {given.__name__} makes one: write "
            f"{given.__name__}({values})"
        )
    traced = is_dataclass(given) and not isinstance(given, type) and callable(given)
    if not traced and not isinstance(given, FunctionType | partial):
        raise TypeError(
            f"{name} must be a number, a schedule such as fb.schedules.power(0.01, 1 / 3), or a "
            f"function of (t, state), not {rate!r}. A schedule of your own:\n{_OWN}"
        )
    _refuse_other_arguments(given, name)
    # The numbers of a dataclass are traced: a sweep over them compiles once.
    return cast(Schedule, given) if traced else Computed(Fresh(given))


_OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Decaying:
    c: float

    def __call__(self, t, state):
        return self.c / t**0.5
"""


def _refuse_other_arguments(rate: Callable[..., Any], name: str) -> None:
    """Refuse what cannot be called as rate(t, state), before the engine does."""
    signature = inspect.signature(rate)
    try:
        signature.bind("t", "state")
    except TypeError:
        called = getattr(rate, "__qualname__", type(rate).__qualname__)
        raise TypeError(
            f"{name} is called as rate(t, state), but {called} takes "
            f"({', '.join(signature.parameters)}); write lambda t, state: ..., or a schedule of "
            f"your own, whose numbers can be swept without compiling anew:\n{_OWN}"
        ) from None


def name_of(schedule: Any) -> str:
    """What a configuration calls a schedule, or a class of that name.

    Example:
        >>> name_of(small_loss()), name_of("SmallLoss")
        ('small_loss', 'small_loss')
    """
    kind = schedule if isinstance(schedule, str) else type(schedule).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def public_name(kind: str) -> str:
    """The call that makes a schedule of that class; another class by its own name.

    Example:
        >>> public_name("SmallLoss"), public_name("Decaying")
        ('small_loss', 'Decaying')
    """
    name = name_of(kind)
    return name if name in REGISTRY else kind


def _nonnegative(schedule: Any, *names: str) -> None:
    """Check the numbers of a schedule and keep them as floats."""
    for name in names:
        place = f"{name} of {name_of(schedule)}"
        object.__setattr__(schedule, name, nonnegative(getattr(schedule, name), place))


REGISTRY: dict[str, Callable[..., Schedule]] = {
    "constant": constant,
    "power": power,
    "anytime": anytime,
    "small_loss": small_loss,
    "mixing_aware": mixing_aware,
}
