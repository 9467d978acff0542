"""What can be asked of the service, path by path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedbandits.live.agent.agent import Agent

from .answers import ALWAYS, JSON, Headers, answer, read
from .bodies import Choose, Chosen, Health, Observe, Observed, decoded, encode
from .events import Events
from .metrics import Metrics
from .openapi import document
from .refusals import RefusalError
from .static import files

if TYPE_CHECKING:
    from starlette.routing import Router
    from starlette.types import Receive, Scope, Send

_CHOOSE = msgspec.json.Decoder(Choose)
_OBSERVE = msgspec.json.Decoder(Observe)
_PLAIN: Headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), *ALWAYS]


class Post:
    """A path that takes a body."""

    def __init__(self, handle: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        await answer(send, await self._handle(await read(scope, receive)))


class Get:
    """A path that only tells."""

    def __init__(self, tell: Callable[[], bytes], headers: Headers = JSON) -> None:
        self._tell = tell
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """One request."""
        await answer(send, self._tell(), self._headers)


def application(
    agent: Agent, metrics: Metrics, events: Events, baseline: str | None, static: Path | None
) -> Router:
    """Everything behind the guard.

    Args:
        agent: does it.
        metrics: told under /metrics.
        events: told under /v1/events.
        baseline: the arm that is played in every round; None for what the agent draws.
        static: the folder of the dashboard.
    """
    from starlette.routing import Route, Router

    async def choose(body: bytes) -> bytes:
        asked = decoded(_CHOOSE, body)
        ticket = await agent.choose(asked.allowed, event=asked.event, baseline=baseline)
        event, would = ticket.event or msgspec.UNSET, ticket.would or msgspec.UNSET
        return encode(Chosen(ticket.id, ticket.arm, ticket.probability, event, would))

    async def observe(body: bytes) -> bytes:
        told = decoded(_OBSERVE, body)
        ticket = told.ticket if told.event is None else agent.ticket_of(told.event)
        await agent.observe(str(ticket), told.loss, reward=told.reward)
        return encode(Observed(counted=True))

    def health() -> bytes:
        if not agent.running:  # whoever asks shows no token, and is not told why
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
    for path, file in files(static).items():
        routes.append(Route(path, Get(partial(bytes, file.body), file.headers), methods=["GET"]))
    return Router(routes, redirect_slashes=False)
