"""What is written in one turn of the event loop goes out together.

uvicorn writes the head of an answer and its body apart: two calls of the system where one does,
and these are the larger part of what a short answer costs.
"""

from __future__ import annotations

import asyncio
from typing import Any


class ClosedTransport(asyncio.Transport):
    """A transport that is closed: it ignores every call."""

    def is_closing(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Ignore the data."""

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


class JoiningTransport:
    """A transport that writes at the end of the turn.

    Args:
        transport: that does it; everything else is its own.
        loop: whose turns.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send this with what else comes before the turn ends."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what there is, and close."""
        self._flush()
        self._transport.close()

    def release(self) -> None:
        """Drop the reference to the transport, which is closed, and to its buffers."""
        self._parts.clear()
        self._transport = ClosedTransport()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
