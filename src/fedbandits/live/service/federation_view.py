"""A whole federation under one address: the dashboard of `live up`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .application import Get
from .bodies import encode
from .events import Events
from .guard import Guard
from .static import DASHBOARD, files

Tell = Callable[[], Any]


class _Uncounted:
    """In the place of metrics: a demonstration counts nothing."""

    def request(self, path: str, status: int, seconds: float) -> None: ...


class _View:
    """In the place of an agent, for `Events`."""

    def __init__(self, status: Tell) -> None:
        self.status = status


class FederationView:
    """Serves what is known of all agents, on this machine alone, until `stop`.

    Args:
        tell: `{"agents": {name: status or None}, "edges": [[name, name], ...]}`.
        token: that requests must show.
    """

    def __init__(self, tell: Tell, token: str) -> None:
        from starlette.routing import Route, Router

        self._events = Events(_View(tell))
        routes = [
            Route("/v1/federation", Get(lambda: encode(tell())), methods=["GET"]),
            Route("/v1/events", self._events, methods=["GET"]),
        ]
        for path, file in files(DASHBOARD).items():
            routes.append(
                Route(path, Get(partial(bytes, file.body), file.headers), methods=["GET"])
            )
        hosts = {"localhost", "127.0.0.1"}
        router = Router(routes, redirect_slashes=False)
        self._app = Guard(router, token, hosts, _Uncounted())
        self._server: Any = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, port: int = 0) -> str:
        """Listen; the address."""
        import uvicorn

        class Server(uvicorn.Server):
            """Leaves signals alone."""

            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                """The command has handlers of its own."""
                yield

        listening = socket.create_server(("127.0.0.1", port))
        config = uvicorn.Config(
            self._app, ws="none", lifespan="off", log_config=None, log_level="error",
            access_log=False, server_header=False, timeout_graceful_shutdown=2,
        )  # fmt: skip
        self._server = Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.01)
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    async def stop(self) -> None:
        """Let go."""
        if self._task is not None:
            self._server.should_exit = True
            self._events.end()
            await self._task
