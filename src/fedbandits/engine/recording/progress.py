"""Progress of a simulation: a bar on terminals, and reports to the caller's function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedbandits.simulation.options import Callback, Milestone

if TYPE_CHECKING:
    from fedbandits.engine.group import Group

PATIENCE = 1.5
"""Seconds of work before a bar appears."""


class Progress:
    """A bar with rounds per second and the time left, on a terminal, after `PATIENCE` seconds."""

    def __init__(self, title: str, horizon: int, done: int, show: bool | None) -> None:
        self._title = title
        self._horizon = horizon
        self._done = done
        self._show = sys.stderr.isatty() if show is None else show
        self._began = self._then = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, done: int) -> None:
        """`done` rounds are complete."""
        now = time.monotonic()
        # Of the last chunk alone: the first one compiles.
        rate = (done - self._done) / max(now - self._then, 1e-9)
        self._done, self._then = done, now
        if not self._show or (self._bar is None and now - self._began < PATIENCE):
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=done, rate=f"{rate:,.0f} rounds/s")

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(self._title, total=self._horizon, rate="")
        self._bar.start()


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
