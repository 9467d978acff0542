"""A true member in the test's process, which can send any message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbandits.live import Agent
from fedbandits.live.operations.site import Site
from fedbandits.live.transport.tls_transport import TlsTransport


class Keeping(TlsTransport):
    """A transport that keeps the messages it sends."""

    def __init__(self, site: Site) -> None:
        assert site.keys is not None
        addresses = site.part.addresses
        others = {name: addresses.get(name) for name in site.part.neighbours}
        super().__init__(site.part.name, addresses.get(site.part.name), others, site.keys)
        self.kept: list[bytes] = []

    def send(self, to: str, message: bytes) -> None:
        self.kept.append(message)
        super().send(to, message)


class Rogue:
    """An honest agent over a transport that the test controls.

    Args:
        site: what its file says.
        victim: its neighbour.
    """

    def __init__(self, site: Site, victim: str) -> None:
        self.site, self.victim = site, victim
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.start()

    def start(self, journal: Path | None = None) -> None:
        """Start the agent; with another journal, as a member that lost its disk."""
        journal = journal or self.site.journal
        self.site = self.site._replace(journal=journal)
        self.transport = Keeping(self.site)
        self.agent = Agent(self.site.part.name, self.site.part, journal, self.transport)
        self._do(self.agent.start)

    def stop(self) -> None:
        self._do(self.agent.stop)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stop the agent, so that the test can use its keys for other links."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def disagreement(self) -> float:
        async def ask() -> float:
            return self.agent.disagreement

        return float(self._do(ask))

    def send(self, *messages: bytes) -> None:
        """Send messages over the agent's link, as fast as the link takes them."""

        async def work() -> None:
            before = self.transport.counts.copy()
            for message in messages:
                while (link := self.transport._links.get(self.victim)) is None or not link.send(
                    message
                ):
                    await asyncio.sleep(0.001)
                if link._transport is not None and link._transport.get_write_buffer_size():
                    await asyncio.sleep(0)
            assert self.transport.counts["unsent"] == before["unsent"]

        self._do(work)

    def _do(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)
