"""uvicorn in the agent's own event loop, on an address that is safe to listen on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from fedbandits.common.checks import did_you_mean
from fedbandits.live.agent.agent import Agent
from fedbandits.live.federation.definition import Part
from fedbandits.live.transport.listener import Door

from . import patience
from .address import Address, check_safe, host_name, parse
from .application import application
from .bearer import checked_token, token_of
from .events import Events
from .guard import Guard, hosts_of_certificate
from .metrics import Metrics
from .static import DASHBOARD
from .tls import Certificate

HANDSHAKE_SECONDS = 5.0
"""For TLS to begin."""

STOP_SECONDS = 5
"""That requests under way have to be answered when the service stops."""


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
    """Serve an agent from now on, in this event loop, until `stop`.

    Args:
        agent: may be started before or after; until then requests are answered with 503.
        address: host and port; port 0 takes one that is free.
        token_file: The file with the token that requests must show; made at the first start.
        token: The token itself, instead of a file.
        read_token: A second token, which reads the status, events and metrics and nothing else.
        hosts: Names and IP addresses by which clients reach the service, in addition to the
            names in `address` and in the certificate. `*.` at the beginning stands for one label.
        tls: the files of the certificate and its key. Needed on any address that other machines
            reach. They may be replaced while the service runs.
        baseline: apprentice mode: this arm is played, and answers tell what would have been.
        static: the folder of the pages served under `/`; the dashboard by default.

    Raises:
        ValueError: if the address is not safe without TLS, if other users may read the token file,
            or if a token or a host is malformed.
        OSError: if the address cannot be listened on.
    """
    where = parse(address)
    check_safe(where, tls is not None)
    if baseline is not None:
        _check_baseline(agent.part, baseline)
    certificate = None if tls is None else Certificate(Path(tls[0]), Path(tls[1]))
    known = {host_name(host) for host in hosts}
    service = Service(
        agent,
        where,
        *_tokens(token_file, token, read_token),
        known,
        certificate,
        baseline,
        DASHBOARD if static is None else Path(static),
    )
    await service.start()
    return service


class Service:
    """What `serve` gives.

    Attributes:
        url: where it is.
        token: that requests must show.
    """

    def __init__(
        self,
        agent: Agent,
        address: Address,
        token: str,
        read_token: str | None,
        hosts: set[str],
        certificate: Certificate | None,
        baseline: str | None,
        static: Path,
    ) -> None:
        self.token = token
        self.url = ""
        self._address = address
        self._certificate = certificate
        agent.baseline = baseline
        self.metrics = Metrics(agent, baseline)
        self.events = self.metrics.events = Events(agent)
        hosts = hosts | {address.host}
        if address.local:
            hosts |= {"localhost", "127.0.0.1", "::1"}
        if certificate is not None:
            hosts |= hosts_of_certificate(certificate.chain.read_bytes())
        app = application(agent, self.metrics, self.events, baseline, static)
        self.guard = Guard(app, token, hosts, self.metrics, read_token)
        self._server: Any = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen."""
        listening = _listening(self._address)
        host, port = listening.getsockname()[:2]
        scheme = "http" if self._certificate is None else "https"
        self.url = f"{scheme}://{Address(host, port)}"
        self._server = _server(self, listening)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.001)
        if self._task.done():
            await self._task

    async def stop(self) -> None:
        """Answer what is under way, and let go."""
        if self._task is None:
            return
        self._server.should_exit = True
        self.events.end()
        task, self._task = self._task, None
        await task

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
            f"baseline: {type(part.algorithm).__name__} cannot learn while one arm is played for "
            "sure. Exp3, FedExp3 and FedHedge can"
        )


def _listening(address: Address) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # With its protocol said: asyncio then sends small answers at once.
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
    except OSError as error:
        found.close()
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    return found


def _server(service: Service, listening: socket.socket) -> Any:
    """uvicorn, with the limits that it leaves open."""
    import uvicorn

    protocol = patience.protocol_class(service.metrics)

    class Server(uvicorn.Server):
        """Leaves signals alone, and looks after slow connections."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """The program that runs the agent has handlers of its own."""
            yield

        async def startup(
            self,
            sockets: list[socket.socket] | None = None,  # noqa: ARG002
        ) -> None:
            """As uvicorn's, with less time to begin TLS, and for fewer at once."""
            await self.lifespan.startup()

            def connection() -> Any:
                return protocol(self.config, self.server_state, {})

            certificate = service._certificate
            server: Any
            if certificate is None:
                loop = asyncio.get_running_loop()
                server = await loop.create_server(connection, sock=listening)
            else:
                # Who is still in the handshake is none of the connections that are counted.
                server = Door(
                    listening,
                    connection,
                    lambda: certificate.context,
                    lambda *_: service.metrics.cut("handshake"),
                    HANDSHAKE_SECONDS,
                )
            self.servers = [server]
            self.started = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """As uvicorn's; and who has not ended by then is cut."""
            await super().shutdown(sockets)
            for server in self.servers:
                if isinstance(server, Door):
                    await server.wait_closed()
            for connection in list(self.server_state.connections):
                connection.transport.abort()

        async def on_tick(self, counter: int) -> bool:
            """Ten times a second."""
            for connection in list(self.server_state.connections):
                if isinstance(connection, patience.Patience):
                    connection.cut_if_overdue()
            if counter % 100 == 0 and service._certificate is not None:
                service._certificate.renew()
            return await super().on_tick(counter)

    config = uvicorn.Config(
        service.guard,
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
        timeout_keep_alive=patience.KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=patience.HEAD_BYTES,
    )
    return Server(config)
