"""A limit on repeated warnings, so that neighbours and strangers cannot fill the disk with logs.

The first warning of each cause is logged at once. The next ones are counted, and one line at the
end of an interval reports the newest and their number. The interval doubles while the cause lasts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

FIRST_SECONDS = 60.0
LONGEST_SECONDS = 3600.0
"""The first and the longest interval of a cause."""

MOST_CAUSES = 100
"""The largest number of tracked causes. Further causes share one entry."""

OTHER_CAUSES = "other causes"


@dataclass
class _Interval:
    """An interval in which warnings of one cause are counted instead of logged."""

    end: float
    seconds: float
    omitted: int = 0
    newest: logging.LogRecord | None = None


class WarningLimit(logging.Filter):
    """Passes the first warning of each cause, and later only summaries.

    The cause of a record is `extra={"cause": ...}`, or else its text. Records below the level
    WARNING always pass.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = Lock()
        self._intervals: dict[str, _Interval] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record now."""
        if record.levelno < logging.WARNING:
            return True
        self.report()
        now = self._clock()
        cause = getattr(record, "cause", record.getMessage())
        with self._lock:
            if cause not in self._intervals and len(self._intervals) >= MOST_CAUSES:
                cause = OTHER_CAUSES
            interval = self._intervals.get(cause)
            if interval is None:
                self._intervals[cause] = _Interval(now + FIRST_SECONDS, FIRST_SECONDS)
                return True
            interval.omitted += 1
            interval.newest = record
            first, wait = interval.omitted == 1, interval.end - now
        if first:
            self._report_in(wait)
        return False

    def report(self) -> None:
        """Log one line for each cause whose interval is over, if warnings were omitted in it."""
        now = self._clock()
        with self._lock:
            over = [(cause, each) for cause, each in self._intervals.items() if each.end <= now]
            for cause, each in over:
                del self._intervals[cause]
                if each.omitted:
                    longer = min(2 * each.seconds, LONGEST_SECONDS)
                    self._intervals[cause] = _Interval(now + longer, longer)
        for _, each in over:
            if each.newest is not None:
                summary = _summary(each.newest, each.omitted - 1, each.seconds)
                logging.getLogger(summary.name).callHandlers(summary)

    def clear(self) -> None:
        """Forget all causes."""
        with self._lock:
            self._intervals.clear()

    def _report_in(self, seconds: float) -> None:
        """Report later from the running event loop; without one, the next warning does it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(seconds + 0.1, self.report)


LIMIT = WarningLimit()
"""The limit of all loggers of live agents in this process."""


def limited_logger(name: str) -> logging.Logger:
    """Return the logger of this name, with `LIMIT` on its warnings."""
    logger = logging.getLogger(name)
    logger.addFilter(LIMIT)
    return logger


def _summary(newest: logging.LogRecord, more: int, seconds: float) -> logging.LogRecord:
    """Return a copy of the newest record that reports how many others were omitted."""
    text = newest.getMessage()
    if more:
        text += f" (and {more:,} more like it in the last {seconds:g} s)"
    return logging.makeLogRecord({**newest.__dict__, "msg": text, "args": None, "exc_info": None})
