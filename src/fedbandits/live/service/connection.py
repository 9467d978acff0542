"""Connections of clients, with limits on their time and number.

uvicorn waits without limit for the rest of a request and for clients that do not read responses.
Here a request has some seconds from its first byte to the last byte of its response. If there are
too many connections, connections that never showed a token are closed first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from fedbandits.common.extras import installed

from .bodies import encode
from .refusals import Failure

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
else:
    H11Protocol = HttpToolsProtocol = object

CONNECTIONS = 512
"""The largest number of connections. Beyond it the oldest one without a token is closed."""

REQUEST_SECONDS = 10.0
"""From the first byte of a request, or the start of the connection, to the end of the response."""

KEEP_ALIVE_SECONDS = 30
"""Idle time until a connection is closed."""

HEAD_BYTES = 16_384
"""The largest request line with headers."""

_END = b"\r\n\r\n"
"""The last bytes of a head and of a chunked body."""


class CountsCuts(Protocol):
    """A counter of connections that the service closed."""

    def cut(self, reason: str) -> None:
        """Count a connection that was closed."""


class LimitedConnection(H11Protocol):
    """One connection; a mixin for either of uvicorn's protocols."""

    metrics: CountsCuts
    most = CONNECTIONS
    request_seconds = REQUEST_SECONDS

    trusted = False
    _since = 0.0
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time of the first request."""
        self._since = self.loop.time()
        self.app_state = {"cut": self._cut_as_slow}
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the buffers of the connection at once: uvicorn's objects refer to each other."""
        super().connection_lost(exc)
        joined: Any = self.transport
        joined.release()

    def data_received(self, data: bytes) -> None:
        """Start the time of a request that follows a pause, and limit the size of its head."""
        if self.timeout_keep_alive_task is not None:
            self._since = self.loop.time()
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._head = 0 if self._in_request() else self._head + len(data)
        if self._head > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"a head has at most {HEAD_BYTES:,} bytes")

    def on_response_complete(self) -> None:
        """Start the time of the next request, which may already be here."""
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
        """Close the connection if its request has taken too long."""
        idle = self.timeout_keep_alive_task is not None  # uvicorn closes idle connections
        streams = self._in_request() and self.scope["state"].get("streams", False)
        if not idle and not streams and self.loop.time() - self._since > self.request_seconds:
            self._cut_as_slow()

    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _cut_as_slow(self) -> None:
        self.metrics.cut("slow")
        self.transport.abort()

    def _make_room(self) -> None:
        """Close the oldest connection without a token; this one if there is no other."""
        # uvicorn removes a closed connection one turn of the event loop later.
        here: Any = [each for each in self.connections if not each.transport.is_closing()]
        if len(here) <= self.most:
            return
        strangers = [each for each in here if not each.trusted and not each._in_request()]
        oldest = min(strangers, key=lambda each: (each is self, each._since), default=self)
        self.metrics.cut("too many")
        oldest.transport.abort()


class OneRequestAtATime(HttpToolsProtocol):
    """A connection that parses each pipelined request after the response to the previous one.

    httptools parses all bytes that it receives, so uvicorn would queue every request in them. Here
    the parser receives the bytes of one request. Later bytes wait until that request is answered,
    and the connection is not read meanwhile.
    """

    _body = 0
    """Bytes of the current body that are not yet parsed; 0 for a chunked body."""

    _last = b""
    """The last bytes that were parsed, in which an `_END` may begin."""

    _waiting = b""
    """Bytes of later requests."""

    def data_received(self, data: bytes) -> None:
        """Parse the bytes of one request; keep the rest."""
        data, start = self._waiting + data, 0
        while start < len(data) and not (self._answering() or self.transport.is_closing()):
            end = self._end_of_piece(data, start)
            self._body -= min(self._body, end - start)
            self._last = (self._last + data[max(start, end - len(_END)) : end])[1 - len(_END) :]
            super().data_received(data[start:end])
            start = end
        self._waiting = data[start:]
        if self._waiting:
            self.transport.pause_reading()

    def on_headers_complete(self) -> None:
        """Store the length of the body."""
        super().on_headers_complete()
        self._body = int(dict(self.headers).get(b"content-length", 0))

    def on_response_complete(self) -> None:
        """Parse the next request if its bytes wait."""
        super().on_response_complete()
        if self._waiting:
            self.transport.resume_reading()
            self.data_received(b"")

    def _answering(self) -> bool:
        """Return whether a request is complete and its response is not."""
        return bool(self.cycle) and not (self.cycle.response_complete or self.cycle.more_body)

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Return where to stop, so that no byte of another request is parsed."""
        if self._body:
            return min(start + self._body, len(data))
        across = (self._last + data[start : start + len(_END) - 1]).find(_END)
        if across >= 0:
            return start + across + len(_END) - len(self._last)
        within = data.find(_END, start)
        return within + len(_END) if within >= 0 else len(data)


class JoinedWrites:
    """A transport that joins the writes of one turn of the event loop.

    uvicorn writes the head and the body of a response separately. System calls are most of the
    cost of a short response, so one call instead of two matters.

    Args:
        transport: the transport to write to; all other calls go to it.
        loop: its event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport: Any = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send the data at the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and close."""
        self._flush()
        self._transport.close()

    def release(self) -> None:
        """Drop the reference to the transport, which is closed, and to its buffers."""
        self._parts.clear()
        self._transport = _ClosedTransport()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _ClosedTransport:
    """A transport that is closed and ignores every call."""

    def is_closing(self) -> bool:
        return True

    def _ignore(self, *_: object) -> None: ...

    write = close = abort = pause_reading = resume_reading = _ignore


def protocol_class(metrics: CountsCuts, fast: bool | None = None) -> type[LimitedConnection]:
    """Return a class of connections.

    Args:
        metrics: counts the connections that are closed.
        fast: whether to parse with httptools, in C, instead of with h11, in Python; by default if
            httptools is installed.
    """
    counted = metrics
    if installed("httptools") if fast is None else fast:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        class Fast(OneRequestAtATime, LimitedConnection, HttpToolsProtocol):  # type: ignore[misc]
            metrics = counted

        return Fast
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Plain(LimitedConnection, H11Protocol):
        metrics = counted

    return Plain
