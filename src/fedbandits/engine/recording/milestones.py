"""Milestones: reports to the caller's function while a simulation runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from fedbandits.engine.group import Group
from fedbandits.simulation.options import Callback, Milestone


def reporter(
    callback: Callback | None, group: Group, draw: int | None
) -> Callable[[int], None] | None:
    """Return a function that calls back with the milestone of a round; None without a callback."""
    if callback is None:
        return None
    begun, record, horizon = time.monotonic(), group.records[0], group.first.problem.horizon

    def report(done: int) -> None:
        best = record.arm_loss_so_far.min(axis=0)
        regret, expected = record.incurred_so_far - best, record.expected_so_far - best
        seconds = time.monotonic() - begun
        callback(Milestone(done, horizon, seconds, regret, expected, draw))

    return report
