"""Neighbours on the loopback address, and others that pretend to be."""

from __future__ import annotations

import asyncio
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
"""Seconds after which what should happen has not."""


class Names(NamedTuple):
    """Stands for a federation where only the names matter."""

    members: tuple[str, ...]


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that must happen."""
    end = asyncio.get_running_loop().time() + WAIT
    while not condition():
        assert asyncio.get_running_loop().time() < end, "waited in vain"
        await asyncio.sleep(0.01)


async def send_until(
    transport: Transport, to: str, message: bytes, condition: Callable[[], Any]
) -> None:
    """Send again and again, until something that must happen has."""

    def done() -> Any:
        if found := condition():
            return found
        transport.send(to, message)
        return None

    await until(done)


class Path3:
    """The members a - b - c of a path, with keys and addresses; d is a member, and apart."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.folder = folder
        keys.write_keys(Names(("a", "b", "c", "d")), folder)
        self.address = {name: f"127.0.0.1:{port}" for name, port in zip("abcd", ports, strict=True)}
        self.neighbours = {"a": "b", "b": "ac", "c": "b"}
        self.heard: dict[str, list[tuple[str, bytes]]] = {name: [] for name in "abc"}
        self.silence = SILENCE
        self.transports: dict[str, TlsTransport] = {}

    def transport(self, name: str) -> TlsTransport:
        """The transport of a member, not started."""
        others = {other: self.address[other] for other in self.neighbours[name]}
        made = TlsTransport(
            name,
            self.address[name],
            others,
            self.folder / name,
            check=0.1,
            silence=self.silence,
        )
        self.transports[name] = made
        return made

    async def start(self, *names: str) -> None:
        """Start some, and keep what they hear."""
        for name in names:
            await self.transport(name).start(keep(self.heard[name]))

    async def stop(self) -> None:
        """Stop those that run."""
        for transport in self.transports.values():
            await transport.stop()

    async def hears(self, receiver: str, sender: str, message: bytes) -> None:
        """Send until it arrives: links need a moment."""
        heard = self.heard[receiver]
        await send_until(
            self.transports[sender], receiver, message, lambda: (sender, message) in heard
        )


def play(path: Path3, work: Callable[[], Awaitable[None]]) -> None:
    """Run, and end whatever was started."""

    async def main() -> None:
        try:
            await work()
        finally:
            await path.stop()

    asyncio.run(main())


def keep(heard: list[tuple[str, bytes]]) -> Receive:
    """Hear all."""
    return lambda sender, message: heard.append((sender, message))


def credentials(folder: Path, name: str, place: Path, **options: Any) -> Path:
    """A certificate of `name` that differs from the true one in the folder of all keys."""
    authority = options.pop("authority", None) or keys.read_authority(folder)
    pair = certificates.make_member(authority, name, **options)
    place.mkdir()
    (place / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    (place / "cert.pem").write_bytes(pair.certificate)
    (place / "key.pem").write_bytes(pair.key)
    return place


def client(own: Path | None) -> ssl.SSLContext:
    """Believes anybody, and shows the certificate in a folder."""
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
    """A link by Python's TLS, which believes anybody.

    Args:
        address: where to.
        own: the folder with the certificate to show.
        newest: version of TLS.
        called: the name of the server that is asked for.
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
    """Someone who listens under these keys, and asks nobody who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "cert.pem", own / "key.pem")
    return context


def tls_connections() -> int:
    """Return how many TLS connections of asyncio are in memory, each with 256 KiB of buffer."""
    return sum(type(each) is SSLProtocol for each in gc.get_objects())


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Stop the collector of cycles, which runs too rarely for objects that are few and large."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
