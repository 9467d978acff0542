"""What can be tuned in an algorithm, found by the names of its fields, and a grid over it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.algorithms.base import Setting
from fedbandits.common import checks
from fedbandits.schedules import Constant, Power

KNOBS = ("learning_rate", "block", "exploration", "entropy_scale", "tsallis_scale")
"""The fields that are tuned. A budget is shared among those an algorithm has, in this order. The
scales are of 1/rates: FedFTRL's, which has two."""

RANGES = {
    "learning_rate": (0.003, 3.0),
    "exploration": (0.001, 0.3),
    "entropy_scale": (0.0001, 10.0),
    "tsallis_scale": (0.0001, 10.0),
}
"""Where constants are looked for; for exploration c of c · t^(-a), with the algorithm's own a."""

_BLOCKS = 8.0
"""Blocks are looked for from an eighth of the length that `set_up` chose to eight times of it."""

_FAVOUR = 2.0
"""So many times as many values of the learning rate as of each of the others, about."""


class Knob(NamedTuple):
    """One parameter and what is tried for it.

    Attributes:
        name: the field's name.
        numbers: what is tried, increasing.
        values: the same as the field takes it: numbers or schedules.
        limits: beyond these there is nothing to try.
    """

    name: str
    numbers: tuple[float, ...]
    values: tuple[Any, ...]
    limits: tuple[float, float]


class Edge(NamedTuple):
    """A parameter whose best value is the smallest or the largest tried: look further.

    Attributes:
        name: the parameter.
        value: its best value.
        side: `smallest` or `largest`.
        wider: a range that has this value in its middle.
    """

    name: str
    value: float
    side: str
    wider: tuple[float, float]


def grid(
    algorithm: AnyAlgorithm,
    setting: Setting,
    horizon: int,
    size: int,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> list[Knob]:
    """What is tried for each parameter: a full grid of at most `size`, evenly in the logarithm.

    Args:
        algorithm: whose parameters.
        setting: the network, from which blocks of no given length get one.
        horizon: T; no block is longer.
        size: the most combinations.
        ranges: other ranges than the default ones, by parameter.

    Example:
        >>> import fedbandits as fb
        >>> rates, exploration = grid(fb.FedExp3(), Setting(20, 36), 3000, 24)
        >>> rates.numbers
        (0.003, 0.00805, 0.0216, 0.0579, 0.155, 0.417, 1.12, 3.0)
        >>> exploration.values[1]
        power(c=0.0173, a=0.3333333333333333)
        >>> grid(fb.GossipUCB(), Setting(20, 36), 3000, 24)
        Traceback (most recent call last):
            ...
        ValueError: GossipUCB has nothing to tune: it has no learning_rate, block, exploration, ...
    """
    kind, given = type(algorithm).__name__, dict(ranges or {})
    # A block whose length nobody knows has no range.
    fields = {
        name: value
        for name, value in tunable(algorithm, setting).items()
        if name != "block" or value is not None or name in given
    }
    if not fields:
        raise ValueError(
            f"{kind} has nothing to tune: it has no {', '.join(KNOBS[:-1])} or {KNOBS[-1]}"
        )
    for name in given:
        if name not in fields:
            raise ValueError(f"{kind} has no {name} to tune, only {', '.join(fields)}")
    counts = dict(zip(fields, share(size, list(fields)), strict=True))
    # Where there is room for one value only, the algorithm's own is as good as any.
    searched = [name for name in fields if counts[name] > 1 or name in given] or list(fields)[:1]
    return [_knob(name, fields[name], given.get(name), counts[name], horizon) for name in searched]


def tunable(algorithm: AnyAlgorithm, setting: Setting) -> dict[str, Any]:
    """The parameters that can be tuned, with their values on this network.

    Example:
        >>> import fedbandits as fb
        >>> list(tunable(fb.FedExp3(), Setting(20, 36))), tunable(fb.Uniform(), Setting(20, 36))
        (['learning_rate', 'exploration'], {})
    """
    ready: Any = algorithm.set_up(setting)  # a dataclass, as every algorithm is
    traced = {f.name for f in dataclasses.fields(ready) if not f.metadata.get("static")}
    return {name: getattr(ready, name) for name in KNOBS if name in traced}


def share(size: int, names: Sequence[str]) -> list[int]:
    """How many values each parameter gets: a product of at most `size`.

    Example:
        >>> share(24, ["learning_rate"])
        [24]
        >>> share(24, ["learning_rate", "exploration"])
        [8, 3]
        >>> share(24, ["learning_rate", "block", "exploration"])
        [6, 2, 2]
    """
    counts = [1] * len(names)
    weights = [_FAVOUR if name == KNOBS[0] else 1.0 for name in names]
    while True:
        order = sorted(range(len(names)), key=lambda k: counts[k] / weights[k])
        fitting = [k for k in order if math.prod(counts) // counts[k] * (counts[k] + 1) <= size]
        if not fitting:
            return counts
        counts[fitting[0]] += 1


def combinations(algorithm: AnyAlgorithm, knobs: Sequence[Knob]) -> list[AnyAlgorithm]:
    """The algorithm with every combination of values, the last parameter varying fastest."""
    names = [knob.name for knob in knobs]
    return [
        algorithm.with_values(**dict(zip(names, values, strict=True)))
        for values in itertools.product(*(knob.values for knob in knobs))
    ]


def edges(knobs: Sequence[Knob], number: int) -> tuple[Edge, ...]:
    """Where combination `number` has the smallest or largest value of three or more."""
    places = np.unravel_index(number, [len(knob.numbers) for knob in knobs])
    found = []
    for knob, place in zip(knobs, places, strict=True):
        low, high = knob.numbers[0], knob.numbers[-1]
        value = knob.numbers[place]
        # Of two values either is an edge, which says nothing.
        if len(knob.numbers) < 3 or low < value < high or value in knob.limits:
            continue
        half = math.sqrt(high / low)
        wider = (max(value / half, knob.limits[0]), min(value * half, knob.limits[1]))
        side = "smallest" if value == low else "largest"
        found.append(Edge(knob.name, value, side, (_short(wider[0]), _short(wider[1]))))
    return tuple(found)


def parse_range(text: str) -> tuple[str, tuple[float, float]]:
    """A range as it is typed.

    Example:
        >>> parse_range("learning_rate=0.1:10")
        ('learning_rate', (0.1, 10.0))
    """
    name, _, limits = (part.strip() for part in text.partition("="))
    try:
        low, high = (float(limit) for limit in limits.split(":"))
    except ValueError:
        raise ValueError(
            f"--range {text}: expected KNOB=LOW:HIGH, for example --range learning_rate=0.1:10"
        ) from None
    if name not in KNOBS:
        raise ValueError(f"--range {text}: {name!r} is not one of {', '.join(KNOBS)}")
    return name, (low, high)


def _knob(
    name: str, current: Any, wanted: tuple[float, float] | None, count: int, horizon: int
) -> Knob:
    limits = (1.0, float(horizon)) if name == "block" else (0.0, math.inf)
    if name == "exploration" and isinstance(current, numbers.Real):
        limits = (0.0, 1.0)  # a probability
    if wanted is not None:
        low, high = (checks.number(limit, f"the range of {name}") for limit in wanted)
        if not 0 < low < high < math.inf:
            raise ValueError(f"the range of {name} must have 0 < low < high, not {low} and {high}")
    elif name == "block":
        low, high = float(current) / _BLOCKS, float(current) * _BLOCKS
    else:
        low, high = RANGES[name]
    low, high = (min(max(limit, limits[0]), limits[1]) for limit in (low, high))
    rounded = round if name == "block" else _short
    # Short blocks may coincide.
    tried = tuple(dict.fromkeys(float(rounded(value)) for value in _spaced(low, high, count)))
    return Knob(name, tried, tuple(_value(name, x, current) for x in tried), limits)


def _spaced(low: float, high: float, count: int) -> list[float]:
    """From low to high; one or two values stand inside, where they are nearest to the rest.

    Example:
        >>> _spaced(1, 16, 3), _spaced(1, 16, 2), _spaced(1, 16, 1)
        ([1.0, 4.0, 16.0], [2.0, 8.0], [4.0])
    """
    places = [(i + 0.5) / count for i in range(count)]
    if count >= 3:
        places = [i / (count - 1) for i in range(count)]
    return [low * (high / low) ** place for place in places]


def _value(name: str, number: float, current: Any) -> Any:
    """A number as the field takes it: a whole number, a plain one, or a schedule."""
    if name == "block":
        return int(number)
    if isinstance(current, numbers.Real):
        return number
    if name == "exploration":
        return Power(number, current.a if isinstance(current, Power) else 1 / 3)
    return Constant(number)


def _short(value: float) -> float:
    """Three digits: what is found will be written and read."""
    return float(f"{value:.3g}")
