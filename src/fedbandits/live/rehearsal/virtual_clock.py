"""An event loop whose clock jumps to the next event: hours of a federation pass in seconds.

The loop has no sockets and no threads. The same seeds give the same history, so that a failing
history is a test case.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StuckError(RuntimeError):
    """A loop in which all tasks wait and no event will happen."""


class _Jump(selectors.SelectSelector):
    """A selector that advances the clock instead of waiting."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StuckError(f"at {self.loop.time():g} s everything waits for something else")
        self.loop.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock, which begins at 0."""

    def __init__(self) -> None:
        self.now = 0.0
        jump = _Jump()
        jump.loop = self
        super().__init__(jump)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end under the virtual clock, and return its result.

    Example:
        >>> async def a_day() -> float:
        ...     await asyncio.sleep(86_400)
        ...     return asyncio.get_running_loop().time()
        >>> run_virtual(a_day())
        86400.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
