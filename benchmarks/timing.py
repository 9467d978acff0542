"""Seconds of a call: the best of several, since noise only ever adds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter

# Repeats stop here on a slow machine or a slow row; two are always made, for the spread.
SECONDS = 12.0
_AT_LEAST = 2


def in_turns(
    calls: Mapping[int, Callable[[], object]], n: int, seconds: float = SECONDS
) -> dict[int, tuple[float, ...]]:
    """Seconds of each of up to `n` calls of each kind, after one that compiles and is not counted.

    They take turns: what slows the machine for a while slows all kinds alike. After so many
    `seconds` of all of them there are no more turns.
    """
    for call in calls.values():
        call()
    taken: dict[int, list[float]] = {kind: [] for kind in calls}
    for turn in range(n):
        if turn >= _AT_LEAST and sum(map(sum, taken.values())) >= seconds:
            break
        for kind, call in calls.items():
            began = perf_counter()
            call()
            taken[kind].append(perf_counter() - began)
    return {kind: tuple(times) for kind, times in taken.items()}


def repeated(call: Callable[[], object], n: int, seconds: float = SECONDS) -> tuple[float, ...]:
    """Seconds of each of up to `n` calls, after one that compiles and is not counted."""
    return in_turns({0: call}, n, seconds)[0]


def a_round(
    play: Callable[[int], object], horizon: int, n: int, seconds: float = SECONDS
) -> tuple[float, ...]:
    """Seconds of one round, from whole calls of T and of 3T rounds: what is done once cancels.

    Each of the longer calls is set against the best of the shorter ones.
    """
    calls = {rounds: partial(play, rounds) for rounds in (horizon, 3 * horizon)}
    shorter, longer = in_turns(calls, n, 2 * seconds).values()
    short = min(shorter)
    if min(longer) <= short:
        raise RuntimeError(f"{3 * horizon} rounds took no longer than {horizon}: too much noise")
    return tuple((taken - short) / (2 * horizon) for taken in longer)


def each(rounds: Iterator[object], n: int) -> tuple[float, ...]:
    """Seconds of each of `n` rounds of a generator, after one that is not counted."""
    next(rounds)
    taken = []
    for _ in itertools.repeat(None, n):
        began = perf_counter()
        next(rounds)
        taken.append(perf_counter() - began)
    return tuple(taken)
