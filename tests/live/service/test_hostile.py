"""Hostile clients: none gets in, and none stalls the agent."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest

from fedbandits.live.protocol.records import Changes
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.service import connection
from fedbandits.live.service.rate_limit import ADDRESSES, RequestLimit, RequestRate
from tests.live.links import WAIT, until

from .served import ALONE, READ_TOKEN, Served, kind_of, served, with_service

pytestmark = pytest.mark.slow


@pytest.fixture(params=["plain", "fast"], autouse=True)
def parsed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of the parsers, where both are there."""
    if request.param == "fast":
        pytest.importorskip("httptools")
    pick = partial(connection.protocol_class, fast=request.param == "fast")
    monkeypatch.setattr(connection, "protocol_class", pick)


PRIVATE = ("/v1/status", "/v1/events", "/metrics", "/v1/nothing", "/v1", "/v1/")
SHOWN = (None, "Bearer wrong", "Bearer", "Basic TOKEN", "TOKEN", "Bearer TOKENx", "Bearer é")


@with_service()
async def test_the_token_is_needed(it: Served) -> None:
    del it.client.headers["Authorization"]
    for path, header in itertools.product(PRIVATE, SHOWN):
        headers: dict[bytes, bytes] = {}
        if header is not None:
            shown = header.replace("TOKEN", it.service.token)
            headers[b"Authorization"] = shown.encode("latin-1")
        answer = await it.client.get(path, headers=headers)
        assert kind_of(answer) == (401, "unauthorised"), (path, header)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert it.service.token not in answer.text
    two = [("Authorization", f"Bearer {it.service.token}"), ("Authorization", "Bearer x")]
    assert (await it.client.get("/v1/status", headers=two)).status_code == 401
    assert (await it.choose()).status_code == 401
    assert (await it.observe(ticket="x-1", loss=0.5)).status_code == 401
    assert it.agent.rounds == 0
    for path in ("/healthz", "/openapi.json"):
        assert (await it.client.get(path)).status_code == 200


@with_service()
async def test_unknown_hosts_are_refused(it: Served) -> None:
    """Otherwise a page of an attacker whose name resolves to this machine had the same origin."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        for path in ("/v1/status", "/healthz", "/"):
            answer = await it.client.get(path, headers={"Host": host})
            assert kind_of(answer) == (421, "misdirected")
    for host in ("localhost", "LOCALHOST:1234", "[::1]:80", "127.0.0.1"):
        answer = await it.client.get("/v1/status", headers={"Host": host})
        assert answer.status_code == 200


@with_service()
async def test_pages_of_other_sites_are_refused(it: Served) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1", "http://localhost:1"):
        answer = await it.client.post("/v1/choose", json={}, headers={"Origin": origin})
        assert kind_of(answer) == (403, "cross_site")
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        preflight = await it.client.options("/v1/choose", headers=asked)
        assert preflight.status_code == 403
        assert not [name for name in preflight.headers if name.startswith("access-control")]
    own = await it.client.post("/v1/choose", json={}, headers={"Origin": it.service.url})
    assert own.status_code == 200
    assert it.agent.rounds == 1


@with_service()
async def test_forms_are_refused(it: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        form = {"content-type": kind}
        answer = await it.client.post("/v1/choose", content=b"{}", headers=form)
        assert kind_of(answer) == (415, "content_type")
    plain = {"content-type": "Application/JSON; charset=utf-8"}
    answer = await it.client.post("/v1/choose", content=b"{}", headers=plain)
    assert answer.status_code == 200


@with_service()
async def test_other_methods_and_paths(it: Served) -> None:
    assert kind_of(await it.client.get("/v1/choose")) == (405, "method")
    assert kind_of(await it.client.delete("/v1/status")) == (405, "method")
    assert kind_of(await it.client.get("/v1/nothing")) == (404, "not_found")
    assert kind_of(await it.client.get("/nothing")) == (404, "not_found")


@with_service()
async def test_what_follows_a_refusal_is_not_read(it: Served) -> None:
    long = it.request("/v1/choose", b" " * 60_000).replace(b"Bearer ", b"Bearer not-")
    got = await it.raw(long)  # returns when the service has closed the connection
    assert got.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in got
    assert got.count(b"HTTP/1.1") == 1


@with_service()
async def test_long_bodies_are_not_read(it: Served) -> None:
    just = b"{}".ljust(65_536)
    kind = {"content-type": "application/json"}
    answer = await it.client.post("/v1/choose", content=just, headers=kind)
    assert answer.status_code == 200
    # Declared: answered before anything of it is sent.
    head = it.request("/v1/choose", b"").replace(b"Length: 0", b"Length: 99999999999")
    assert b" 413 " in await it.raw(head)

    # Not declared: after the limit.
    pieces = b"".join(b"8000\r\n" + b" " * 0x8000 + b"\r\n" for _ in range(4))
    chunked = it.request("/v1/choose", b"", "Transfer-Encoding: chunked")
    got = await it.raw(chunked.replace(b"Content-Length: 0\r\n", b"") + pieces)
    assert b" 413 " in got
    assert b'"kind":"too_large"' in got
    assert it.agent.rounds == 1


BROKEN = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a port without
    b"\x00" * 100 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nx: " + b"y" * 400_000,
    b"GET /" + b"a" * 100_000,
    b"POST /v1/choose HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/choose HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
)


WITHOUT_HOST = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
"""Requests for no host, or for two."""


@pytest.mark.usefixtures("silent")
@with_service()
async def test_malformed_http_is_rejected(it: Served) -> None:
    for sent in BROKEN:
        got = await it.raw(sent)
        assert got.startswith(b"HTTP/1.1 400 "), sent[:80]
        assert got.endswith(b'"kind":"malformed"}')
        assert (await it.choose()).status_code == 200
    text = (await it.client.get("/metrics")).text
    assert f'connections_cut_total{{reason="malformed"}} {len(BROKEN)}.0' in text
    for sent in WITHOUT_HOST:
        got = await it.raw(sent, to_the_end=False)
        assert got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 421 ")), sent


@with_service()
async def test_pipelined_requests_are_answered_in_order(it: Served) -> None:
    """In one piece, and cut in two at every byte."""
    posts = [it.request("/v1/choose", b'{"event": "%d"}' % number) for number in range(3)]
    chunked = it.request("/v1/choose", b"", "Transfer-Encoding: chunked")
    chunked = chunked.replace(b"Content-Length: 0\r\n", b"") + b"8\r\n{\r\n\r\n  }\r\n0\r\n\r\n"
    last = it.request("/healthz", b"", "Connection: close", method="GET")
    whole = b"".join([*posts, chunked, it.request("/nothing", b"", method="GET"), last])
    for cut in range(len(whole)):
        reader, writer = await asyncio.open_connection(it.host, it.port)
        writer.write(whole[:cut])
        await asyncio.sleep(0.001)
        writer.write(whole[cut:])
        got = await asyncio.wait_for(reader.read(), WAIT)
        writer.close()
        statuses = re.findall(rb"HTTP/1.1 (\d+)", got)
        assert statuses == [b"200", b"200", b"200", b"200", b"404", b"200"], (cut, got)
        assert re.findall(rb'"event":"(\d)"', got) == [b"0", b"1", b"2"]


def test_requests_that_wait_are_not_read(tmp_path: Path) -> None:
    """A client that pipelines megabytes of requests uses little memory of the service."""

    class Held(MemoryStore):
        go_on = asyncio.Event()

        async def write(self, changes: Changes) -> None:
            await self.go_on.wait()
            await super().write(changes)

    async def play(it: Served) -> None:
        reader, writer = await asyncio.open_connection(it.host, it.port)
        ask = it.request("/healthz", b"", method="GET")
        writer.write(it.request("/v1/choose") + ask * 50_000)
        state = it.service.server.uvicorn.server_state
        await until(lambda: state.tasks)
        (connection,) = state.connections
        await until(lambda: not connection.transport.is_reading())
        assert len(state.tasks) == 1
        store.go_on.set()
        for _ in range(100):  # in order, and the connection still works
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT)
            assert head.startswith(b"HTTP/1.1 200 ")
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head)[0]))
        writer.transport.abort()

    store = Held()
    served(tmp_path, play, ALONE, store)


@pytest.mark.usefixtures("silent")
@with_service()
async def test_garbage_behind_a_request(it: Served) -> None:
    """Requests before the garbage are answered; the garbage ends the connection."""
    good = it.request("/v1/choose")
    got = await it.raw(good + good + b"\x00garbage\r\n\r\n" + good)
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"200", b"400"]
    assert it.agent.rounds == 2
    # In the middle of a body, while the service waits for the rest of it.
    half = it.request("/v1/choose", b"", "Transfer-Encoding: chunked")
    half = half.replace(b"Content-Length: 0\r\n", b"") + b"2\r\n{}\r\nZZ\r\n"
    got = await it.raw(half)
    assert got.startswith(b"HTTP/1.1 400 ")
    assert it.agent.rounds == 2
    # In the middle of a response, which allows no second status line.
    reader, writer = await asyncio.open_connection(it.host, it.port)
    stream = it.request("/v1/events", b"", "Transfer-Encoding: chunked", method="GET")
    writer.write(stream.replace(b"Content-Length: 0\r\n", b""))
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.write(b"ZZ\r\n")
    assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), WAIT)
    writer.close()
    assert (await it.choose()).status_code == 200


@pytest.mark.usefixtures("silent")
@with_service()
async def test_clients_that_disconnect(it: Served) -> None:
    whole = it.request("/v1/choose", b'{"event": "order 1"}')
    for cut in (10, len(whole) - 5, len(whole)):
        _, writer = await asyncio.open_connection(it.host, it.port)
        writer.write(whole[:cut])
        await writer.drain()
        writer.transport.abort()
    await asyncio.sleep(0.05)
    assert (await it.choose(event="order 1")).status_code == 200
    assert it.agent.rounds == 1


@with_service()
async def test_slow_clients_are_cut(it: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at all, and byte by byte half a head, half a second head, half a body."""
    monkeypatch.setattr(connection.LimitedConnection, "request_seconds", 600.0)

    async def drip(it: Served, first: bytes, then: bytes) -> float:
        began = perf_counter()
        reader, writer = await asyncio.open_connection(it.host, it.port)
        writer.write(first)

        async def drips() -> None:
            for byte in then[:-1]:  # and never the last
                await asyncio.sleep(0.1)
                writer.write(bytes([byte]))

        dripping = asyncio.create_task(drips())
        with suppress(ConnectionError):
            while await reader.read(4096):
                pass
        dripping.cancel()
        writer.close()
        return perf_counter() - began

    whole = it.request("/v1/choose", b"{}" + b" " * 60)
    slow = [
        drip(it, b"", b""),
        drip(it, b"", whole),
        drip(it, whole, whole),
        drip(it, whole[:-60], whole[-60:]),
    ]
    took = asyncio.gather(*slow)
    await until(lambda: len(it.service.server.uvicorn.server_state.connections) == 4)
    for _ in range(5):  # the others are served meanwhile
        assert (await it.choose()).status_code == 200
    assert not took.done()
    with monkeypatch.context() as impatient:
        impatient.setattr(connection.LimitedConnection, "request_seconds", 0.5)
        async with asyncio.timeout(WAIT):
            assert all(seconds > 0.5 for seconds in await took)
    text = (await it.client.get("/metrics")).text
    assert 'connections_cut_total{reason="slow"} 4.0' in text


@with_service()
async def test_strangers_cannot_take_all_connections(
    it: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.LimitedConnection, "most", 20)
    reader, writer = await asyncio.open_connection(it.host, it.port)
    here = it.service.server.uvicorn.server_state.connections
    for _ in range(2):  # has shown its token, and is kept
        writer.write(it.request("/v1/choose"))
        assert (await reader.read(4096)).startswith(b"HTTP/1.1 200 ")
        await until(lambda: [each for each in here if each.trusted])
    # All in one turn of the service's loop.
    held = [socket.create_connection((it.host, it.port)) for _ in range(60)]
    await until(lambda: b'reason="too many"} 41.0' in it.service.metrics.text())
    await until(lambda: len(here) == 20)
    writer.write(it.request("/v1/choose"))
    assert (await reader.read(4096)).startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 200 " in await it.raw(it.request("/v1/choose"), to_the_end=False)
    writer.close()
    for other in held:
        other.close()
    await until(lambda: not here)
    text = (await it.client.get("/metrics")).text
    assert 'connections_cut_total{reason="too many"} 42.0' in text


@with_service()
async def test_clients_that_do_not_read_are_cut(
    it: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = await asyncio.open_connection(it.host, it.port, limit=1)
    ask = it.request("/openapi.json", b"", method="GET")

    async def ask_for_ever() -> None:
        while True:
            writer.write(ask * 200)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await writer.drain()

    with monkeypatch.context() as impatient:
        impatient.setattr(connection.LimitedConnection, "request_seconds", 0.5)
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask_for_ever(), WAIT)
    assert (await it.choose()).status_code == 200
    assert 'reason="slow"} 1.0' in (await it.client.get("/metrics")).text


@with_service(read_token=READ_TOKEN)
async def test_rates(it: Served) -> None:
    """A flood of strangers takes no requests from readers, the application or health checks."""
    guard = it.service.guard
    now = guard._clock()
    guard._clock = lambda: now  # all requests in one instant
    guard._strangers = RequestLimit(RequestRate(1.5, 1.5), now)
    guard._readers = RequestLimit(RequestRate(2, 2), now)
    reader = {"Authorization": f"Bearer {READ_TOKEN}"}
    stranger = {"Authorization": "Bearer wrong"}
    first, *answers = [await it.client.get("/v1/status", headers=stranger) for _ in range(20)]
    assert kind_of(first) == (401, "unauthorised")
    assert {kind_of(each) for each in answers} == {(429, "too_many")}
    assert {each.headers["retry-after"] for each in answers} == {"1"}
    answers = [await it.client.get("/v1/status", headers=reader) for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 429, 429]
    assert (await it.choose()).status_code == 200
    for _ in range(10):
        assert (await it.client.get("/healthz", headers=stranger)).status_code == 200
    guard._known = RequestLimit(RequestRate(1, 1), now)
    assert (await it.choose()).status_code == 200
    assert kind_of(await it.choose()) == (429, "too_many")


def test_the_number_of_buckets_is_limited() -> None:
    buckets = RequestLimit(RequestRate(1, 1e6), 0.0)
    for number in range(5 * ADDRESSES):
        assert buckets.take(str(number), 0.0)
    assert len(buckets._each) == ADDRESSES
    assert not buckets.take(str(5 * ADDRESSES - 1), 0.0)


@with_service()
async def test_every_refusal_is_counted(it: Served) -> None:
    """By path and status; unknown paths count together."""
    long = it.request("/v1/choose", b"").replace(b"Length: 0", b"Length: 99999999")
    requests = {
        ("/v1/choose", 401): it.request("/v1/choose").replace(b"Bearer ", b"Bearer not-"),
        ("/v1/choose", 400): it.request("/v1/choose", b"{"),
        ("/v1/choose", 403): it.request("/v1/choose", b"{}", "Origin: https://evil.example"),
        ("/v1/choose", 413): long,
        ("other", 404): it.request("/v1/../../etc/passwd", b"", method="GET"),
    }
    for sent in requests.values():
        await it.raw(sent, to_the_end=False)
    assert it.agent.rounds == 0
    text = (await it.client.get("/metrics")).text
    for path, status in requests:
        assert f'http_answers_total{{path="{path}",status="{status}"}} 1.0' in text, (path, status)


OUT = (
    "/../secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e/secret.txt",
    "/./../secret.txt",
    "//etc/passwd",
    "/..\\secret.txt",
    "/page/../../secret.txt",
    "/secret.txt%00.html",
    "/.hidden.py",
    "/page/",
)


def test_no_path_leads_out(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    (pages / "page").mkdir(parents=True)
    (pages / "page" / "a.js").write_text("a")
    (pages / ".hidden.py").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")

    async def play(it: Served) -> None:
        for path in OUT:
            got = await it.raw(it.request(path, b"", "Connection: close", method="GET"))
            assert got.startswith(b"HTTP/1.1 404 "), path
        whole = it.request("/page/a.js", b"", "Connection: close", method="GET")
        assert (await it.raw(whole)).startswith(b"HTTP/1.1 200 ")

    served(tmp_path, play, static=pages)
