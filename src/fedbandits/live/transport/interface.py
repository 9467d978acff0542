"""The interface of transports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Receive: TypeAlias = Callable[[str, bytes], None]
"""A function that takes the authenticated name of the sender and its message."""


class Transport(Protocol):
    """Carries bytes to neighbours. Messages may be lost, late, repeated and out of order."""

    async def start(self, receive: Receive) -> None:
        """Call `receive` for every message, in the thread of the event loop."""

    def send(self, to: str, message: bytes) -> None:
        """Send a message without waiting for an answer."""

    async def stop(self) -> None:
        """Stop calling `receive`."""
