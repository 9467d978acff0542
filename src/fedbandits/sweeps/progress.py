"""A bar over the cells of a sweep, for people at a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class CellProgress:
    """A bar with cells done and the time left; silent where nobody watches."""

    def __init__(self, total: int, done: int, show: bool | None) -> None:
        self._total, self._done = total, done
        self._show = sys.stderr.isatty() if show is None else show
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
                progress.TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("cells", total=self._total, completed=self._done)
            self._bar.start()
        return self

    def advance(self) -> None:
        """One more cell is done, or has failed."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
