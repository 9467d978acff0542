"""Links on the loopback address that nobody else gets through, and neighbours that went mad."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from fedbandits.live.agent.inbox import MOST_PER_SECOND, Inbox
from fedbandits.live.federation import certificates
from fedbandits.live.operations.local_cluster import reserved_ports
from fedbandits.live.transport import link as tls_link
from fedbandits.live.transport import tls_transport as tls_transport
from fedbandits.live.transport.listener import MOST_HANDSHAKES
from fedbandits.live.transport.tls_transport import TlsTransport

from .links import (
    WAIT,
    Path3,
    client,
    credentials,
    handshake,
    keep,
    play,
    send_until,
    server,
    tls_connections,
    until,
    without_garbage_collection,
)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path3]:
    """a - b - c, with keys."""
    with reserved_ports(4) as ports:
        yield Path3(tmp_path, ports)


def handshakes(transport: TlsTransport) -> int:
    """That are under way."""
    assert transport._listener is not None
    return len(transport._listener.handshakes)


class TestNobodyElse:
    """Refused, counted, and nothing handed over."""

    def refused(self, path: Path3, own: Path | None, reason: str, count: str) -> None:
        """By the handshake, or as soon as it is done."""

        async def work() -> None:
            await path.start("b", "c")
            await path.hears("b", "c", b"before")
            b = path.transports["b"]
            assert b.counts[count] == 0

            def knock() -> bytes:
                with handshake(path.address["b"], own) as link:
                    with suppress(OSError):
                        link.sendall(b"\0\0\0\3lie")
                    return link.recv(1)

            with suppress(OSError):
                assert await asyncio.to_thread(knock) == b""
            await until(lambda: b.counts[count] == 1)
            assert reason in (b.last_refusal or "")
            await path.hears("b", "c", b"after")
            assert {message for _, message in path.heard["b"]} == {b"before", b"after"}
            assert b.linked == {"c"}

        play(path, work)

    def test_no_certificate(self, path: Path3) -> None:
        self.refused(path, None, "peer did not return a certificate", "refused")

    def test_another_authority(self, path: Path3) -> None:
        own = credentials(
            path.folder, "a", path.folder / "other", authority=certificates.make_authority()
        )
        self.refused(path, own, "certificate verify failed", "refused")

    def test_an_expired_one(self, path: Path3) -> None:
        own = credentials(
            path.folder, "a", path.folder / "old", now=datetime.now(UTC) - timedelta(days=400)
        )
        self.refused(path, own, "certificate has expired", "refused")

    def test_one_that_is_not_yet_valid(self, path: Path3) -> None:
        own = credentials(
            path.folder, "a", path.folder / "early", now=datetime.now(UTC) + timedelta(days=2)
        )
        self.refused(path, own, "certificate is not yet valid", "refused")

    def test_a_member_that_is_no_neighbour(self, path: Path3) -> None:
        self.refused(path, path.folder / "d", "", "strangers")

    def test_older_versions_of_tls(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b")

            def knock() -> None:
                with handshake(path.address["b"], path.folder / "a", ssl.TLSVersion.TLSv1_2):
                    pass

            with pytest.raises(ssl.SSLError):
                await asyncio.to_thread(knock)
            await until(lambda: path.transports["b"].counts["refused"] == 1)
            assert "unsupported protocol" in (path.transports["b"].last_refusal or "")

        play(path, work)

    @pytest.mark.slow
    def test_plain_tcp_garbage_and_half_a_handshake(
        self, path: Path3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Many that hold the line, before and while a neighbour comes: it needs no patience."""
        monkeypatch.setattr(tls_transport, "HANDSHAKE", 3 * WAIT)  # who stands still may do so

        async def work() -> None:
            await path.start("b")
            host, _, port = path.address["b"].rpartition(":")
            b = path.transports["b"]
            knockers = [socket.create_connection((host, int(port))) for _ in range(20)]
            for each in knockers:
                each.sendall(b"garbage" * 100)
            await until(lambda: b.counts["refused"] == 20)
            knockers += [socket.create_connection((host, int(port))) for _ in range(80)]
            await until(lambda: b.counts["refused"] == 100 - MOST_HANDSHAKES)
            assert handshakes(b) == MOST_HANDSHAKES
            await path.start("c")
            await path.hears("b", "c", b"here")
            assert handshakes(b) == MOST_HANDSHAKES - 1  # one for c, and none had to give up
            for each in knockers:
                each.close()
            await until(lambda: b.counts["refused"] == 100)
            assert handshakes(b) == 0

        play(path, work)

    def test_who_comes_most_often_keeps_nobody_else_out(
        self, path: Path3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A neighbour far away, whose handshake takes longer than others need to come again."""
        monkeypatch.setattr(tls_transport, "HANDSHAKE", 3 * WAIT)

        async def work() -> None:
            heard: list[tuple[str, bytes]] = []
            b = TlsTransport("b", path.address["b"], {"a": None}, path.folder / "b")
            path.transports["b"] = b
            await b.start(keep(heard))
            host, _, port = path.address["b"].rpartition(":")
            with socket.create_connection((host, int(port))) as far:
                await until(lambda: handshakes(b) == 1)
                elsewhere = ("127.0.0.2", 0)
                others = [
                    socket.create_connection((host, int(port)), source_address=elsewhere)
                    for _ in range(2 * MOST_HANDSHAKES)
                ]
                await until(lambda: b.counts["refused"] == MOST_HANDSHAKES + 1)

                def talk() -> None:
                    with client(path.folder / "a").wrap_socket(far) as link:
                        link.sendall(b"\0\0\0\4here")

                await asyncio.to_thread(talk)
                await until(lambda: heard == [("a", b"here")])
            for each in others:
                each.close()

        play(path, work)

    @pytest.mark.slow
    def test_who_does_not_go_on_with_a_handshake_is_cut_off(
        self, path: Path3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tls_transport, "HANDSHAKE", 0.5)

        async def work() -> None:
            await path.start("b")
            host, _, port = path.address["b"].rpartition(":")
            with socket.create_connection((host, int(port))) as knocker:
                knocker.sendall(b"\x16\x03\x01")
                await until(lambda: path.transports["b"].counts["refused"])
                assert await asyncio.to_thread(knocker.recv, 1) == b""

        play(path, work)

    @pytest.mark.slow
    def test_members_that_are_no_neighbours_and_come_again_and_again(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b", "c")
            await path.hears("b", "c", b"before")
            b = path.transports["b"]
            most = 0

            def knock() -> None:
                nonlocal most
                for _ in range(100):
                    with suppress(OSError), handshake(path.address["b"], path.folder / "d") as link:
                        most = max(most, len(b._open))
                        link.recv(1)

            knocking = [asyncio.create_task(asyncio.to_thread(knock)) for _ in range(4)]
            turn = 0
            while not all(each.done() for each in knocking):
                turn += 1
                await path.hears("b", "c", b"%d" % turn)
            await asyncio.gather(*knocking)
            await until(lambda: b.counts["strangers"] == 400)
            await until(lambda: len(b._open) == 1)
            assert most <= 6  # four of theirs, and c's
            assert {sender for sender, _ in path.heard["b"]} == {"c"}

        play(path, work)

    @pytest.mark.parametrize("impostor", ["another authority", "d", "c"])
    def test_someone_else_at_the_address_of_a_neighbour(self, path: Path3, impostor: str) -> None:
        """Also another neighbour, which is who it is and not who is called."""

        async def work() -> None:
            own = path.folder / impostor
            if impostor == "another authority":
                own = credentials(
                    path.folder, "a", path.folder / "other", authority=certificates.make_authority()
                )

            def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(b"\0\0\0\3lie")

            host, _, port = path.address["a"].rpartition(":")
            async with await asyncio.start_server(greet, host, int(port), ssl=server(own)):
                await path.start("b", "c")
                await path.hears("b", "c", b"here")
                b = path.transports["b"]
                counted = "refused" if impostor == "another authority" else "strangers"
                await until(lambda: b.counts[counted])
                assert b.linked == {"c"}
                await path.hears("b", "c", b"still here")
                assert b"lie" not in {message for _, message in path.heard["b"]}

        play(path, work)


class TestTooMuch:
    """A neighbour that went mad: it has a certificate, and is believed to be who it is."""

    def test_a_hundred_megabytes_half_a_message_and_many(self, path: Path3) -> None:
        async def work() -> None:
            heard: list[tuple[str, bytes]] = []
            b = TlsTransport("b", path.address["b"], {"a": None}, path.folder / "b")
            path.transports["b"] = b
            await b.start(keep(heard))

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

        play(path, work)

    def test_more_bytes_than_are_read_in_a_second(
        self, path: Path3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is too much waits where it is, and is not lost."""
        monkeypatch.setattr(tls_link, "MOST_TAKEN_BYTES", 5 * 1000)

        async def work() -> None:
            heard: list[tuple[str, bytes]] = []
            b = path.transport("b")
            b.inbox = Inbox(keep(heard), b.counts)
            link = tls_link.Link(b)
            link._transport = reading = Mock(asyncio.Transport)
            link.data_received(((1000).to_bytes(4, "big") + bytes(1000)) * 6)
            assert b.counts["received"] == 5
            reading.pause_reading.assert_called_once()
            reading.resume_reading.assert_not_called()
            link._resume()
            assert b.counts["received"] == 6
            reading.resume_reading.assert_called_once()
            assert b.counts["paused"] == 1

        play(path, work)


STOPPED = """
import asyncio, sys
from fedbandits.live.transport.tls_transport import TlsTransport
name, listen, neighbour, address, keys = sys.argv[1:]

async def main():
    transport = TlsTransport(name, listen, {neighbour: address}, keys)
    await transport.start(lambda sender, message: transport.send(sender, b"answer"))
    await asyncio.to_thread(sys.stdin.read)
    await transport.stop()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_neighbour_that_stands_still_holds_up_nobody(path: Path3) -> None:
    path.silence = 1.0

    async def work() -> None:
        await path.start("b", "c")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            STOPPED,
            "a",
            path.address["a"],
            "b",
            path.address["b"],
            str(path.folder / "a"),
            stdin=subprocess.PIPE,
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

    play(path, work)


def test_memory_of_handshakes_that_were_cut_is_freed_at_once(
    path: Path3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the garbage collector, which runs too rarely for so few and large objects."""
    monkeypatch.setattr(tls_transport, "HANDSHAKE", 3 * WAIT)

    async def work() -> None:
        b = TlsTransport("b", path.address["b"], {"a": None}, path.folder / "b")
        path.transports["b"] = b
        await b.start(keep([]))
        host, _, port = path.address["b"].rpartition(":")
        before = tls_connections()
        knockers: list[socket.socket] = []

        def knock() -> None:
            for _ in range(3 * MOST_HANDSHAKES):
                knockers.append(socket.create_connection((host, int(port))))
                knockers[-1].sendall(b"\x16\x03\x01\x02\x00\x01")  # half a handshake

        await asyncio.to_thread(knock)
        await until(lambda: b.counts["refused"] == 2 * MOST_HANDSHAKES)
        await until(lambda: tls_connections() <= before + MOST_HANDSHAKES)
        for each in knockers:
            each.close()
        await until(lambda: tls_connections() <= before)

    with without_garbage_collection():
        play(path, work)


def test_memory_of_links_that_could_not_be_opened_is_freed_at_once(path: Path3) -> None:
    """Neighbours that do not speak TLS: each attempt fails, and there are more and more of them."""

    async def work() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await reader.read()
            writer.close()

        host, _, port = path.address["a"].rpartition(":")
        async with await asyncio.start_server(talk, host, int(port)):
            before = tls_connections()
            await path.start("b")
            await until(lambda: path.transports["b"].counts["refused"] == 3)
            await until(lambda: tls_connections() <= before)

    with without_garbage_collection():
        play(path, work)
