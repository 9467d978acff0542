"""Learning and exploration rates: η_t and γ_t of the paper, as functions of the round and state.

A rate is called as `rate(t, state)` with the round t = 1, 2, ... and the state of the algorithm,
which has `state.z` (`[K, ...]`) and `state.agents` (N). Parameters are traced, so a sweep over them
is one compiled program.

Your own schedule is a function of (t, state), or a frozen dataclass that is called like one. The
numbers of a dataclass are traced too:

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
from fedbandits.common.checks import nonnegative
from fedbandits.common.describe import Fresh

__all__ = ["Schedule", "anytime", "constant", "mixing_aware", "power", "small_loss"]


def __dir__() -> list[str]:
    return __all__


_SMALLEST = 1e-9
"""Replaces 0 where a negative power is taken."""
_SLOW = 6.0
"""Weight of slow gossip in `MixingAware`, from measurements: docs/understand/learning-rate.md."""


class RateState(Protocol):
    """The part of an algorithm's state that a rate may read."""

    @property
    def z(self) -> Array:
        """Cumulative loss estimates, `[K, ...]`."""

    @property
    def agents(self) -> Array:
        """Number of agents in the network, N."""


class Schedule(Protocol):
    """A rate over time."""

    def __call__(self, t: Array, state: RateState) -> Array:
        """Return the rate of round t: a scalar, or `[...]` for one rate per agent."""


class _Rate:
    """A rate with parameters that are finite numbers >= 0; its repr is the call that makes it."""

    def __post_init__(self) -> None:
        for name in _parameters(self):
            place = f"{name} of {name_of(self)}"
            object.__setattr__(self, name, nonnegative(getattr(self, name), place))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in _parameters(self))
        return f"{name_of(self)}({values})"


def _parameters(rate: Any) -> list[str]:
    return [each.name for each in fields(rate) if each.init]


@dataclass(frozen=True, repr=False)
class Constant(_Rate):
    """The rate `value` in every round.

    Example:
        >>> constant(0.1)
        constant(value=0.1)
    """

    value: float

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """Return η_t = value."""
        return self.value


@dataclass(frozen=True, repr=False)
class Power(_Rate):
    """The rate c · t^(-a); `power(0.01, 1/3)` is the exploration of the paper's figures.

    Example:
        >>> power(0.01, 1 / 3)(8, None)
        0.005
    """

    c: float
    a: float

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """Return γ_t = c · t^(-a)."""
        return self.c * t ** (-self.a)


@dataclass(frozen=True, repr=False)
class Anytime(_Rate):
    """The learning rate c · sqrt(ln K / ((K/N + 1) t)), which needs no horizon.

    Example:
        >>> anytime(0.5)
        anytime(c=0.5)
    """

    c: float = 1.0

    def __call__(self, t: Array, state: RateState) -> Array:
        """Return η_t = c · sqrt(ln K / ((K/N + 1) t))."""
        arms = state.z.shape[0]
        return self.c * (math.log(arms) / ((arms / state.agents + 1.0) * t)) ** 0.5


@dataclass(frozen=True, repr=False)
class SmallLoss(_Rate):
    """The learning rate c · sqrt(ln K / ((K/N + 1) (1/2 + min_i z(i)))), the default of Exp3.

    z(i) estimates the loss of arm i so far. The rate is high while the loss of some arm is small,
    and falls like 1/sqrt(t) if every arm keeps losing. It needs no horizon and no gap, and no
    further messages. It assumes that each agent has the mean of all estimates; `mixing_aware` does
    not. No bound is proved for it (docs/understand/learning-rate.md).

    Example:
        >>> small_loss()
        small_loss(c=2.0)
    """

    c: float = 2.0

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """Return η_t = c · sqrt(ln K / ((K/N + 1) (1/2 + min_i z_t(i)))), `[...]`."""
        return self.c * _small_loss(state, _best_loss(state))


@dataclass(frozen=True, repr=False)
class MixingAware(_Rate):
    """FedExp3's default: `small_loss(c)`, and at most c · (6 ln K / ((K - 1) S min_i z(i)))^(1/3).

    S is the scatter of the gossip (`fedbandits.gossip.scatter`), the distance that it leaves
    between the agents' estimates. Simulations and live federations compute it from the network
    before round 1; no message is sent. It is the small-loss rate for one agent, without a network,
    and in algorithms that do not set S. FedExp3 and the algorithms with this default set it.
    `python -m studies suite` compares it with the best constants. No bound is proved for it
    (docs/understand/learning-rate.md).

    Example:
        >>> mixing_aware()
        mixing_aware(c=2.0)
    """

    c: float = 2.0
    scatter: float | None = field(default=None, init=False, compare=False, metadata={"told": True})

    def knowing(self, scatter: float) -> Self:
        """Return the same rate for a gossip with this scatter."""
        made = copy(self)
        object.__setattr__(made, "scatter", float(scatter))
        return made

    def __call__(self, t: Array, state: RateState) -> Array:  # noqa: ARG002
        """Return c · min{(ln K/((K/N + 1) (1/2 + L)))^(1/2), (6 ln K/((K - 1) S L))^(1/3)}.

        L = min_i z_t(i), and S is the scatter; `[...]`.
        """
        best = _best_loss(state)
        rate = _small_loss(state, best)
        if self.scatter is None:
            return self.c * rate
        arms, xp = state.z.shape[0], state.z.__array_namespace__()
        # Before the best arm has lost, and for one agent, this bound is inactive.
        apart = xp.maximum((arms - 1) * self.scatter * best, _SMALLEST)
        # A cube root by logarithm takes a few instructions; a power is a call for each number.
        root = xp.exp(xp.log(_SLOW * math.log(arms) / apart) / 3)
        return self.c * xp.minimum(rate, root)


# What users write. The class names are part of result files and checkpoints.
constant, power, anytime = Constant, Power, Anytime
small_loss, mixing_aware = SmallLoss, MixingAware

REGISTRY: dict[str, Callable[..., Schedule]] = {
    "constant": constant,
    "power": power,
    "anytime": anytime,
    "small_loss": small_loss,
    "mixing_aware": mixing_aware,
}
"""The schedules that a configuration can name."""


def _best_loss(state: RateState) -> Array:
    """Return min_i z(i), `[...]`, at least 0: gossip with momentum may bring it below."""
    return state.z.__array_namespace__().maximum(over_arms("min", state.z), 0.0)


def _small_loss(state: RateState, best: Array) -> Array:
    """Return sqrt(ln K / ((K/N + 1) (1/2 + L))), `[...]`."""
    arms = state.z.shape[0]
    return (math.log(arms) / ((arms / state.agents + 1.0) * (0.5 + best))) ** 0.5


@dataclass(frozen=True, eq=False)
class Computed:
    """A rate given as a function `rate(t, state)`, compiled as it is."""

    function: Fresh = field(metadata={"static": True})

    def __call__(self, t: Array, state: RateState) -> Array:
        """Return η_t = function(t, state)."""
        return self.function(t, state)


def as_schedule(rate: float | Schedule, name: str) -> Schedule:
    """Return a schedule; a number is a constant rate, a function is called as `rate(t, state)`.

    Args:
        rate: the number, function or schedule.
        name: name of the parameter, for errors.

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
    if isinstance(given, type) and is_dataclass(given):
        kind = public_name(given.__name__)
        values = ", ".join(f"{key}=..." for key in inspect.signature(given).parameters)
        raise TypeError(f"{name} must be a schedule, and {kind} makes one: write {kind}({values})")
    traced = is_dataclass(given) and callable(given)
    if not traced and not isinstance(given, FunctionType | partial):
        raise TypeError(
            f"{name} must be a number, a schedule such as fb.schedules.power(0.01, 1 / 3), or a "
            f"function of (t, state), not {rate!r}. A schedule of your own:\n{_OWN}"
        )
    _check_signature(given, name)
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


def _check_signature(rate: Callable[..., Any], name: str) -> None:
    """Reject rates that cannot be called as rate(t, state)."""
    signature = inspect.signature(rate)
    try:
        signature.bind("t", "state")
    except TypeError:
        called = getattr(rate, "__qualname__", type(rate).__qualname__)
        raise TypeError(
            f"{name} is called as rate(t, state), but {called} takes "
            f"({', '.join(signature.parameters)}); write lambda t, state: ..., or a schedule of "
            f"your own, whose numbers can be swept without compiling again:\n{_OWN}"
        ) from None


def name_of(schedule: Any) -> str:
    """Return the name that configurations have for a schedule, or for a class name.

    Example:
        >>> name_of(small_loss()), name_of("SmallLoss")
        ('small_loss', 'small_loss')
    """
    kind = schedule if isinstance(schedule, str) else type(schedule).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def public_name(kind: str) -> str:
    """Return the name that users write for a class of schedules; their own classes keep theirs.

    Example:
        >>> public_name("SmallLoss"), public_name("Decaying")
        ('small_loss', 'Decaying')
    """
    name = name_of(kind)
    return name if name in REGISTRY else kind
