"""Pipelined requests on one connection, handled one at a time.

httptools parses all bytes that it receives, so uvicorn would queue every request in them. Here the
parser receives the bytes of one request. Later bytes wait until that request is answered, and the
connection is not read meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
else:
    Protocol = object

_END = b"\r\n\r\n"
"""The last bytes of a head and of a chunked body."""


class Pipelining(Protocol):
    """A connection that parses each request after the response to the previous one."""

    _body = 0
    """Bytes of the current body that are not yet parsed; 0 for a chunked body."""

    _last = b""
    """The last bytes that were parsed, in which an `_END` may begin."""

    _waiting = b""
    """Bytes of later requests."""

    def data_received(self, data: bytes) -> None:
        """Parse the bytes of one request; keep the rest."""
        data = self._waiting + data
        while data and not self._answering():
            length = self._length(data)
            piece, data = data[:length], data[length:]
            self._body -= min(self._body, length)
            self._last = (self._last + piece)[1 - len(_END) :]
            super().data_received(piece)
        self._waiting = data
        if data:
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

    def _length(self, data: bytes) -> int:
        """Return how many bytes can be parsed without beginning another request."""
        if self._body:
            return min(self._body, len(data))
        across = (self._last + data[: len(_END) - 1]).find(_END)
        if across >= 0:
            return across + len(_END) - len(self._last)
        within = data.find(_END)
        return within + len(_END) if within >= 0 else len(data)
