"""An event loop whose clock does not run but jumps: hours of a federation pass in seconds.

Nothing waits for the world outside: no sockets, no threads. The same seeds give the same history,
so that a history that fails is a test case.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StuckError(RuntimeError):
    """Everything waits, and nothing will ever happen."""


class _Jump(selectors.SelectSelector):
    """Instead of waiting for so many seconds, lets them have passed."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StuckError(f"at {self.loop.time():g} s everything waits for something else")
        self.loop.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop under a virtual clock, which begins at 0."""

    def __init__(self) -> None:
        self.now = 0.0
        jump = _Jump()
        jump.loop = self
        super().__init__(jump)

    def time(self) -> float:
        """Virtual seconds."""
        return self.now


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what only waits for the virtual clock.

    Example:
        >>> async def a_day() -> float:
        ...     await asyncio.sleep(86_400)
        ...     return asyncio.get_running_loop().time()
        >>> run_virtual(a_day())
        86400.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
