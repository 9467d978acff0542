"""Links on the loopback address: they are kept open, renewed, and their failures explained."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.live.federation import certificates, keys
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.transport import tls_transport
from fedbandits.live.transport.link import MOST_BYTES
from fedbandits.live.transport.tls_transport import COUNTS, TlsTransport

from .links import WAIT, Path3, handshake, keep, on_path, server, until

SHORT = 7 / 86_400
"""Days of a certificate that expires soon after a link is open, also on a busy machine."""

BAD = COUNTS.keys() - {"sent", "received"}
"""Counters that stay zero between honest neighbours."""


@on_path
async def test_neighbours_receive_messages_with_their_sender(path: Path3) -> None:
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


@pytest.mark.slow
@on_path
async def test_links_come_back_after_a_restart(path: Path3) -> None:
    await path.start("a", "b", "c")
    for turn, name in enumerate("abc"):
        await path.transports[name].stop()
        assert path.transports[name].linked == frozenset()
        await path.start(name)
        for one, other in ("ab", "ba", "bc", "cb"):
            await path.hears(one, other, b"turn %d" % turn)


@on_path
async def test_a_neighbour_that_does_not_respond_is_tried_again(
    path: Path3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is known meanwhile; TCP alone would wait for minutes."""
    monkeypatch.setattr(tls_transport, "CONNECT", 0.1)
    loop = asyncio.get_running_loop()
    connect, calls, away = loop.create_connection, 0, True

    async def away_at_first(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if away:
            await asyncio.Event().wait()
        return await connect(*arguments, **options)

    monkeypatch.setattr(loop, "create_connection", away_at_first)
    b = path.transport("b", {"a": path.address["a"]})
    await b.start(keep(path.heard["b"]))
    reason = f"no answer at {path.address['a']}: timed out after 0.1 s"
    await until(lambda: b.obstacle("a") == reason)
    assert calls >= 1
    away = False
    monkeypatch.setattr(tls_transport, "CONNECT", 10.0)
    await path.start("a")
    await path.hears("a", "b", b"at last")


@pytest.mark.parametrize(("hidden", "public"), ["ab", "ba"])
@on_path
async def test_a_member_without_an_address_opens_its_links(
    path: Path3, hidden: str, public: str
) -> None:
    address = path.address[public]
    path.transports[hidden] = TlsTransport(hidden, None, {public: address}, path.folder / hidden)
    await path.transports[hidden].start(keep([]))
    await path.transport(public, {hidden: None}).start(keep(path.heard[public]))
    await path.hears(public, hidden, b"here")


@on_path
async def test_invalid_arguments_are_rejected(path: Path3) -> None:
    with pytest.raises(ValueError, match="neither 'a' nor 'b' can be reached"):
        TlsTransport("a", None, {"b": None}, path.folder / "a")
    for address in ("site3", "site3:", "site3:99999", "a..b:7447", ".org:7447"):
        with pytest.raises(ValueError, match="an address is host:port"):
            TlsTransport("a", None, {"b": address}, path.folder / "a")
    transport = path.transport("a")
    with pytest.raises(ValueError, match="'c' is not a neighbour of 'a'"):
        transport.send("c", b"")
    with pytest.raises(ValueError, match="524,289 bytes; at most 524,288 are allowed"):
        transport.send("b", b"x" * (MOST_BYTES + 1))
    transport.send("b", b"dropped before the start")
    assert transport.counts["sent"] == 0
    await path.start("b")
    path.address["a"] = path.address["b"]
    with pytest.raises(OSError, match=r"a cannot listen on 127\.0\.0\.1:\d+"):
        await path.start("a")
    path.address["a"] = "nowhere"
    with pytest.raises(ValueError, match="an address is host:port"):
        await path.start("a")
    wrong = TlsTransport("a", None, {"b": path.address["b"]}, path.folder / "c")
    with pytest.raises(certificates.KeysError, match="a certificate of 'c', not of 'a'"):
        await wrong.start(keep([]))


@pytest.mark.slow
@on_path
async def test_a_silent_link_is_opened_again(path: Path3) -> None:
    """As to a neighbour whose process hangs while its machine keeps the connection."""
    path.silence = 3.0
    met = 0

    def hang(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        nonlocal met
        met += 1

    own = server(path.folder / "a")
    async with await asyncio.start_server(hang, *path.endpoint("a"), ssl=own):
        await path.start("b", "c")
        await until(lambda: met == 2)
    b = path.transports["b"]
    assert b.counts["silent"] >= 1
    await path.start("a")
    await path.hears("b", "a", b"alive")
    link, silent = b._links["a"], b.counts["silent"]
    # Heartbeats keep a link open that carries no messages.
    await asyncio.sleep(1.5 * path.silence)
    assert (b._links["a"], b.counts["silent"]) == (link, silent)


@on_path
async def test_a_second_link_of_a_neighbour_replaces_the_first(path: Path3) -> None:
    b = await path.start_b()

    def talk() -> int:
        with (
            handshake(path.address["b"], path.folder / "a") as first,
            handshake(path.address["b"], path.folder / "a") as second,
        ):
            second.sendall(b"\0\0\0\3two")
            with suppress(OSError):
                while first.recv(100):
                    pass  # heartbeats, until the link is closed
            end = time.monotonic() + WAIT
            while len(b._open) != 1 and time.monotonic() < end:
                time.sleep(0.01)  # b learns of the end a turn of its loop later
            return len(b._open)

    assert await asyncio.to_thread(talk) == 1
    await until(lambda: path.heard["b"] == [("a", b"two")])


@pytest.mark.slow
@on_path
async def test_a_renewed_certificate_is_used_and_no_link_closed(
    path: Path3, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fedbandits.live")
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


@pytest.mark.slow
@on_path
async def test_a_link_ends_with_its_certificate_and_comes_back_with_a_new_one(
    path: Path3,
) -> None:
    """The certificate of a expires, while b opens the link."""
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


@pytest.mark.soak
@on_path
async def test_links_end_with_the_certificate_of_the_authority(path: Path3) -> None:
    authority = certificates.make_authority(days=SHORT)
    for name in "bc":
        pair, own = certificates.make_member(authority, name), path.folder / name
        (own / "ca.pem").write_bytes(authority.certificate)
        (own / "cert.pem").write_bytes(pair.certificate)
        (own / "key.pem").write_bytes(pair.key)
    await path.start("b", "c")
    await path.hears("b", "c", b"before")
    await until(lambda: not path.transports["b"].linked)
    assert sum(each.counts["expired"] for each in path.transports.values()) >= 1


@pytest.mark.soak
@on_path
async def test_a_refused_member_learns_why_and_waits_longer(path: Path3) -> None:
    """With TLS 1.3, b takes a link that a refuses for an open one."""
    keys.renew(path.folder, "b", days=SHORT)
    await path.start("a", "b")
    a, b = path.transports["a"], path.transports["b"]
    await path.hears("b", "a", b"before")
    await until(lambda: b.counts["refused"] >= 2)
    assert "before the first message" in (b.last_refusal or "")
    assert "certificate has expired" in (a.last_refusal or "")
    await asyncio.sleep(2.0)  # pauses begin with 0.2 s and double
    assert b.counts["refused"] <= 6
    keys.renew(path.folder, "b", days=1)
    await until(lambda: b.counts["reloads"])
    await path.hears("a", "b", b"after")


@on_path
async def test_the_log_and_the_status_explain_a_missing_link_once(
    path: Path3, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c opens the link to b, which has no neighbours; a waits for b to open theirs."""
    monkeypatch.setattr(tls_transport, "MISSED", 0.2)
    path.neighbours = {"a": "b", "b": "", "c": "b"}
    shops = fb.live.Federation(["tea", "coffee"], fb.networks.path(2), ["b", "c"])
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


@on_path
async def test_an_absent_neighbour_is_an_obstacle_until_it_comes(path: Path3) -> None:
    await path.start("b")
    b = path.transports["b"]
    await until(lambda: f"no answer at {path.address['a']}" in (b.obstacle("a") or ""))
    await path.start("a")
    await path.hears("b", "a", b"here")
    assert b.obstacle("a") is None


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\x16\x03\x01", "refused: the other end closed the connection"),
        (b"GET / HTTP/1.1\r\n\r\n", "the handshake from 127.0.0.1 was refused: "),
    ],
)
@on_path
async def test_a_failed_handshake_has_a_reason_and_an_address(
    path: Path3, caplog: pytest.LogCaptureFixture, sent: bytes, why: str
) -> None:
    await path.start("b")
    [connection] = path.connect("b")
    connection.sendall(sent)
    if sent.startswith(b"\x16"):
        connection.close()
    b = path.transports["b"]
    await until(lambda: b.counts["refused"])
    connection.close()
    assert why in (b.last_refusal or "")
    # A client that only connects and leaves is not worth a warning.
    assert ("was refused" in caplog.text) == sent.startswith(b"GET")
