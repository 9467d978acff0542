"""The dashboard of a whole federation on one machine, as `live up` serves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .address import Address
from .application import DASHBOARD, Get, file_routes
from .bodies import encode
from .events import EventStream
from .guard import Guard
from .server import HttpServer


class _NoMetrics:
    """Metrics that count nothing: a federation view has no path /metrics."""

    def request(self, path: str, status: int, seconds: float) -> None: ...

    def cut(self, reason: str) -> None: ...


class FederationView:
    """Serves the status of all agents to this machine, until `stop`.

    Args:
        status: returns `{"agents": {name: status or None}, "edges": [[name, name], ...]}`.
        token: that requests must show.
    """

    def __init__(self, status: Callable[[], Any], token: str) -> None:
        from starlette.routing import Route, Router

        self._events = EventStream(status)
        routes = [
            Route("/v1/federation", Get(lambda: encode(status())), methods=["GET"]),
            Route("/v1/events", self._events, methods=["GET"]),
        ]
        router = Router([*routes, *file_routes(DASHBOARD)], redirect_slashes=False)
        metrics = _NoMetrics()
        guard = Guard(router, token, {"localhost", "127.0.0.1"}, metrics)
        self._server = HttpServer(guard, metrics)

    async def start(self, port: int = 0) -> str:
        """Listen; return the URL."""
        return await self._server.start(Address("127.0.0.1", port))

    async def stop(self) -> None:
        """End all streams, and stop listening."""
        self._events.end()
        await self._server.stop()
