"""Neighbours on the loopback address, and clients that pretend to be neighbours."""

from __future__ import annotations

import asyncio
import functools
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fedbandits.live.federation import certificates, keys
from fedbandits.live.transport.interface import Receive, Transport
from fedbandits.live.transport.tls_transport import SILENCE, TlsTransport

WAIT = 30.0
"""Seconds to wait for an event that must happen."""


class Names(NamedTuple):
    """A stand-in for a federation where only the names matter."""

    members: tuple[str, ...]


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition that must become true."""
    end = asyncio.get_running_loop().time() + WAIT
    while not condition():
        assert asyncio.get_running_loop().time() < end, "waited in vain"
        await asyncio.sleep(0.01)


async def send_until(
    transport: Transport, to: str, message: bytes, condition: Callable[[], Any]
) -> None:
    """Send a message repeatedly until a condition is true."""

    def done() -> Any:
        if found := condition():
            return found
        transport.send(to, message)
        return None

    await until(done)


class Path3:
    """The members a - b - c of a path, with keys and addresses; d is a member without links."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.folder = folder
        keys.write_keys(Names(("a", "b", "c", "d")), folder)
        self.address = {name: f"127.0.0.1:{port}" for name, port in zip("abcd", ports, strict=True)}
        self.neighbours = {"a": "b", "b": "ac", "c": "b"}
        self.heard: dict[str, list[tuple[str, bytes]]] = {name: [] for name in "abc"}
        self.silence = SILENCE
        self.transports: dict[str, TlsTransport] = {}

    def transport(self, name: str, others: dict[str, str | None] | None = None) -> TlsTransport:
        """Return the transport of a member, not started."""
        near = {other: self.address[other] for other in self.neighbours[name]}
        self.transports[name] = TlsTransport(
            name,
            self.address[name],
            near if others is None else others,
            self.folder / name,
            check=0.1,
            silence=self.silence,
        )
        return self.transports[name]

    async def start(self, *names: str) -> None:
        """Start the transports of some members, and keep their messages in `heard`."""
        for name in names:
            await self.transport(name).start(keep(self.heard[name]))

    async def start_b(self) -> TlsTransport:
        """Start b, whose only neighbour is a, which opens the link."""
        b = self.transport("b", {"a": None})
        await b.start(keep(self.heard["b"]))
        return b

    async def stop(self) -> None:
        """Stop all transports."""
        for transport in self.transports.values():
            await transport.stop()

    async def hears(self, receiver: str, sender: str, message: bytes) -> None:
        """Send a message until it arrives: links need a moment."""
        heard = self.heard[receiver]
        await send_until(
            self.transports[sender], receiver, message, lambda: (sender, message) in heard
        )

    def endpoint(self, name: str) -> tuple[str, int]:
        """Return the host and the port of a member."""
        host, _, port = self.address[name].rpartition(":")
        return host, int(port)

    def connect(self, name: str, number: int = 1, source: str = "") -> list[socket.socket]:
        """Open connections to a member, and send nothing."""
        return [
            socket.create_connection(self.endpoint(name), source_address=(source, 0))
            for _ in range(number)
        ]


def on_path(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop, and stop the transports of its argument `path`."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        async def main() -> None:
            try:
                await test(*args, **fixtures)
            finally:
                await fixtures["path"].stop()

        asyncio.run(main())

    return run


def keep(heard: list[tuple[str, bytes]]) -> Receive:
    """Return a function that appends messages to a list."""
    return lambda sender, message: heard.append((sender, message))


def credentials(folder: Path, name: str, place: Path, **options: Any) -> Path:
    """Write a certificate of `name` that differs from the one in the folder of all keys."""
    authority = options.pop("authority", None) or keys.read_authority(folder)
    pair = certificates.make_member(authority, name, **options)
    place.mkdir()
    (place / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    (place / "cert.pem").write_bytes(pair.certificate)
    (place / "key.pem").write_bytes(pair.key)
    return place


def client(own: Path | None) -> ssl.SSLContext:
    """Return a context that trusts any server, and shows the certificate in a folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if own is not None:
        context.load_cert_chain(own / "cert.pem", own / "key.pem")
    return context


@contextmanager
def handshake(
    address: str,
    own: Path | None,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    called: str | None = None,
) -> Iterator[ssl.SSLSocket]:
    """Open a link that trusts any server.

    Args:
        address: of the server.
        own: the folder with the certificate to show.
        newest: version of TLS.
        called: the server name that the client asks for.
    """
    context = client(own)
    context.maximum_version = newest
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=WAIT) as connection,
        context.wrap_socket(connection, server_hostname=called) as link,
    ):
        yield link


def server(own: Path) -> ssl.SSLContext:
    """Return the context of a server that asks for no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "cert.pem", own / "key.pem")
    return context


def tls_connections() -> int:
    """Return how many TLS connections of asyncio are in memory, each with 256 KiB of buffer."""
    return sum(type(each) is SSLProtocol for each in gc.get_objects())


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Stop the garbage collector, which runs too rarely for objects that are few and large."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
