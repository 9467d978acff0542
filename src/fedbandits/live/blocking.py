"""An agent for programs without asyncio: every call waits for its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .tickets import Ticket

if TYPE_CHECKING:
    from .agent import Agent, Neighbour

T = TypeVar("T")


class BlockingAgent:
    """What `with agent as shop:` gives. May be called from any number of threads.

    Args:
        agent: runs in a thread of its own until `stop`.

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
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"fedbandits {agent.name}", daemon=True
        )
        self._thread.start()
        try:
            self._wait(agent.start())
        except BaseException:
            self._end()
            raise

    def choose(
        self,
        allowed: Sequence[str] | None = None,
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
        return str(self._read("recommended"))

    @property
    def probabilities(self) -> dict[str, float]:
        """See `Agent.probabilities`."""
        found: dict[str, float] = self._read("probabilities")
        return found

    @property
    def disagreement(self) -> float:
        """See `Agent.disagreement`."""
        return float(self._read("disagreement"))

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        """See `Agent.neighbours`."""
        found: dict[str, Neighbour] = self._read("neighbours")
        return found

    @property
    def rounds(self) -> int:
        """See `Agent.rounds`."""
        return int(self._read("rounds"))

    @property
    def open_tickets(self) -> int:
        """See `Agent.open_tickets`."""
        return int(self._read("open_tickets"))

    @property
    def expired(self) -> int:
        """See `Agent.expired`."""
        return int(self._read("expired"))

    def leave(self) -> None:
        """See `Agent.leave`."""
        self._wait(self._agent.leave())

    def stop(self) -> None:
        """See `Agent.stop`; ends the thread."""
        if self._thread.is_alive():
            try:
                self._wait(self._agent.stop())
            finally:
                self._end()

    def _read(self, name: str) -> Any:
        async def read() -> Any:
            return getattr(self._agent, name)

        return self._wait(read())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError(f"{self._agent.name} has stopped; begin anew with `with agent:`")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
