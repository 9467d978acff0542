"""TCP forwarders that a test can cut, silence, slow down and heal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


class Forwarder:
    """Forwards bytes between its own address and another one, in both directions.

    Made by `Forwarders`, in whose event loop all of it runs.

    Attributes:
        address: "host:port" of its own.
        to: of the other; it may be told later.
    """

    def __init__(self, to: str) -> None:
        self.address = ""
        self.to = to
        self._refuses = False
        self._delay = 0.0
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free address."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break all connections; new connections end at once."""
        self._refuses = True
        for writer in self._writers:
            writer.transport.abort()

    def black_hole(self) -> None:
        """Forward nothing until healed, not even that an end has closed.

        A new connection is taken and hears nothing. What was under way arrives when it is healed,
        as TCP sends again what was lost.
        """
        self._passing.clear()

    def forget(self) -> None:
        """Forward nothing on existing connections from now on; new ones work.

        So a router dies, and another takes its place: only silence tells the ends.
        """
        self._passing.clear()
        self._passing = asyncio.Event()
        self._passing.set()

    def slow(self, seconds: float) -> None:
        """Delay all bytes by so many seconds."""
        self._delay = seconds

    def heal(self) -> None:
        """Undo all disturbances except `forget`."""
        self._refuses, self._delay = False, 0.0
        self._passing.set()

    def stop(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        self._writers.add(writer)
        passing = self._passing
        try:
            await passing.wait()
            host, _, port = self.to.rpartition(":")
            other_reader, other = await asyncio.open_connection(host, int(port))
        except OSError:  # nobody listens there now
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(other)
        with suppress(asyncio.CancelledError):  # of which the server would complain in the log
            await asyncio.gather(
                self._pass_on(reader, other, passing), self._pass_on(other_reader, writer, passing)
            )
        self._writers -= {writer, other}

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
    ) -> None:
        """Forward one direction until an end closes, then close both."""
        with suppress(OSError):
            while data := await reader.read(2**16):
                await asyncio.sleep(self._delay)
                await passing.wait()
                writer.write(data)
                await writer.drain()
        await passing.wait()
        writer.close()


class Forwarders:
    """Forwarders in a thread, which ends with the block."""

    def __enter__(self) -> Forwarders:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._made: list[Forwarder] = []
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def make(self, to: str = "") -> Forwarder:
        """Return a new forwarder to an address, which may be set later."""
        return self._run(self._make(to))

    def tell(self, act: Callable[[Forwarder], None], which: Iterable[Forwarder]) -> None:
        """Apply an action to some forwarders."""
        self._run(self._tell(act, which))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _make(self, to: str) -> Forwarder:
        made = Forwarder(to)
        await made.start()
        self._made.append(made)
        return made

    async def _tell(self, act: Callable[[Forwarder], None], which: Iterable[Forwarder]) -> None:
        for each in which:
            act(each)

    async def _stop(self) -> None:
        for each in self._made:
            each.stop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
