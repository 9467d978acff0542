"""A progress bar for people, silence for everything else."""

from __future__ import annotations

import sys
import time
from typing import Any

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
