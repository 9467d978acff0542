"""Messages over plain TLS 1.3 streams: what `ZenohTransport` does, with nothing between.

Zenoh cannot tell how many handshakes it refused, holds links of members that are no neighbours, and
believes public authorities when it opens a link. Here every refusal is counted, a stranger is cut
off as soon as its certificate is seen, and the federation's authority is the only one.

A message is its length in four bytes and itself; an empty one says that the sender is there.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .inbox import Inbox
from .keys import KeysError, check_member, member_named
from .links import opens, reachable, stamp
from .transport import Receive

_log = logging.getLogger("fedbandits.live")

MOST_BYTES = 2**19
"""Of a message. A link that announces a larger one is cut before it is read."""

MOST_UNSENT = 2**20
"""Bytes that wait on a link; what finds no room is dropped."""

MOST_HANDSHAKES = 64
"""Under way at once; who comes on top is turned away."""

HANDSHAKE = 5.0
"""Seconds for a handshake."""

HEARTBEAT = 2.0
SILENCE = 10.0
"""Seconds between two signs of life, and without one until a link counts as broken."""

RETRY = (0.2, 4.0)
"""Seconds between two attempts to open a link, at first and at most."""

CHECK = 5.0
"""Seconds between two looks at the certificate."""


class TlsTransport:
    """Carries messages between neighbours on a network.

    Of two neighbours the one that owns their edge opens the link, unless the other cannot be
    reached. A link that breaks is opened again.

    Args:
        name: of the agent, as its certificate names it.
        listen: "host:port" where neighbours reach it; None if they cannot (it then opens all
            links).
        neighbours: "host:port" of each; None for one that cannot be reached.
        keys: folder with ca.pem, cert.pem and key.pem. A renewed certificate is taken by itself,
            and no link is closed for it.
        check: seconds between two looks at the certificate.
        silence: seconds without a sign of life until a link counts as broken.

    Attributes:
        counts: sent, unsent (a link was busy), received, dropped (a flood), refused (handshakes),
            strangers (members that are no neighbours, or not whom they should be), oversized,
            reloads (of the certificate).
        last_refusal: why the last handshake was refused.
    """

    def __init__(
        self,
        name: str,
        listen: str | None,
        neighbours: Mapping[str, str | None],
        keys: str | Path,
        *,
        check: float = CHECK,
        silence: float = SILENCE,
    ) -> None:
        self.name = name
        self.listen = listen
        self.neighbours = reachable(name, listen, neighbours)
        self.keys = Path(keys)
        names = ("sent", "unsent", "received", "dropped", "refused", "strangers", "oversized")
        self.counts: Counter[str] = Counter(dict.fromkeys([*names, "reloads"], 0))
        self.last_refusal: str | None = None
        self.silence = silence
        self.inbox: Inbox | None = None
        self._check = check
        self._links: dict[str, _Link] = {}
        self._open: set[_Link] = set()
        """Links of neighbours, and others that are not closed yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._handshakes = 0
        for address in self.neighbours.values():
            if address is not None:
                _host_and_port(address)

    async def start(self, receive: Receive) -> None:
        """Listen, open links, and hand over what arrives."""
        if self.inbox is not None:
            raise RuntimeError(f"the transport of {self.name} is running already")
        self._read_keys()
        if self.listen is not None:
            self._socket = await _listening(self.listen, self.name)
            self._await_links(self._socket)
        self.inbox = Inbox(receive, self.counts)
        for neighbour, address in self.neighbours.items():
            if address is not None and opens(self.name, self.listen, neighbour, address):
                self._begin(self._keep_open(neighbour, address))
        self._begin(self._look_after())

    def send(self, to: str, message: bytes) -> None:
        """Send and forget: dropped if there is no link, or if it is busy."""
        if to not in self.neighbours:
            raise ValueError(f"{to!r} is no neighbour of {self.name!r}")
        if len(message) > MOST_BYTES:
            raise ValueError(f"a message of {len(message):,} bytes; {MOST_BYTES:,} are allowed")
        link = self._links.get(to)
        if link is not None:
            self.counts["sent" if link.send(message) else "unsent"] += 1

    async def stop(self) -> None:
        """Hand over nothing more, and close all links."""
        if self.inbox is not None:
            self.inbox.close()
            self.inbox = None
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            # A turn of the loop, in which handshakes begin: one that has not cannot be ended.
            await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        links = list(self._open)
        for link in links:
            link.cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDSHAKE):
                await asyncio.gather(*(link.gone.wait() for link in links))

    @property
    def linked(self) -> frozenset[str]:
        """Neighbours to which there is a link now."""
        return frozenset(self._links)

    # What links call

    def opened(self, link: _Link) -> bool:
        """A handshake is done: keep the link of a neighbour, instead of the one before."""
        self._open.add(link)
        name = link.peer
        if self.inbox is None:
            return False
        if name is None or name not in self.neighbours or link.expected not in (None, name):
            self.counts["strangers"] += 1
            return False
        if (before := self._links.get(name)) is not None:
            before.cut()
        self._links[name] = link
        return True

    def closed(self, link: _Link) -> None:
        """A link is gone."""
        self._open.discard(link)
        if link.peer is not None and self._links.get(link.peer) is link:
            del self._links[link.peer]

    # What runs all the time

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _await_links(self, listening: socket.socket) -> None:
        if listening is self._socket:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Someone is at the door. (asyncio's own server does not tell of handshakes that fail.)"""
        try:
            connection, _ = listening.accept()
        except OSError as error:  # gone meanwhile, or no file handles left: ask again later
            self.counts["refused"] += 1
            self.last_refusal = str(error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(RETRY[0], self._await_links, listening)
            return
        connection.setblocking(False)
        if self._handshakes >= MOST_HANDSHAKES:
            self.counts["refused"] += 1
            connection.close()
        else:
            self._handshakes += 1
            self._begin(self._welcome(connection))

    async def _welcome(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Link(self), connection, ssl=self._server, ssl_handshake_timeout=HANDSHAKE
            )
        except OSError as error:
            self.counts["refused"] += 1
            self.last_refusal = str(error)
        finally:
            self._handshakes -= 1

    async def _keep_open(self, neighbour: str, address: str) -> None:
        """Open the link to a neighbour whenever there is none."""
        host, port = _host_and_port(address)
        pause = RETRY[0]
        while True:
            with suppress(OSError):
                _, link = await asyncio.get_running_loop().create_connection(
                    lambda: _Link(self, expected=neighbour),
                    host,
                    port,
                    ssl=self._client,
                    server_hostname=host,
                    ssl_handshake_timeout=HANDSHAKE,
                )
                if self._links.get(neighbour) is link:
                    pause = RETRY[0]
                await link.gone.wait()
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY[1])

    async def _look_after(self) -> None:
        """Show signs of life, cut what shows none, and take a renewed certificate."""
        taken = seen = stamp(self.keys)
        looked = time.monotonic()
        while True:
            await asyncio.sleep(min(HEARTBEAT, self._check, self.silence / 4))
            for link in list(self._links.values()):
                if link.is_over():
                    link.cut()
                else:
                    link.send(b"")
            if time.monotonic() - looked < self._check:
                continue
            looked, now = time.monotonic(), stamp(self.keys)
            if now == seen != taken:
                taken = now
                try:
                    self._read_keys()
                    self.counts["reloads"] += 1
                except (KeysError, OSError) as error:
                    _log.warning("%s goes on with its old certificate: %s", self.name, error)
            seen = now

    def _read_keys(self) -> None:
        check_member(self.keys, self.name)
        self._server, self._client = (
            _context(self.keys, side) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )


class _Link(asyncio.Protocol):
    """One connection, either way."""

    def __init__(self, owner: TlsTransport, expected: str | None = None) -> None:
        self.expected = expected
        self.peer: str | None = None
        self.gone = asyncio.Event()
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._heard_at = time.monotonic()
        self._expires = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """After the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
        named = dict(pair for part in certificate.get("subject", ()) for pair in part)
        self.peer = member_named(named.get("commonName"))
        self._expires = ssl.cert_time_to_seconds(certificate["notAfter"])
        if not self._owner.opened(self):
            self.cut()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Closed by either end."""
        self._owner.closed(self)
        self._transport = None
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        """Hand over what is whole."""
        inbox, received = self._owner.inbox, self._received
        self._heard_at = time.monotonic()
        received += data
        start = 0
        while len(received) - start >= 4 and self._transport is not None and inbox is not None:
            size = int.from_bytes(received[start : start + 4], "big")
            if size > MOST_BYTES:
                self._owner.counts["oversized"] += 1
                self.cut()
                return
            end = start + 4 + size
            if len(received) < end:
                break
            if size:
                inbox.put(str(self.peer), bytes(received[start + 4 : end]))
            start = end
        del received[:start]

    def send(self, message: bytes) -> bool:
        """Whether there was room."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > MOST_UNSENT:
            return False
        transport.write(len(message).to_bytes(4, "big") + message)
        return True

    def is_over(self) -> bool:
        """Whether it is silent for too long, or its certificate has expired."""
        silent = time.monotonic() - self._heard_at
        return silent > self._owner.silence or time.time() > self._expires

    def cut(self) -> None:
        """Close at once."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()


def _context(keys: Path, side: int) -> ssl.SSLContext:
    """TLS 1.3, with a certificate of the federation's authority at both ends."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(keys / "ca.pem")
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # every link shows its certificate anew
    return context


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(
            f"an address is host:port, such as site3.example.org:7447, not {address!r}"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


async def _listening(address: str, name: str) -> socket.socket:
    host, port = _host_and_port(address)
    loop = asyncio.get_running_loop()
    try:
        [(family, *_, place), *_] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listening = socket.create_server(place[:2], family=family, backlog=128)
    except OSError as error:
        raise OSError(f"{name} cannot listen on {address}: {error}") from error
    listening.setblocking(False)
    return listening
