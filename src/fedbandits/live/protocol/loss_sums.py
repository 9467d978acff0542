"""Sums of observed losses by arm, over the current hour, day and week and those before."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedbandits.live.agent.responses import Responses
from fedbandits.live.agent.status import LossWindow, MeanLosses

from .messages import Vector
from .observations import Range
from .records import LossRecord

WINDOWS = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
"""Periods in seconds. They begin in UTC, weeks on Monday."""

_MONDAY = 4 * 86_400.0
"""The first Monday after the beginning of 1970."""


class LossSums:
    """Losses that an agent has observed; with noisy bits, the bits.

    A window is the current period and the one before: `hour` is one to two hours long.

    Args:
        arms: K.
        saved: from the journal; None for an agent that has observed nothing.

    Attributes:
        rewards: whether the last observation was a reward.

    Example:
        >>> sums = LossSums(arms=2)
        >>> sums.add(1, {1: 0.25}, now=1e9)
        >>> _, counts, totals = sums.windows(1e9)["day"]
        >>> counts, totals  # of the arms played, then by arm
        (array([1., 0., 1.]), array([0.25, 0.  , 0.25]))
    """

    def __init__(self, arms: int, saved: LossRecord | None = None) -> None:
        self._since: float | None = None
        self._until = self._hour_ends = 0.0
        self.rewards = False
        self._sums = np.zeros(_shape(arms))
        self._recent = np.zeros_like(self._sums[0])  # to be added to all current periods
        if saved is not None:
            self._since, self._until, self.rewards = saved.since, saved.until, saved.rewards
            self._sums = np.frombuffer(saved.sums).reshape(_shape(arms)).copy()

    def add(
        self, played: int, losses: Mapping[int, float], now: float, *, reward: bool = False
    ) -> None:
        """Count one observation.

        Args:
            played: the arm.
            losses: those observed, by arm.
            now: seconds since 1970.
            reward: whether the application observed a reward.
        """
        self._since = now if self._since is None else min(self._since, now)
        if not self._until <= now < self._hour_ends:
            self._sum_up(now)
        self.rewards = reward
        counts, sums = self._recent
        counts[0] += 1.0
        sums[0] += losses[played]
        for arm, loss in losses.items():
            counts[arm + 1] += 1.0
            sums[arm + 1] += loss

    @property
    def total(self) -> Vector:
        """Counts and sums since the first observation: of the arms played, then by arm."""
        self._sum_up(self._until)
        total: Vector = self._sums[0]
        return total

    def windows(self, now: float) -> dict[str, tuple[float, Vector, Vector]]:
        """Return for each window its beginning, and counts and sums of losses.

        The first count and the first sum cover the arms played; the others cover one arm each.

        Args:
            now: seconds since 1970.
        """
        self._sum_up(now)
        since = now if self._since is None else min(self._since, now)
        found = {}
        for i, (name, seconds) in enumerate(WINDOWS.items()):
            before = (_period(self._until, seconds) - 1) * seconds + _MONDAY
            both = self._sums[1 + i] + self._sums[1 + len(WINDOWS) + i]
            found[name] = (max(before, since), *both)
        return found | {"all": (since, *self._sums[0])}

    def means(self, now: float, scale: Range, noisy: Responses | None) -> MeanLosses | None:
        """Return what operators see; None before the first observation.

        Args:
            now: seconds since 1970.
            scale: the units of the application.
            noisy: of which the sums are sums of bits; None for sums of losses.
        """
        if self._since is None:
            return None

        def mean(total: float, count: float) -> float | None:
            if not count:
                return None
            loss = total / count if noisy is None else noisy.estimate(total / count)
            return scale.low + (scale.high - scale.low) * loss

        windows = {}
        for name, (since, counts, totals) in self.windows(now).items():
            played, *by_arm = map(mean, totals.tolist(), counts.tolist())
            reward = None if played is None else scale.low + scale.high - played
            observed, *of_arm = counts.astype(int).tolist()
            windows[name] = LossWindow(
                since, observed, played, reward, tuple(of_arm), tuple(by_arm)
            )
        noise = None if noisy is None else (scale.high - scale.low) * noisy.noise
        return MeanLosses(*scale, self.rewards, noise, windows)

    def record(self) -> LossRecord | None:
        """Return what the journal stores; None before the first observation."""
        if self._since is None:
            return None
        self._sum_up(self._until)
        return LossRecord(self._since, self._until, self.rewards, self._sums.tobytes())

    def _sum_up(self, now: float) -> None:
        """Add recent observations to the current periods, and begin the periods of now.

        A time before the last one corrects a clock that was ahead; the periods then continue.
        """
        self._sums[: 1 + len(WINDOWS)] += self._recent
        self._recent[:] = 0.0
        for i, seconds in enumerate(WINDOWS.values(), start=1):
            passed = _period(now, seconds) - _period(self._until, seconds)
            if passed > 0:
                self._sums[len(WINDOWS) + i] = self._sums[i] if passed == 1 else 0.0
                self._sums[i] = 0.0
        self._until = now
        self._hour_ends = (_period(now, WINDOWS["hour"]) + 1) * WINDOWS["hour"] + _MONDAY


def _shape(arms: int) -> tuple[int, int, int]:
    """Return the shape of the sums.

    Periods (since the start, each current one, each one before), counts and sums of losses, the
    arms played and each arm.
    """
    return 1 + 2 * len(WINDOWS), 2, 1 + arms


def record_size(arms: int) -> int:
    """Return the size of the sums in a `LossRecord`, in bytes."""
    return 8 * math.prod(_shape(arms))


def _period(time: float, seconds: float) -> float:
    """Return the number of a period."""
    return (time - _MONDAY) // seconds
