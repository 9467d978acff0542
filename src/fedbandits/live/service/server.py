"""The service of an agent: an HTTP server in the agent's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fedbandits.common.checks import did_you_mean
from fedbandits.live.agent.agent import Agent
from fedbandits.live.federation.federation import Part
from fedbandits.live.transport.listener import TlsListener

from . import connection
from .address import Address, check_safe, host_name, parse
from .application import DASHBOARD, application
from .certificate import ServiceCertificate
from .events import EventStream
from .guard import Guard
from .metrics import Metrics
from .tokens import checked_token, token_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HANDSHAKE_SECONDS = 5.0
"""The longest TLS handshake."""

STOP_SECONDS = 5
"""Time for unfinished requests when the server stops."""


async def serve(
    agent: Agent,
    address: str = "127.0.0.1:0",
    *,
    token_file: str | Path | None = None,
    token: str | None = None,
    read_token: str | None = None,
    hosts: Collection[str] = (),
    tls: tuple[str | Path, str | Path] | None = None,
    baseline: str | None = None,
    static: str | Path | None = None,
) -> Service:
    """Serve an agent in this event loop until `stop`.

    Args:
        agent: may be started before or after; while it does not run, responses have status 503.
        address: host and port; port 0 takes any free port.
        token_file: file with the token that requests must show; created if it does not exist.
        token: the token itself, instead of a file.
        read_token: a second token, which reads the status, events and metrics and nothing else.
        hosts: names and IP addresses by which clients reach the service, in addition to the
            names in `address` and in the certificate. `*.` at the beginning stands for one label.
        tls: the files of the certificate and its key. Required on addresses that other machines
            can reach. The files may be replaced while the service runs.
        baseline: apprentice mode: the arm to play in every round. Responses also name the arm that
            the agent drew.
        static: the folder of the pages served under `/`; the dashboard by default.

    Raises:
        ValueError: if the address is not safe without TLS, if other users may read the token file,
            or if a token or a host is malformed.
        OSError: if the server cannot listen on the address.
    """
    where = parse(address)
    check_safe(where, tls is not None)
    if baseline is not None:
        _check_baseline(agent.part, baseline)
    certificate = None if tls is None else ServiceCertificate(Path(tls[0]), Path(tls[1]))
    service = Service(
        agent,
        where,
        *_tokens(token_file, token, read_token),
        {host_name(host) for host in hosts},
        certificate,
        baseline,
        DASHBOARD if static is None else Path(static),
    )
    await service.start()
    return service


class Service:
    """The service of an agent, as `serve` returns it.

    Attributes:
        url: the address of the service.
        token: that requests must show.
    """

    def __init__(
        self,
        agent: Agent,
        address: Address,
        token: str,
        read_token: str | None,
        hosts: set[str],
        certificate: ServiceCertificate | None,
        baseline: str | None,
        static: Path,
    ) -> None:
        self.token = token
        self.url = ""
        self._address = address
        agent.baseline = baseline
        self.metrics = Metrics(agent, baseline)
        self.events = self.metrics.events = EventStream(agent.status)
        hosts = hosts | {address.host}
        if address.local:
            hosts |= {"localhost", "127.0.0.1", "::1"}
        if certificate is not None:
            hosts |= certificate.hosts()
        app = application(agent, self.metrics, self.events, baseline, static)
        self.guard = Guard(app, token, hosts, self.metrics, read_token)
        self.server = HttpServer(self.guard, self.metrics, certificate)

    async def start(self) -> None:
        """Listen."""
        self.url = await self.server.start(self._address)

    async def stop(self) -> None:
        """Finish the requests that have begun, and stop listening."""
        self.events.end()
        await self.server.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _tokens(
    file: str | Path | None, token: str | None, read_token: str | None
) -> tuple[str, str | None]:
    """Return the token and the read token; raise ValueError if they are malformed or equal."""
    if (file is None) == (token is None):
        raise ValueError("give either token_file or token")
    if read_token is not None:
        read_token = checked_token(read_token, "read_token")
    full = token_of(Path(file)) if file is not None else checked_token(str(token), "token")
    if full == read_token:
        raise ValueError("the token and the read token are equal; choose another read token")
    return full, read_token


def _check_baseline(part: Part, baseline: str) -> None:
    if baseline not in part.arms:
        meant = did_you_mean(baseline, part.arms)
        raise ValueError(
            f"baseline: no arm {baseline!r}{meant} The arms are {', '.join(part.arms)}"
        )
    if not part.algorithm.sleeps:
        raise ValueError(
            f"baseline: {type(part.algorithm).__name__} cannot learn from one fixed arm; use Exp3, "
            "FedExp3 or FedHedge"
        )


class HttpServer:
    """A uvicorn server in this event loop, with limits on slow and numerous connections.

    Args:
        app: the application.
        metrics: counts the connections that the server closes.
        certificate: for TLS, if any.

    Attributes:
        uvicorn: the server of uvicorn, once started.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: connection.CountsCuts,
        certificate: ServiceCertificate | None = None,
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.certificate = certificate
        self.uvicorn: Any = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, address: Address) -> str:
        """Listen; return the URL."""
        listening = _listening_socket(address)
        host, port = listening.getsockname()[:2]
        self.uvicorn = _uvicorn_server(self, listening)
        self._task = asyncio.create_task(self.uvicorn.serve(sockets=[listening]))
        while not self.uvicorn.started and not self._task.done():
            await asyncio.sleep(0.001)
        if self._task.done():
            await self._task
        return f"{'http' if self.certificate is None else 'https'}://{Address(host, port)}"

    async def stop(self) -> None:
        """Finish the requests that have begun, and stop listening."""
        if self._task is not None:
            self.uvicorn.should_exit = True
            task, self._task = self._task, None
            await task


def _listening_socket(address: Address) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol.
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
    except OSError as error:
        found.close()
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    return found


def _uvicorn_server(http: HttpServer, listening: socket.socket) -> Any:
    """Return a server of uvicorn with the limits that uvicorn leaves open."""
    import uvicorn

    protocol = connection.protocol_class(http.metrics)

    class LimitedServer(uvicorn.Server):
        """A server that leaves signals alone and closes slow connections."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to the program that runs the agent."""
            yield

        async def startup(
            self,
            sockets: list[socket.socket] | None = None,  # noqa: ARG002
        ) -> None:
            """Listen, with limits on the time and number of TLS handshakes."""
            await self.lifespan.startup()

            def connect() -> Any:
                return protocol(self.config, self.server_state, {})

            certificate = http.certificate
            server: Any
            if certificate is None:
                server = await asyncio.get_running_loop().create_server(connect, sock=listening)
            else:
                # Connections count only after their handshake.
                server = TlsListener(
                    listening,
                    connect,
                    lambda: certificate.context,
                    lambda *_: http.metrics.cut("handshake"),
                    HANDSHAKE_SECONDS,
                )
            self.servers = [server]
            self.started = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Shut down as uvicorn does, then close the connections that remain."""
            await super().shutdown(sockets)
            for server in self.servers:
                if isinstance(server, TlsListener):
                    await server.wait_closed()
            for each in list(self.server_state.connections):
                each.transport.abort()

        async def on_tick(self, counter: int) -> bool:
            """Close slow connections, ten times a second, and reload the certificate."""
            for each in list(self.server_state.connections):
                if isinstance(each, connection.LimitedConnection):
                    each.cut_if_overdue()
            if counter % 100 == 0 and http.certificate is not None:
                http.certificate.reload()
            return await super().on_tick(counter)

    config = uvicorn.Config(
        http.app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        # A warning for every malformed request would let strangers fill the log.
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=connection.KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=connection.HEAD_BYTES,
    )
    return LimitedServer(config)
