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
