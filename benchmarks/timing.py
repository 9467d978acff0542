"""Seconds of a call: the best of several, since noise only ever adds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from time import perf_counter

# Repeats stop here on a slow machine or a slow row; two are always made, for the spread.
SECONDS = 12.0
_AT_LEAST = 2


def repeated(call: Callable[[], object], n: int, seconds: float = SECONDS) -> tuple[float, ...]:
    """Seconds of each of up to `n` calls, after one that compiles and is not counted."""
    call()
    taken: list[float] = []
    while len(taken) < n and (len(taken) < min(n, _AT_LEAST) or sum(taken) < seconds):
        began = perf_counter()
        call()
        taken.append(perf_counter() - began)
    return tuple(taken)


def a_round(
    play: Callable[[int], object], horizon: int, n: int, seconds: float = SECONDS
) -> tuple[float, ...]:
    """Seconds of one round, from whole calls of T and of 3T rounds: what is done once cancels.

    Each of the longer calls is set against the best of the shorter ones.
    """
    short = min(repeated(lambda: play(horizon), n, seconds))
    long = repeated(lambda: play(3 * horizon), n, seconds)
    if min(long) <= short:
        raise RuntimeError(f"{3 * horizon} rounds took no longer than {horizon}: too much noise")
    return tuple((taken - short) / (2 * horizon) for taken in long)


def each(rounds: Iterator[object], n: int) -> tuple[float, ...]:
    """Seconds of each of `n` rounds of a generator, after one that is not counted."""
    next(rounds)
    taken = []
    for _ in itertools.repeat(None, n):
        began = perf_counter()
        next(rounds)
        taken.append(perf_counter() - began)
    return tuple(taken)
