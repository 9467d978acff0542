"""What stands before every request: host, origin, token and rate; and every error becomes JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from fedbandits.common.log_limit import limited_logger

from .answers import JSON, GoneError, answer
from .bearer import shown
from .bodies import encode
from .rates import Buckets, Rate, client_of
from .refusals import Failure, RefusalError, refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = limited_logger("fedbandits.live.service")

WITH_TOKEN = Rate(each=5_000, all=10_000)
WITHOUT = Rate(each=50, all=200)
"""Limits of clients without a token. Clients with the read token have separate limits."""

HEALTH = "/healthz"


class Counts(Protocol):
    """What is told of every request."""

    def request(self, path: str, status: int, seconds: float) -> None:
        """One that is over."""


class Guard:
    """Lets through what may be done.

    Args:
        app: what does it.
        token: that requests to /v1 and /metrics must show.
        hosts: names under which the service is known; `*.` stands for one label.
        metrics: counts requests and how long they took.
        read_token: A token that permits GET and HEAD only, if the service has one.
        with_token: the rate of clients that show the token.
        without: of those that do not.
        clock: in seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        hosts: Collection[str],
        metrics: Counts,
        read_token: str | None = None,
        with_token: Rate = WITH_TOKEN,
        without: Rate = WITHOUT,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._read_token = None if read_token is None else read_token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)
        self._metrics = metrics
        self._clock = clock
        now = clock()
        self._known = Buckets(with_token, now)
        self._readers, self._strangers = Buckets(without, now), Buckets(without, now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        began = self._clock()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(scope, began)
            scope["app"] = self  # the router then raises what it refuses
            await self._app(scope, receive, noted)
        except GoneError:
            pass
        except Exception as error:
            if status:  # half an answer is out: cut it off
                raise
            await _refuse(noted, _as_refusal(error, scope), scope["method"])
        finally:
            self._metrics.request(scope["path"], status, self._clock() - began)

    def _check(self, scope: Scope, now: float) -> None:
        path = scope["path"]
        trusted = shown(scope["headers"], self._token)
        reads = self._read_token is not None and shown(scope["headers"], self._read_token)
        # The connection is then not the first to go when there are too many.
        scope["state"]["trusted"] = trusted or reads
        # Health is asked for by whoever restarts the agent: a flood must not make it look ill.
        if path != HEALTH:
            client = client_of(scope["client"][0]) if scope["client"] else ""
            rates = self._known if trusted else self._readers if reads else self._strangers
            if not rates.take(client, now):
                raise RefusalError("too_many", "more requests a second than are taken; wait a bit")
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
            raise RefusalError("cross_site", "pages of other sites may not ask")
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
    if found := refusal(error):
        return found
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            return RefusalError("method", f"{scope['path']} takes {allowed}, not {scope['method']}")
        return RefusalError("not_found", f"there is nothing under {scope['path']}")
    _log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
    return RefusalError("internal", "a mistake of the service; its log says more")


_AFTER_BODY = ("malformed", "unknown_ticket", "conflict", "expired", "refused", "stopped")
"""What is found out when the body has been read."""


async def _refuse(send: Send, error: RefusalError, method: str) -> None:
    headers = list(JSON)
    if error.kind == "unauthorised":
        headers.append((b"www-authenticate", b"Bearer"))
    if error.kind == "too_many":
        headers.append((b"retry-after", b"1"))
    unread = method not in ("GET", "HEAD") and error.kind not in _AFTER_BODY
    if unread or error.kind == "too_many":  # what else the client sends is not read
        headers.append((b"connection", b"close"))
    await answer(send, encode(Failure(str(error), error.kind)), headers, error.status)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).removeprefix("[").removesuffix("]")


def _known_as(host: str, hosts: Collection[str]) -> bool:
    """Whether a service of these names is meant.

    Example:
        >>> _known_as("a.shops.org", {"*.shops.org"}), _known_as("a.b.shops.org", {"*.shops.org"})
        (True, False)
    """
    return host in hosts or f"*.{host.partition('.')[2]}" in hosts


def hosts_of_certificate(certificate: bytes) -> set[str]:
    """The names and numbers that a certificate is for."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate)
    try:
        names: Any = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError(
            f"the certificate of {found.subject.rfc4514_string()} names no host (it has no subject "
            "alternative names), so no client would believe it; `fedbandits live keys` makes one"
        ) from None
    numbers = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    return numbers | set(names.get_values_for_type(x509.DNSName))
