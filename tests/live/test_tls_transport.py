"""Real links on the loopback address: neighbours hear each other, and nobody else is heard."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.live.federation import keys
from fedbandits.live.operations.ports import held_ports
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.transport import tls as tls_transport
from fedbandits.live.transport.link import MOST_BYTES
from fedbandits.live.transport.tls import COUNTS, TlsTransport

from .links import WAIT, Path3, handshake, keep, play, send_until, server, until


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path3]:
    """a - b - c, with keys."""
    with held_ports(4) as ports:
        yield Path3(tmp_path, ports)


SHORT = 7 / 86_400
"""Days of a certificate that is to expire once a link is there, on a machine that is busy."""

BAD = COUNTS.keys() - {"sent", "received"}
"""What is not counted where all is well."""


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

        path.silence = 3.0

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
            # One that has nothing to say, and is there, is left alone.
            await asyncio.sleep(1.5 * path.silence)
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
                    end = time.monotonic() + WAIT
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
            assert "b uses its new keys" in caplog.text

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
            keys.renew(path.folder, "a", days=SHORT)
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

    @pytest.mark.soak
    def test_links_end_when_the_authority_expires(self, path: Path3) -> None:
        async def work() -> None:
            authority = keys.make_authority(days=SHORT)
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

    @pytest.mark.soak
    def test_who_is_refused_by_the_other_end_hears_why_and_waits_longer(self, path: Path3) -> None:
        """Of b, which opens the link to a: with TLS 1.3 it takes a refused link for an open one."""

        async def work() -> None:
            keys.renew(path.folder, "b", days=SHORT)
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

    def test_one_that_does_not_answer_in_time(
        self, path: Path3, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tls_transport, "CONNECT", 0.1)

        async def work() -> None:
            async def away(*_: Any, **__: Any) -> Any:
                await asyncio.Event().wait()

            monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", away)
            b = path.transport("b")
            await b.start(keep(path.heard["b"]))
            await until(
                lambda: (
                    b.obstacle("a") == f"no answer at {path.address['a']}: timed out after 0.1 s"
                )
            )

        play(path, work)

    def test_a_connection_that_ends_without_an_error_has_a_reason_too(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b")
            b = path.transports["b"]
            _, writer = await asyncio.open_connection(*path.address["b"].split(":"))
            writer.write(b"\x16\x03\x01")
            writer.close()
            await until(lambda: b.counts["refused"])
            assert (b.last_refusal or "").endswith("refused: the other end closed the connection")

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
