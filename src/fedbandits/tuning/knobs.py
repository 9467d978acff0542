"""A grid over what an algorithm declares as tunable."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.algorithms.base import Setting
from fedbandits.algorithms.tunable import Tunable, short
from fedbandits.common import checks


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


class _Field(NamedTuple):
    """A field that is searched: how, its value now, and from where to where."""

    declared: Tunable
    current: Any
    span: tuple[float, float]


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
        ValueError: GossipUCB has nothing to tune: it declares nothing as tunable
    """
    kind = type(algorithm).__name__
    if not algorithm.tunable:
        raise ValueError(f"{kind} has nothing to tune: it declares nothing as tunable")
    given = dict(ranges or {})
    for name in given:
        if name not in algorithm.tunable:
            raise ValueError(f"{kind} has no {name} to tune, only {', '.join(algorithm.tunable)}")
    ready = algorithm.set_up(setting)
    fields: dict[str, _Field] = {}
    for name, declared in algorithm.tunable.items():
        current = getattr(ready, name)
        span = _checked(name, given[name]) if name in given else declared.range(current)
        if span is not None:  # nobody knows how long a block is that `set_up` leaves open
            fields[name] = _Field(declared, current, span)
    if not fields:
        raise ValueError(f"{kind} needs a range to tune {', '.join(algorithm.tunable)}; give one")
    shares = share(size, [field.declared.weight for field in fields.values()])
    counts = dict(zip(fields, shares, strict=True))
    # Where there is room for one value only, the algorithm's own is as good as any.
    searched = [name for name in fields if counts[name] > 1 or name in given] or list(fields)[:1]
    return [_knob(name, fields[name], counts[name], horizon) for name in searched]


def share(size: int, weights: Sequence[float]) -> list[int]:
    """How many values each parameter gets: a product of at most `size`.

    Example:
        >>> share(24, [1])
        [24]
        >>> share(24, [2, 1])
        [8, 3]
        >>> share(24, [2, 1, 1])
        [6, 2, 2]
    """
    counts = [1] * len(weights)
    while True:
        order = sorted(range(len(weights)), key=lambda k: counts[k] / weights[k])
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
        found.append(Edge(knob.name, value, side, (short(wider[0]), short(wider[1]))))
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
    return name, (low, high)


def _checked(name: str, span: tuple[float, float]) -> tuple[float, float]:
    low, high = (checks.number(limit, f"the range of {name}") for limit in span)
    if not 0 < low < high < math.inf:
        raise ValueError(f"the range of {name} must have 0 < low < high, not {low} and {high}")
    return low, high


def _knob(name: str, field: _Field, count: int, horizon: int) -> Knob:
    declared, current = field.declared, field.current
    limits = declared.limits(current, horizon)
    low, high = (min(max(limit, limits[0]), limits[1]) for limit in field.span)
    # Short blocks may coincide.
    tried = tuple(dict.fromkeys(declared.rounded(value) for value in _spaced(low, high, count)))
    return Knob(name, tried, tuple(declared.value(x, current) for x in tried), limits)


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
