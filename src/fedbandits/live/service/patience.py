"""Connections that may take their time, but not for ever.

uvicorn waits as long as a client likes for the rest of a request, and for one that does not read
its answers. Here a request has some seconds from its first byte to its answer's last, and when
there are too many connections, one that has shown no token goes first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fedbandits.common.extras import installed

from .bodies import encode
from .joining import JoiningTransport
from .pipelining import Pipelining
from .refusals import Failure

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol

    from .metrics import Metrics
else:
    Protocol = object

CONNECTIONS = 512
"""At most; then the stranger that has waited longest is cut off."""

REQUEST_SECONDS = 10.0
"""From the first byte of a request, or the connection's beginning, to the end of the answer."""

KEEP_ALIVE_SECONDS = 30
"""Without a request, before a connection is closed."""

HEAD_BYTES = 16_384
"""The longest request line and headers that are waited for."""


class Patience(Protocol):
    """One connection; stands before either of uvicorn's protocols."""

    metrics: Metrics
    most = CONNECTIONS
    patience = REQUEST_SECONDS

    trusted = False
    _since = 0.0
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The client has all its time yet."""
        self._since = self.loop.time()
        self.app_state = {"cut": self._cut_as_slow}
        joining: Any = JoiningTransport(transport, self.loop)
        super().connection_made(joining)
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the buffers of the connection at once: uvicorn's objects refer to each other."""
        super().connection_lost(exc)
        joining: Any = self.transport
        joining.release()

    def data_received(self, data: bytes) -> None:
        """After a pause the next request begins with its first byte."""
        if self.timeout_keep_alive_task is not None:
            self._since = self.loop.time()
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._head = 0 if self._in_request() else self._head + len(data)
        if self._head > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"a head has at most {HEAD_BYTES:,} bytes")

    def on_response_complete(self) -> None:
        """The next request begins, if it is here already."""
        self._since = self.loop.time()
        self._head = 0
        self.trusted = self.trusted or self.scope["state"].get("trusted", False)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Reject malformed requests. An unfinished response allows no second status line."""
        self.metrics.cut("malformed")
        if not (self._in_request() and self.cycle.response_started):
            body = encode(Failure(msg, "malformed"))
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
                b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            )
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def cut_if_overdue(self) -> None:
        """End it if it has taken too long."""
        waits = self.timeout_keep_alive_task is not None  # uvicorn ends that
        streams = self._in_request() and self.scope["state"].get("streams", False)
        if not waits and not streams and self.loop.time() - self._since > self.patience:
            self._cut_as_slow()

    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _cut_as_slow(self) -> None:
        self.metrics.cut("slow")
        self.transport.abort()

    def _make_room(self) -> None:
        """Cut the stranger that has been here longest, this one if there is no other."""
        # asyncio tells of one that was cut a turn later: until then it is among them.
        here: Any = [each for each in self.connections if not each.transport.is_closing()]
        if len(here) <= self.most:
            return
        strangers = [each for each in here if not each.trusted and not each._in_request()]
        oldest = min(strangers, key=lambda each: (each is self, each._since), default=self)
        self.metrics.cut("too many")
        oldest.transport.abort()


def protocol_class(metrics: Metrics, fast: bool | None = None) -> type[Protocol]:
    """A class of connections.

    Args:
        metrics: count those that are cut.
        fast: parse with httptools, in C; without it h11 does, in Python. By default if it is there.
    """
    counted = metrics
    if installed("httptools") if fast is None else fast:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        class Fast(Pipelining, Patience, HttpToolsProtocol):  # type: ignore[misc]
            metrics = counted

        return Fast
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Plain(Patience, H11Protocol):
        metrics = counted

    return Plain
