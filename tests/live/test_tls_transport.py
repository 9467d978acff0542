"""Real links on the loopback address: neighbours hear each other, and nobody else is heard."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import fedbandits as fb
from fedbandits.live import keys, tls_transport
from fedbandits.live import link as tls_link
from fedbandits.live.door import MOST_HANDSHAKES
from fedbandits.live.inbox import MOST_PER_SECOND, Inbox
from fedbandits.live.link import MOST_BYTES
from fedbandits.live.memory import MemoryStore
from fedbandits.live.tls_transport import COUNTS, TlsTransport

from .links import Path3, client, credentials, handshake, keep, play, send_until, until


@pytest.fixture
def path(tmp_path: Path) -> Path3:
    """a - b - c, with keys."""
    return Path3(tmp_path)


BAD = COUNTS.keys() - {"sent", "received"}
"""What is not counted where all is well."""


def server(own: Path) -> ssl.SSLContext:
    """Someone who listens under these keys, and asks nobody who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "cert.pem", own / "key.pem")
    return context


def handshakes(transport: TlsTransport) -> int:
    """That are under way."""
    assert transport._door is not None
    return len(transport._door.handshakes)


class TestNeighbours:
    """Who belongs together is linked, whatever happens in between."""

    def test_hear_each_other_and_know_who_speaks(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("a", "b", "c")
            await path.hears("b", "a", b"from a")
            await path.hears("b", "c", b"from c")
            await path.hears("a", "b", b"to a")
            await path.hears("c", "b", b"x" * MOST_BYTES)
            assert {sender for sender, _ in path.heard["b"]} == {"a", "c"}
            assert path.transports["b"].linked == {"a", "c"}
            assert {each.counts[what] for each in path.transports.values() for what in BAD} == {0}
            assert all(each.counts.keys() == COUNTS.keys() for each in path.transports.values())
            for link in [each for one in path.transports.values() for each in one._links.values()]:
                assert link._transport is not None
                connection = link._transport.get_extra_info("socket")
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

        play(path, work)

    @pytest.mark.slow
    def test_find_each_other_again(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("a", "b", "c")
            for turn, name in enumerate("abc"):
                await path.transports[name].stop()
                assert path.transports[name].linked == frozenset()
                await path.start(name)
                for one, other in ("ab", "ba", "bc", "cb"):
                    await path.hears(one, other, b"turn %d" % turn)

        play(path, work)

    def test_one_that_does_not_answer_is_called_again(
        self, path: Path3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As long as TCP waits for a machine that is away, nobody would wait for it."""
        monkeypatch.setattr(tls_transport, "CONNECT", 0.1)

        async def work() -> None:
            loop = asyncio.get_running_loop()
            real, calls = loop.create_connection, 0

            async def away_at_first(*arguments: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == 1:
                    await asyncio.Event().wait()
                return await real(*arguments, **options)

            monkeypatch.setattr(loop, "create_connection", away_at_first)
            b = path.transport("b")
            b.neighbours = {"a": path.address["a"]}
            await b.start(keep(path.heard["b"]))
            await until(lambda: calls == 1)
            monkeypatch.setattr(tls_transport, "CONNECT", 10.0)
            await path.start("a")
            await path.hears("a", "b", b"at last")

        play(path, work)

    def test_one_that_cannot_be_reached_opens_its_links(self, path: Path3) -> None:
        async def work() -> None:
            for inside, outside in ("ab", "ba"):
                address = path.address[outside]
                heard: list[tuple[str, bytes]] = []
                hidden = TlsTransport(inside, None, {outside: address}, path.folder / inside)
                public = TlsTransport(outside, address, {inside: None}, path.folder / outside)
                path.transports |= {inside: hidden, outside: public}
                await hidden.start(keep([]))
                await public.start(keep(heard))
                await send_until(hidden, outside, b"here", heard.copy)
                await path.stop()

        play(path, work)

    def test_what_cannot_be_is_refused_with_the_reason(self, path: Path3) -> None:
        with pytest.raises(ValueError, match="neither 'a' nor 'b' can be reached"):
            TlsTransport("a", None, {"b": None}, path.folder / "a")
        for address in ("site3", "site3:", "site3:99999", "a..b:7447", ".org:7447"):
            with pytest.raises(ValueError, match="an address is host:port"):
                TlsTransport("a", None, {"b": address}, path.folder / "a")
        transport = path.transport("a")
        with pytest.raises(ValueError, match="'c' is no neighbour of 'a'"):
            transport.send("c", b"")
        with pytest.raises(ValueError, match="524,289 bytes; 524,288 are allowed"):
            transport.send("b", b"x" * (MOST_BYTES + 1))
        transport.send("b", b"into the void, before the start")
        assert transport.counts["sent"] == 0

        async def work() -> None:
            await path.start("b")
            path.address["a"] = path.address["b"]
            with pytest.raises(OSError, match=r"a cannot listen on 127\.0\.0\.1:\d+"):
                await path.start("a")
            path.address["a"] = "nowhere"
            with pytest.raises(ValueError, match="an address is host:port"):
                await path.start("a")
            wrong = TlsTransport("a", None, {"b": path.address["b"]}, path.folder / "c")
            with pytest.raises(keys.KeysError, match="'c''s certificate, not 'a''s"):
                await wrong.start(keep([]))

        play(path, work)

    @pytest.mark.slow
    def test_a_link_over_which_nothing_comes_is_opened_anew(self, path: Path3) -> None:
        """As one to a neighbour whose process hangs, and whose machine keeps the connection."""

        async def work() -> None:
            met = 0

            def hang(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
                nonlocal met
                met += 1

            host, _, port = path.address["a"].rpartition(":")
            own = server(path.folder / "a")
            async with await asyncio.start_server(hang, host, int(port), ssl=own):
                await path.start("b", "c")
                await until(lambda: met == 2)
            b = path.transports["b"]
            assert b.counts["silent"] >= 1
            await path.start("a")
            await path.hears("b", "a", b"alive")
            link, silent = b._links["a"], b.counts["silent"]
            await asyncio.sleep(1.5)  # one that has nothing to say, and is there, is left alone
            assert (b._links["a"], b.counts["silent"]) == (link, silent)

        play(path, work)

    def test_a_second_link_of_a_neighbour_takes_the_place_of_the_first(self, path: Path3) -> None:
        async def work() -> None:
            heard: list[tuple[str, bytes]] = []
            b = TlsTransport("b", path.address["b"], {"a": None}, path.folder / "b")
            path.transports["b"] = b
            await b.start(keep(heard))

            def talk() -> int:
                with (
                    handshake(path.address["b"], path.folder / "a") as first,
                    handshake(path.address["b"], path.folder / "a") as second,
                ):
                    second.sendall(b"\0\0\0\3two")
                    with suppress(OSError):
                        while first.recv(100):
                            pass  # signs of life, until it is closed
                    end = time.monotonic() + 5
                    while len(b._open) != 1 and time.monotonic() < end:
                        time.sleep(0.01)  # b hears of the end a turn of its loop later
                    return len(b._open)

            assert await asyncio.to_thread(talk) == 1
            await until(lambda: heard == [("a", b"two")])

        play(path, work)


@pytest.mark.slow
class TestCertificates:
    """They are renewed, and they expire."""

    def test_a_renewed_one_is_taken_and_no_link_closed(
        self, path: Path3, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "fedbandits.live")

        async def work() -> None:
            await path.start("b", "c")
            await path.hears("b", "c", b"before")
            b, file = path.transports["b"], path.folder / "b" / "cert.pem"
            link, good = b._links["c"], file.read_bytes()
            file.write_bytes(b"half a certif")
            await asyncio.sleep(0.3)
            await path.hears("b", "c", b"with the old one")
            assert b.counts["reloads"] == 0
            file.write_bytes(good)
            keys.renew(path.folder, "b", days=700)
            await until(lambda: b.counts["reloads"])
            assert "b has taken its new certificate" in caplog.text

            def shown() -> bytes | None:
                with handshake(path.address["b"], path.folder / "c") as one:
                    return one.getpeercert(binary_form=True)

            assert b._links["c"] is link
            assert await asyncio.to_thread(shown) == ssl.PEM_cert_to_DER_cert(file.read_text())
            await path.hears("b", "c", b"after")

        play(path, work)

    def test_a_link_ends_when_one_expires_and_comes_back_with_a_new_one(self, path: Path3) -> None:
        """Of a, which then runs with an expired one of its own; b opens the link to it."""

        async def work() -> None:
            keys.renew(path.folder, "a", days=2 / 86_400)
            await path.start("a", "b", "c")
            a, b = path.transports["a"], path.transports["b"]
            await path.hears("b", "a", b"before")
            await path.hears("b", "c", b"before")
            link = b._links["c"]
            await until(lambda: b.counts["expired"])
            await until(lambda: not a.linked and not b.linked - {"c"})
            await until(lambda: "certificate has expired" in (b.last_refusal or ""))
            assert b.counts["refused"] >= 1
            keys.renew(path.folder, "a", days=1)
            await until(lambda: a.counts["reloads"])
            await path.hears("b", "a", b"after")
            await path.hears("a", "b", b"after")
            assert b._links["c"] is link

        play(path, work)

    def test_links_end_when_the_authority_expires(self, path: Path3) -> None:
        async def work() -> None:
            authority = keys.make_authority(days=5 / 86_400)
            for name in "bc":
                pair, own = keys.make_member(authority, name), path.folder / name
                (own / "ca.pem").write_bytes(authority.certificate)
                (own / "cert.pem").write_bytes(pair.certificate)
                (own / "key.pem").write_bytes(pair.key)
            await path.start("b", "c")
            await path.hears("b", "c", b"before")
            await until(lambda: not path.transports["b"].linked)
            assert sum(each.counts["expired"] for each in path.transports.values()) >= 1

        play(path, work)

    def test_who_is_refused_by_the_other_end_hears_why_and_waits_longer(self, path: Path3) -> None:
        """Of b, which opens the link to a: with TLS 1.3 it takes a refused link for an open one."""

        async def work() -> None:
            keys.renew(path.folder, "b", days=2 / 86_400)
            await path.start("a", "b")
            a, b = path.transports["a"], path.transports["b"]
            await path.hears("b", "a", b"before")
            await until(lambda: b.counts["refused"] >= 2)
            assert "before a word" in (b.last_refusal or "")
            assert "certificate has expired" in (a.last_refusal or "")
            await asyncio.sleep(2.0)  # 0.2 s and twice as long each time, and not 0.2 s for ever
            assert b.counts["refused"] <= 6
            keys.renew(path.folder, "b", days=1)
            await until(lambda: b.counts["reloads"])
            await path.hears("a", "b", b"after")

        play(path, work)


class TestWhoIsCutOffLearnsWhy:
    """In the log, once, and in the status of the neighbour."""

    def test_the_neighbours_file_does_not_have_it(
        self, path: Path3, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """c opens the link to b, which knows nobody; a waits for one that nobody opens."""
        monkeypatch.setattr(tls_transport, "MISSED", 0.2)
        path.neighbours = {"a": "b", "b": "", "c": "b"}
        shops = fb.live.Federation(["tea", "coffee"], fb.networks.path(2), ["b", "c"])

        async def work() -> None:
            await path.start("a", "b")
            a, c = path.transports["a"], path.transport("c")
            async with fb.live.Agent("c", shops, MemoryStore(), c) as agent:
                await until(lambda: c.counts["refused"] >= 2)
                why = agent.status().neighbours["b"].no_link or ""
            assert f"with b at {path.address['b']} was refused: it closed the link" in why
            assert "its file does not have this member" in why
            assert [each.getMessage() for each in caplog.records].count(f"c: {why}") == 1
            assert "waits for b to open the link" in (a.obstacle("b") or "")
            await until(lambda: "a: no link to b: waits for b" in caplog.text)

        play(path, work)

    def test_nobody_is_there(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b")
            b = path.transports["b"]
            await until(lambda: f"no answer at {path.address['a']}" in (b.obstacle("a") or ""))
            await path.start("a")
            await path.hears("b", "a", b"here")
            assert b.obstacle("a") is None

        play(path, work)

    def test_who_knocked_is_named_by_address(
        self, path: Path3, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def work() -> None:
            await path.start("b")
            _, writer = await asyncio.open_connection(*path.address["b"].split(":"))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await until(lambda: path.transports["b"].counts["refused"])
            writer.close()
            assert "b: the handshake from 127.0.0.1 was refused: " in caplog.text

        play(path, work)


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
        own = credentials(path.folder, "a", path.folder / "other", authority=keys.make_authority())
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
    def test_plain_tcp_garbage_and_half_a_handshake(self, path: Path3) -> None:
        """Many that hold the line, before and while a neighbour comes: it needs no patience."""

        async def work() -> None:
            await path.start("b")
            host, _, port = path.address["b"].rpartition(":")
            b = path.transports["b"]
            knockers = [socket.create_connection((host, int(port))) for _ in range(20)]
            for each in knockers:
                each.sendall(os.urandom(1000))
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

    def test_who_comes_most_often_keeps_nobody_else_out(self, path: Path3) -> None:
        """A neighbour far away, whose handshake takes longer than others need to come again."""

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
                    path.folder, "a", path.folder / "other", authority=keys.make_authority()
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
            link._go_on()
            assert b.counts["received"] == 6
            reading.resume_reading.assert_called_once()
            assert b.counts["paused"] == 1

        play(path, work)


STOPPED = """
import asyncio, sys
from fedbandits.live.tls_transport import TlsTransport
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
