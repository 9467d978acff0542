"""The paths of a service: the API, and the files of the dashboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fedbandits.live.agent.agent import Agent

from .bodies import (
    ALWAYS,
    JSON,
    Choose,
    Chosen,
    Headers,
    Health,
    Observe,
    Observed,
    decode,
    encode,
    read_body,
    respond,
)
from .events import EventStream
from .metrics import Metrics
from .openapi import document
from .refusals import RefusalError

if TYPE_CHECKING:
    from starlette.routing import Route, Router
    from starlette.types import Receive, Scope, Send

DASHBOARD = Path(__file__).parents[1] / "dashboard"

FILE_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Content types of the files that the service sends; it sends no other files."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Restricts a page to its own scripts and to requests to this service."""

_FILE_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_CHOOSE = msgspec.json.Decoder(Choose)
_OBSERVE = msgspec.json.Decoder(Observe)
_PLAIN: Headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), *ALWAYS]


class Post:
    """A path that takes a body."""

    def __init__(self, handle: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await respond(send, await self._handle(await read_body(scope, receive)))


class Get:
    """A path that returns a body."""

    def __init__(self, body: Callable[[], bytes], headers: Headers = JSON) -> None:
        self._body = body
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Handle one request."""
        await respond(send, self._body(), self._headers)


def application(
    agent: Agent, metrics: Metrics, events: EventStream, baseline: str | None, static: Path
) -> Router:
    """Return the application behind the guard.

    Args:
        agent: the agent that chooses and observes.
        metrics: served under /metrics.
        events: served under /v1/events.
        baseline: the arm that is played in every round; None for the arm that the agent draws.
        static: the folder of the dashboard.
    """
    from starlette.routing import Route, Router

    async def choose(body: bytes) -> bytes:
        request = decode(_CHOOSE, body)
        ticket = await agent.choose(request.allowed, event=request.event, baseline=baseline)
        event, would = ticket.event or msgspec.UNSET, ticket.would or msgspec.UNSET
        return encode(Chosen(ticket.id, ticket.arm, ticket.probability, event, would))

    async def observe(body: bytes) -> bytes:
        request = decode(_OBSERVE, body)
        ticket = request.ticket if request.event is None else agent.ticket_of(request.event)
        await agent.observe(str(ticket), request.loss, reward=request.reward)
        return encode(Observed(counted=True))

    def health() -> bytes:
        if not agent.running:  # without the reason: this path needs no token
            raise RefusalError("stopped", "the agent does not run")
        return encode(Health(running=True))

    openapi = encode(document())
    routes = [
        Route("/v1/choose", Post(choose), methods=["POST"]),
        Route("/v1/observe", Post(observe), methods=["POST"]),
        Route("/v1/status", Get(lambda: encode(agent.status())), methods=["GET"]),
        Route("/v1/events", events, methods=["GET"]),
        Route("/healthz", Get(health), methods=["GET"]),
        Route("/metrics", Get(metrics.text, _PLAIN), methods=["GET"]),
        Route("/openapi.json", Get(lambda: openapi), methods=["GET"]),
    ]
    return Router([*routes, *file_routes(static)], redirect_slashes=False)


class StaticFile(NamedTuple):
    """The body and the headers of a file."""

    body: bytes
    headers: Headers


def static_files(folder: Path) -> dict[str, StaticFile]:
    """Return the files in a folder by path, with `index.html` also under `/`.

    The files are read once, so that no path of a request ever reaches the disk.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in FILE_TYPES and path.is_file():
            headers = {"content-type": FILE_TYPES[path.suffix]} | _FILE_HEADERS
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            name = f"/{path.relative_to(folder).as_posix()}"
            found[name] = StaticFile(path.read_bytes(), encoded)
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


def file_routes(folder: Path) -> list[Route]:
    """Return a route for each file in a folder."""
    from starlette.routing import Route

    return [
        Route(path, Get(partial(bytes, file.body), file.headers), methods=["GET"])
        for path, file in static_files(folder).items()
    ]
