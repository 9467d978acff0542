"""Who comes in from the network: by a TLS handshake, few at once, and what fails is told.

asyncio's own server takes as many handshakes as there are file handles, and tells of none that
fails.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable

MOST_HANDSHAKES = 64
"""Under way at once. One on top ends the oldest of the address that has most: who is honest needs a
moment for its handshake, and who only holds the line has had longer, or comes more often."""

WAIT = 0.2
"""Seconds until it is tried again to let someone in, where there was no file handle left."""


class Door:
    """Lets in whoever ends a handshake, until it is closed.

    Args:
        listening: where they come.
        protocol: makes that of a connection.
        context: gives that of the next handshake; certificates are renewed.
        refused: is told why a handshake failed, and the address it came from, if it is known.
        seconds: for a handshake.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        refused: Callable[[OSError, str], None],
        seconds: float,
    ) -> None:
        self.handshakes: dict[asyncio.Task[None], str] = {}
        """Under way, the oldest first, and whose address they are from."""
        self._listening = listening
        self._protocol = protocol
        self._context = context
        self._refused = refused
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._closed = False
        listening.setblocking(False)
        listening.listen(128)
        self._await()

    def close(self) -> None:
        """Let nobody in any more; who is in stays."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listening)
            self._listening.close()

    async def wait_closed(self) -> None:
        """End the handshakes that are under way."""
        # A turn of the loop, in which handshakes begin: one that has not cannot be ended.
        await asyncio.sleep(0)
        tasks = list(self.handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _await(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Someone is at the door."""
        try:
            connection, (host, *_) = self._listening.accept()
        except OSError as error:  # gone meanwhile, or no file handles left: ask again later
            self._refused(error, "")
            self._loop.remove_reader(self._listening)
            self._loop.call_later(WAIT, self._await)
            return
        connection.setblocking(False)
        # asyncio does so where it has made the socket itself: what is small is sent at once.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.handshakes) >= MOST_HANDSHAKES:
            self._make_room()
        task = self._loop.create_task(self._welcome(connection, host))
        self.handshakes[task] = host
        task.add_done_callback(lambda task: self.handshakes.pop(task, None))

    def _make_room(self) -> None:
        [(most, _)] = Counter(self.handshakes.values()).most_common(1)
        oldest = next(task for task, host in self.handshakes.items() if host == most)
        del self.handshakes[oldest]
        oldest.cancel()
        self._refused(
            ConnectionAbortedError(f"more than {MOST_HANDSHAKES} handshakes at once"), most
        )

    async def _welcome(self, connection: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._context(),
                ssl_handshake_timeout=self._seconds,
            )
        except OSError as error:
            # Its traceback and asyncio's objects refer to each other, with 256 KiB of buffer.
            self._refused(error.with_traceback(None), host)
