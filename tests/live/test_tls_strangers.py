"""Links on the loopback address: refusals of strangers, and limits on mad neighbours."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from fedbandits.live.federation import certificates
from fedbandits.live.transport import link as tls_link
from fedbandits.live.transport import tls_transport
from fedbandits.live.transport.inbox import MOST_PER_SECOND, Inbox
from fedbandits.live.transport.listener import MOST_HANDSHAKES
from fedbandits.live.transport.tls_transport import TlsTransport

from .links import (
    WAIT,
    Path3,
    client,
    credentials,
    handshake,
    keep,
    on_path,
    send_until,
    server,
    tls_connections,
    until,
    without_garbage_collection,
)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let handshakes take longer than any test waits."""
    monkeypatch.setattr(tls_transport, "HANDSHAKE", 3 * WAIT)


def handshakes(transport: TlsTransport) -> int:
    """Return the number of unfinished handshakes."""
    assert transport._listener is not None
    return len(transport._listener.handshakes)


STRANGERS = {
    "no certificate": ("peer did not return a certificate", "refused"),
    "another authority": ("certificate verify failed", "refused"),
    "expired": ("certificate has expired", "refused"),
    "not yet valid": ("certificate is not yet valid", "refused"),
    "signed by a member": ("certificate verify failed", "refused"),
    "not a neighbour": ("", "strangers"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
@on_path
async def test_strangers_are_refused_and_counted(path: Path3, stranger: str) -> None:
    """In the handshake, or as soon as it is done; the links of neighbours stay."""
    now, pem = datetime.now(UTC), [path.folder / "d" / f"{file}.pem" for file in ("cert", "key")]
    member = certificates.CertifiedKey(*(file.read_bytes() for file in pem))
    options: dict[str, dict[str, Any]] = {
        "another authority": {"authority": certificates.make_authority()},
        "expired": {"now": now - timedelta(days=400)},
        "not yet valid": {"now": now + timedelta(days=2)},
        "signed by a member": {"authority": member},
    }
    own = path.folder / "d" if stranger == "not a neighbour" else None
    if stranger in options:
        own = credentials(path.folder, "a", path.folder / "own", **options[stranger])
    if own is not None and stranger == "signed by a member":
        with (own / "cert.pem").open("ab") as chain:
            chain.write(member.certificate)
    reason, count = STRANGERS[stranger]
    await path.start("b", "c")
    await path.hears("b", "c", b"before")
    b = path.transports["b"]
    assert b.counts[count] == 0

    def talk() -> bytes:
        with handshake(path.address["b"], own) as link:
            with suppress(OSError):
                link.sendall(b"\0\0\0\3lie")
            return link.recv(1)

    with suppress(OSError):
        assert await asyncio.to_thread(talk) == b""
    await until(lambda: b.counts[count] == 1)
    assert reason in (b.last_refusal or "")
    await path.hears("b", "c", b"after")
    assert {message for _, message in path.heard["b"]} == {b"before", b"after"}
    assert b.linked == {"c"}


@on_path
async def test_older_versions_of_tls_are_refused(path: Path3) -> None:
    await path.start("b")

    def connect() -> None:
        with handshake(path.address["b"], path.folder / "a", ssl.TLSVersion.TLSv1_2):
            pass

    with pytest.raises(ssl.SSLError):
        await asyncio.to_thread(connect)
    await until(lambda: path.transports["b"].counts["refused"] == 1)
    assert "unsupported protocol" in (path.transports["b"].last_refusal or "")


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@on_path
async def test_unfinished_handshakes_keep_no_neighbour_out(path: Path3) -> None:
    """Plain TCP, garbage and silence, before and while a neighbour connects."""
    await path.start("b")
    b = path.transports["b"]
    clients = path.connect("b", 20)
    for each in clients:
        each.sendall(b"garbage" * 100)
    await until(lambda: b.counts["refused"] == 20)
    clients += path.connect("b", 80)
    await until(lambda: b.counts["refused"] == 100 - MOST_HANDSHAKES)
    assert handshakes(b) == MOST_HANDSHAKES
    await path.start("c")
    await path.hears("b", "c", b"here")
    assert handshakes(b) == MOST_HANDSHAKES - 1  # one made room for c, and none had to wait
    for each in clients:
        each.close()
    await until(lambda: b.counts["refused"] == 100)
    assert handshakes(b) == 0


@pytest.mark.usefixtures("patient")
@on_path
async def test_the_address_with_most_handshakes_makes_room(path: Path3) -> None:
    """A slow handshake of a distant neighbour outlasts a flood from another address."""
    b = await path.start_b()
    [distant] = path.connect("b")
    await until(lambda: handshakes(b) == 1)
    others = path.connect("b", 2 * MOST_HANDSHAKES, source="127.0.0.2")
    await until(lambda: b.counts["refused"] == MOST_HANDSHAKES + 1)

    def talk() -> None:
        with client(path.folder / "a").wrap_socket(distant) as link:
            link.sendall(b"\0\0\0\4here")

    await asyncio.to_thread(talk)
    await until(lambda: path.heard["b"] == [("a", b"here")])
    for each in others:
        each.close()


@pytest.mark.slow
@on_path
async def test_a_handshake_that_stops_is_cut(path: Path3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE", 0.5)
    await path.start("b")
    [connection] = path.connect("b")
    connection.sendall(b"\x16\x03\x01")
    await until(lambda: path.transports["b"].counts["refused"])
    assert await asyncio.to_thread(connection.recv, 1) == b""
    connection.close()


@pytest.mark.slow
@on_path
async def test_repeated_links_of_members_that_are_not_neighbours(path: Path3) -> None:
    await path.start("b", "c")
    await path.hears("b", "c", b"before")
    b = path.transports["b"]
    most = 0

    def connect() -> None:
        nonlocal most
        for _ in range(100):
            with suppress(OSError), handshake(path.address["b"], path.folder / "d") as link:
                most = max(most, len(b._open))
                link.recv(1)

    connecting = [asyncio.create_task(asyncio.to_thread(connect)) for _ in range(4)]
    turn = 0
    while not all(each.done() for each in connecting):
        turn += 1
        await path.hears("b", "c", b"%d" % turn)
    await asyncio.gather(*connecting)
    await until(lambda: b.counts["strangers"] == 400)
    await until(lambda: len(b._open) == 1)
    assert most <= 6  # four of d, and c's
    assert {sender for sender, _ in path.heard["b"]} == {"c"}


@pytest.mark.parametrize("impostor", ["another authority", "d", "c"])
@on_path
async def test_an_impostor_at_the_address_of_a_neighbour(path: Path3, impostor: str) -> None:
    """An impostor may itself be a neighbour, but not the one that was called."""
    own, counted = path.folder / impostor, "strangers"
    if impostor == "another authority":
        other = certificates.make_authority()
        own = credentials(path.folder, "a", path.folder / "other", authority=other)
        counted = "refused"

    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0\0\0\3lie")

    async with await asyncio.start_server(greet, *path.endpoint("a"), ssl=server(own)):
        await path.start("b", "c")
        await path.hears("b", "c", b"here")
        b = path.transports["b"]
        await until(lambda: b.counts[counted])
        assert b.linked == {"c"}
        await path.hears("b", "c", b"still here")
        assert b"lie" not in {message for _, message in path.heard["b"]}


@on_path
async def test_messages_that_are_too_large_half_or_too_many(path: Path3) -> None:
    heard, b = path.heard["b"], await path.start_b()

    def talk(data: bytes) -> bytes:
        with handshake(path.address["b"], path.folder / "a") as link:
            with suppress(OSError):
                link.sendall(data)
            link.settimeout(0.2)
            with suppress(OSError):
                return link.recv(1)
        return b""

    await asyncio.to_thread(talk, (100_000_000).to_bytes(4, "big") + b"x" * 1_000_000)
    assert (b.counts["oversized"], b.counts["half"]) == (1, 0)
    await asyncio.to_thread(talk, b"\0\0\0\7half")
    await until(lambda: b.counts["half"] == 1)
    assert heard == []
    began = int(time.monotonic())
    await asyncio.to_thread(talk, b"\0\0\0\4many" * 20_000)
    await until(lambda: b.counts["dropped"] + b.counts["received"] == 20_000)
    seconds = int(time.monotonic()) - began + 1
    await until(lambda: len(heard) == b.counts["received"])
    assert len(heard) <= MOST_PER_SECOND * seconds
    assert set(heard) == {("a", b"many")}
    assert b.counts["half"] == 1


@on_path
async def test_bytes_over_the_limit_of_a_second_wait(
    path: Path3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_link, "MOST_TAKEN_BYTES", 5 * 1000)
    b = path.transport("b")
    b.inbox = Inbox(keep([]), b.counts)
    link = tls_link.Link(b)
    link._transport = reading = Mock(asyncio.Transport)
    link.data_received(((1000).to_bytes(4, "big") + bytes(1000)) * 6)
    assert b.counts["received"] == 5
    reading.pause_reading.assert_called_once()
    reading.resume_reading.assert_not_called()
    link._resume()
    assert (b.counts["received"], b.counts["paused"]) == (6, 1)
    reading.resume_reading.assert_called_once()


ANSWERING = """
import asyncio, sys
from fedbandits.live import TlsTransport
name, listen, neighbour, address, keys = sys.argv[1:]

async def main():
    transport = TlsTransport(name, listen, {neighbour: address}, keys)
    await transport.start(lambda sender, message: transport.send(sender, b"answer"))
    await asyncio.to_thread(sys.stdin.read)
    await transport.stop()

asyncio.run(main())
"""


@pytest.mark.slow
@on_path
async def test_a_stopped_neighbour_holds_up_no_other(path: Path3) -> None:
    path.silence = 1.0
    await path.start("b", "c")
    arguments = ("a", path.address["a"], "b", path.address["b"], f"{path.folder / 'a'}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ANSWERING, *arguments, stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    b = path.transports["b"]

    def answered() -> bool:
        return ("a", b"answer") in path.heard["b"]

    try:
        await send_until(b, "a", b"?", answered)
        process.send_signal(signal.SIGSTOP)
        for turn in range(3000):  # 30 MB: more than sockets and queues hold
            b.send("a", b"x" * 10_000)
            if turn % 300 == 0:
                await path.hears("c", "b", b"%d" % turn)
                await path.hears("b", "c", b"%d" % turn)
        assert b.counts["unsent"] > 1000
        await until(lambda: "a" not in b.linked)
        process.send_signal(signal.SIGCONT)
        path.heard["b"].clear()
        await send_until(b, "a", b"?", answered)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.stdin.close()
        await process.wait()


@pytest.mark.usefixtures("patient")
@on_path
async def test_memory_of_cut_handshakes_is_freed_at_once(path: Path3) -> None:
    with without_garbage_collection():
        b = await path.start_b()
        before = tls_connections()
        clients: list[socket.socket] = []

        def connect() -> None:
            for _ in range(3 * MOST_HANDSHAKES):
                clients.extend(path.connect("b"))
                clients[-1].sendall(b"\x16\x03\x01\x02\x00\x01")  # half a handshake

        await asyncio.to_thread(connect)
        await until(lambda: b.counts["refused"] == 2 * MOST_HANDSHAKES)
        await until(lambda: tls_connections() <= before + MOST_HANDSHAKES)
        for each in clients:
            each.close()
        await until(lambda: tls_connections() <= before)


@on_path
async def test_memory_of_links_that_could_not_be_opened_is_freed_at_once(path: Path3) -> None:
    """Each attempt to a neighbour that does not use TLS fails, and attempts go on."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    with without_garbage_collection():
        async with await asyncio.start_server(talk, *path.endpoint("a")):
            before = tls_connections()
            await path.start("b")
            await until(lambda: path.transports["b"].counts["refused"] == 3)
            await until(lambda: tls_connections() <= before)
