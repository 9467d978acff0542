"""An agent for programs without asyncio: every call waits for its result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from fedbandits.live.protocol.tickets import OpenTicket, Ticket

from .group_commit import StoppedError

if TYPE_CHECKING:
    from fedbandits.live.federation.federation import Federation, Part

    from .agent import Agent
    from .status import Neighbour, Status

T = TypeVar("T")


class BlockingAgent:
    """An agent in a separate thread, from `with agent as shop:`. Any thread may call it.

    Args:
        agent: the agent, which runs until `stop`.

    Example:
        >>> import tempfile, fedbandits as fb
        >>> shops = fb.live.Federation(["tea", "coffee"], fb.networks.path(1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with fb.live.Agent("agent1", shops, f"{folder}/shop.db") as shop:
        ...         ticket = shop.choose(allowed=["coffee"])
        ...         shop.observe(ticket.id, reward=1.0)
        ...         shop.rounds
        1
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self._stopping = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"fedbandits {agent.name}", daemon=True
        )
        self._thread.start()
        try:
            self._wait(agent.start())
        except BaseException:
            self._stopping = True
            self._end()
            raise

    def choose(
        self,
        allowed: Iterable[str] | None = None,
        *,
        event: str | None = None,
        baseline: str | None = None,
    ) -> Ticket:
        """See `Agent.choose`."""

        async def choose() -> Ticket:
            return await self._agent.choose(allowed, event=event, baseline=baseline)

        return self._wait(choose())

    def observe(self, ticket: str | Ticket, loss: Any = None, *, reward: Any = None) -> None:
        """See `Agent.observe`."""

        async def observe() -> None:
            await self._agent.observe(ticket, loss, reward=reward)

        self._wait(observe())

    @property
    def recommended(self) -> str:
        """See `Agent.recommended`."""
        return self._read(lambda agent: agent.recommended)

    @property
    def probabilities(self) -> dict[str, float]:
        """See `Agent.probabilities`."""
        return self._read(lambda agent: agent.probabilities)

    @property
    def disagreement(self) -> float:
        """See `Agent.disagreement`."""
        return self._read(lambda agent: agent.disagreement)

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        """See `Agent.neighbours`."""
        return self._read(lambda agent: agent.neighbours)

    @property
    def rounds(self) -> int:
        """See `Agent.rounds`."""
        return self._read(lambda agent: agent.rounds)

    @property
    def open_tickets(self) -> int:
        """See `Agent.open_tickets`."""
        return self._read(lambda agent: agent.open_tickets)

    @property
    def expired(self) -> int:
        """See `Agent.expired`."""
        return self._read(lambda agent: agent.expired)

    @property
    def tickets(self) -> list[OpenTicket]:
        """See `Agent.tickets`."""
        return self._read(lambda agent: agent.tickets)

    @property
    def name(self) -> str:
        """See `Agent`."""
        return self._agent.name

    def status(self) -> Status:
        """See `Agent.status`."""
        return self._read(lambda agent: agent.status())

    def adopt(self, federation: Federation | Part) -> None:
        """See `Agent.adopt`."""
        self._wait(self._agent.adopt(federation))

    def leave(self, patience: float = 5.0) -> tuple[str, ...]:
        """See `Agent.leave`; ends the thread."""
        unaware = self._wait(self._agent.leave(patience))
        self.stop()
        return unaware

    def stop(self) -> None:
        """See `Agent.stop`; ends the thread."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
        try:
            asyncio.run_coroutine_threadsafe(self._agent.stop(), self._loop).result()
        finally:
            self._end()

    def _read(self, value: Callable[[Agent], T]) -> T:
        async def read() -> T:
            return value(self._agent)

        return self._wait(read())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:  # work that begins before the end still runs
            if self._stopping:
                work.close()
                raise StoppedError(
                    f"{self._agent.name} has stopped; start it again with `with agent as`"
                )
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise StoppedError(f"{self._agent.name} stopped before this was done") from None

    def _end(self) -> None:
        """Cancel the tasks of the loop, so that no caller waits for them, and end the thread."""

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
