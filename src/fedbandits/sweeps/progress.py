"""How far a sweep is: a bar for people at a terminal, lines for a log."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType
from typing import Any

logger = logging.getLogger("fedbandits")


class CellProgress:
    """A bar with cells done and the time left; where it is not shown, a line for each batch."""

    def __init__(self, total: int, done: int, show: bool | None) -> None:
        self._total, self._before, self._done = total, done, done
        self._show = sys.stderr.isatty() if show is None else show
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> CellProgress:
        if self._show:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(
                "cells", total=self._total, completed=self._done, left=""
            )
            self._bar.start()
        return self

    def advance(self, cells: int) -> None:
        """So many cells more are done, or have failed."""
        self._done += cells
        elapsed = time.monotonic() - self._began
        if self._bar is None:
            logger.info("%d of %d cells, %s", self._done, self._total, duration(elapsed))
            return
        # Of this run alone: what was there before took no time.
        played, missing = self._done - self._before, self._total - self._done
        left = f"about {duration(elapsed / played * missing)} left" if played and missing else ""
        self._bar.update(self._task, completed=self._done, left=left)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def duration(seconds: float) -> str:
    """A time for people.

    Example:
        >>> duration(14.2), duration(200), duration(7500)
        ('14 s', '3 min 20 s', '2 h 05 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )
