"""Sums of observed losses by arm, over the current hour, day and week and those before."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from .messages import Vector
from .noisy_bits import NoisyBits
from .observations import LossRange
from .records import LossRecord

WINDOWS = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
"""Lengths of the periods in seconds. Periods begin in UTC, weeks on Monday."""

_MONDAY = 4 * 86_400.0
"""The first Monday after the beginning of 1970."""


class LossWindow(msgspec.Struct, frozen=True):
    """Mean losses over a window of time.

    Attributes:
        since: The beginning of the window, in seconds since 1970.
        observed: Number of observations.
        loss: The mean loss of the arms played, in the units of the application; none without
            observations.
        reward: The same as a reward, which is low + high - loss.
        arm_observed: Number of observations of each arm's loss, in the order of the arms: the
            rounds in which the arm was played, or with full information all rounds with that arm.
        arm_loss: The mean of these losses for each arm; none without observations.
    """

    since: float
    observed: int
    loss: float | None
    reward: float | None
    arm_observed: tuple[int, ...]
    arm_loss: tuple[float | None, ...]


class MeanLosses(msgspec.Struct, frozen=True):
    """Mean observed losses. Expired tickets are not observations.

    Attributes:
        low: The smallest possible loss or reward.
        high: The largest possible loss or reward.
        rewards: Whether the last observation was a reward.
        noise: With epsilon, the largest standard error of an estimate from one noisy bit. With n
            bits it is smaller by the square root of n. None without epsilon.
        windows: The windows by name. `hour`, `day` and `week` hold the current one (UTC) and the
            one before; `all` holds everything since the first observation.
    """

    low: float
    high: float
    rewards: bool
    noise: float | None
    windows: dict[str, LossWindow]


class LossSums:
    """Sums of the losses, or of the noisy bits, that an agent has observed.

    A window is the current period and the one before: `hour` covers one to two hours.

    Args:
        arms: K.
        saved: the record of the journal; None for an agent without observations.

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
        self._recent = np.zeros_like(self._sums[0])  # not yet in the current periods
        if saved is not None:
            self._since, self._until, self.rewards = saved.since, saved.until, saved.rewards
            self._sums = np.frombuffer(saved.sums).reshape(_shape(arms)).copy()

    def add(
        self, played: int, losses: Mapping[int, float], now: float, *, reward: bool = False
    ) -> None:
        """Count one observation.

        Args:
            played: the arm.
            losses: the observed losses, by arm.
            now: seconds since 1970.
            reward: whether the application observed a reward.
        """
        self._since = now if self._since is None else min(self._since, now)
        if not self._until <= now < self._hour_ends:
            self._update(now)
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
        self._update(self._until)
        total: Vector = self._sums[0]
        return total

    def windows(self, now: float) -> dict[str, tuple[float, Vector, Vector]]:
        """Return for each window its beginning, and counts and sums of losses.

        The first count and the first sum cover the arms played; the others cover one arm each.

        Args:
            now: seconds since 1970.
        """
        self._update(now)
        since = now if self._since is None else min(self._since, now)
        windows = {}
        for i, (name, seconds) in enumerate(WINDOWS.items()):
            before = (_period(self._until, seconds) - 1) * seconds + _MONDAY
            both = self._sums[1 + i] + self._sums[1 + len(WINDOWS) + i]
            windows[name] = (max(before, since), *both)
        return windows | {"all": (since, *self._sums[0])}

    def means(self, now: float, scale: LossRange, noisy: NoisyBits | None) -> MeanLosses | None:
        """Return the means for operators; None before the first observation.

        Args:
            now: seconds since 1970.
            scale: the units of the application.
            noisy: the source of the bits, if these are sums of bits; None for sums of losses.
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
        """Return the record for the journal; None before the first observation."""
        if self._since is None:
            return None
        self._update(self._until)
        return LossRecord(self._since, self._until, self.rewards, self._sums.tobytes())

    def _update(self, now: float) -> None:
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
