"""How messages get to neighbours: an interface that promises nothing but the sender's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Receive: TypeAlias = Callable[[str, bytes], None]
"""Is called with the name of the sender, proven and not merely claimed, and what it sent."""


class Transport(Protocol):
    """Carries bytes to neighbours. They may be lost, late, repeated and out of order."""

    async def start(self, receive: Receive) -> None:
        """Hand over what arrives from now on, in the event loop's own thread."""

    def send(self, to: str, message: bytes) -> None:
        """Send and forget; never waits."""

    async def stop(self) -> None:
        """Hand over nothing more."""
