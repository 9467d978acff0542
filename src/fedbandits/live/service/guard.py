"""Checks before every request: rate, host, origin and token. Every error becomes JSON."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from fedbandits.common.log_limit import limited_logger

from .bodies import JSON, DisconnectedError, encode, respond
from .rate_limit import RequestLimit, RequestRate, client_of
from .refusals import Failure, RefusalError, refusal_of
from .tokens import shows

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = limited_logger("fedbandits.live.service")

WITH_TOKEN = RequestRate(each=5_000, all=10_000)
WITHOUT = RequestRate(each=50, all=200)
"""Limits of clients without a token. Clients with the read token have separate limits."""

HEALTH = "/healthz"


class CountsRequests(Protocol):
    """A counter of requests."""

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that is over."""


class Guard:
    """An application that checks requests before it passes them on.

    Args:
        app: the application behind the guard.
        token: that requests to /v1 and /metrics must show.
        hosts: host names of the service; `*.` at the beginning stands for one label.
        metrics: counts requests and their duration.
        read_token: a token that permits GET and HEAD only, if the service has one.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        hosts: Collection[str],
        metrics: CountsRequests,
        read_token: str | None = None,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._read_token = None if read_token is None else read_token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)
        self._metrics = metrics
        self._clock = monotonic
        now = self._clock()
        self._known = RequestLimit(WITH_TOKEN, now)
        self._readers, self._strangers = RequestLimit(WITHOUT, now), RequestLimit(WITHOUT, now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check and handle one request."""
        began = self._clock()
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(scope, began)
            scope["app"] = self  # the router then raises its errors
            await self._app(scope, receive, send_and_note)
        except DisconnectedError:
            pass
        except Exception as error:
            if status:  # the response has begun: uvicorn closes the connection
                raise
            await _refuse(send_and_note, _as_refusal(error, scope), scope["method"])
        finally:
            self._metrics.request(scope["path"], status, self._clock() - began)

    def _check(self, scope: Scope, now: float) -> None:
        path = scope["path"]
        trusted = shows(scope["headers"], self._token)
        reads = self._read_token is not None and shows(scope["headers"], self._read_token)
        # Connections without a token are closed first if there are too many.
        scope["state"]["trusted"] = trusted or reads
        # A flood must not make supervisors restart a healthy agent.
        if path != HEALTH:
            client = client_of(scope["client"][0]) if scope["client"] else ""
            limit = self._known if trusted else self._readers if reads else self._strangers
            if not limit.take(client, now):
                raise RefusalError("too_many", "too many requests a second; try again later")
        named = [value for name, value in scope["headers"] if name == b"host"]
        host = named[0].decode("latin-1").lower() if len(named) == 1 else ""
        if not _known_as(_without_port(host), self._hosts):
            raise RefusalError(
                "misdirected",
                f"this service is not known as {host!r}, but as {', '.join(sorted(self._hosts))}; "
                "its operator adds names with hosts = [...] under [service] in agent.toml",
            )
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        own = f"{scope['scheme']}://{host}".encode("latin-1")
        if any(origin.lower() != own for origin in origins):
            raise RefusalError("cross_site", "pages of other sites may not use this service")
        if trusted or not (path.startswith("/v1/") or path in ("/v1", "/metrics")):
            return
        if not reads:
            raise RefusalError("unauthorised", "show the token: Authorization: Bearer <token>")
        if scope["method"] not in ("GET", "HEAD"):
            raise RefusalError(
                "read_only", "this token is read-only; use the service's other token"
            )


def _as_refusal(error: Exception, scope: Scope) -> RefusalError:
    from starlette.exceptions import HTTPException

    if isinstance(error, RefusalError):
        return error
    if found := refusal_of(error):
        return found
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            return RefusalError("method", f"{scope['path']} takes {allowed}, not {scope['method']}")
        return RefusalError("not_found", f"there is nothing under {scope['path']}")
    _log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
    return RefusalError("internal", "an error of the service; see its log")


_AFTER_BODY = ("malformed", "unknown_ticket", "conflict", "expired", "refused", "stopped")
"""Kinds of refusals after the whole body was read."""


async def _refuse(send: Send, error: RefusalError, method: str) -> None:
    headers = list(JSON)
    if error.kind == "unauthorised":
        headers.append((b"www-authenticate", b"Bearer"))
    if error.kind == "too_many":
        headers.append((b"retry-after", b"1"))
    unread = method not in ("GET", "HEAD") and error.kind not in _AFTER_BODY
    if unread or error.kind == "too_many":  # the service reads no more from this client
        headers.append((b"connection", b"close"))
    await respond(send, encode(Failure(str(error), error.kind)), headers, error.status)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).removeprefix("[").removesuffix("]")


def _known_as(host: str, hosts: Collection[str]) -> bool:
    """Return whether a host is one of these names.

    Example:
        >>> _known_as("a.shops.org", {"*.shops.org"}), _known_as("a.b.shops.org", {"*.shops.org"})
        (True, False)
    """
    return host in hosts or f"*.{host.partition('.')[2]}" in hosts
