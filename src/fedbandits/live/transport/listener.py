"""A listener for TLS connections that bounds handshakes and reports failed ones.

asyncio's own server accepts as many handshakes as there are file handles, and reports no failures.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable

MOST_HANDSHAKES = 64
"""The most handshakes at once. A further one ends the oldest of the address with the most.

An honest client needs only a moment for its handshake. A client that blocks handshakes has older
ones or more of them.
"""

ACCEPT_AGAIN = 0.2
"""Seconds until the next attempt to accept a connection after file handles ran out."""


class TlsListener:
    """Accepts TLS connections until it is closed.

    Args:
        listening: the socket.
        protocol: makes the protocol of a connection.
        context: returns the TLS context of the next handshake; certificates may be renewed.
        refused: called with the error of a failed handshake and the client's address, which may be
            empty.
        seconds: the longest handshake.

    Attributes:
        handshakes: unfinished handshakes, the oldest first, and the addresses of their clients.
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
        self._listening = listening
        self._protocol = protocol
        self._context = context
        self._refused = refused
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._closed = False
        listening.setblocking(False)
        listening.listen(128)
        self._wait()

    def close(self) -> None:
        """Stop accepting; existing connections stay."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listening)
            self._listening.close()

    async def wait_closed(self) -> None:
        """End the unfinished handshakes."""
        # One turn of the loop starts their tasks; a task that never started cannot be cancelled.
        await asyncio.sleep(0)
        tasks = list(self.handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wait(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        try:
            connection, (host, *_) = self._listening.accept()
        except OSError as error:  # the client has left, or no file handles are free
            self._refused(error, "")
            self._loop.remove_reader(self._listening)
            self._loop.call_later(ACCEPT_AGAIN, self._wait)
            return
        connection.setblocking(False)
        # asyncio sets this only on sockets that it has made itself.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.handshakes) >= MOST_HANDSHAKES:
            self._make_room()
        task = self._loop.create_task(self._shake_hands(connection, host))
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

    async def _shake_hands(self, connection: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._context(),
                ssl_handshake_timeout=self._seconds,
            )
        except OSError as error:
            # The traceback and asyncio's objects refer to each other, with 256 KiB of buffers.
            self._refused(error.with_traceback(None), host)
