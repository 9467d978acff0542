"""Starting and stopping a service: its address, tokens, certificate and pages."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from fedbandits.live import Agent
from fedbandits.live.federation.certificates import (
    make_authority,
    make_member,
    read_certificate,
)
from fedbandits.live.protocol.records import Changes
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.service import Service, connection, serve
from fedbandits.live.service.address import parse
from fedbandits.live.service.tokens import token_in, token_of
from tests.live.links import WAIT, tls_connections, until, without_garbage_collection

from .served import ALONE, Served, served

posix = pytest.mark.skipif(os.name != "posix", reason="no modes")


@asynccontextmanager
async def starting(folder: Path, *given: Any, **options: Any) -> AsyncIterator[tuple[Service, int]]:
    """Run an agent with a service; yield the service and its port."""
    agent = Agent("agent1", ALONE, MemoryStore())
    options = {"token_file": folder / "token"} | options
    async with agent, await serve(agent, *given, **options) as service:
        yield service, int(service.url.rpartition(":")[2])


def start(folder: Path, *given: Any, **options: Any) -> None:
    async def run() -> None:
        async with starting(folder, *given, **options):
            pass

    asyncio.run(run())


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "site3.example:80"])
def test_addresses_for_other_machines_need_tls(tmp_path: Path, address: str) -> None:
    with pytest.raises(
        ValueError, match=r"tls=\(certificate, key\).*agent.toml: tls = true.*127\.0\.0\.1"
    ):
        start(tmp_path, address)
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("address", ["", "8080", "localhost", "localhost:", "h:port", "h:99999"])
def test_malformed_addresses_are_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="a host and a port"):
        parse(address)


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            start(tmp_path, f"127.0.0.1:{port}")


def test_a_token_is_made_once_and_readable_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_of(path)
    assert len(token) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert token_of(path) == token
    assert token_of(tmp_path / "other") != token
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "token"]


@posix
@pytest.mark.parametrize("mode", [0o644, 0o602, 0o620, 0o604])
def test_a_token_that_others_may_read_is_rejected(tmp_path: Path, mode: int) -> None:
    token_of(tmp_path / "token")
    (tmp_path / "token").chmod(mode)
    with pytest.raises(ValueError, match=f"chmod 600 {tmp_path / 'token'}"):
        start(tmp_path)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_token_that_its_group_may_read_is_accepted(tmp_path: Path, mode: int) -> None:
    """Kubernetes mounts secrets with such modes."""
    token = token_of(tmp_path / "token")
    (tmp_path / "token").chmod(mode)
    assert token_of(tmp_path / "token") == token


def test_a_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "0123456789abcdef\n")
    assert token_in("SHOP_TOKEN") == "0123456789abcdef"
    monkeypatch.setenv("SHOP_TOKEN", "short")
    with pytest.raises(ValueError, match="the environment variable SHOP_TOKEN holds no token"):
        token_in("SHOP_TOKEN")
    monkeypatch.delenv("SHOP_TOKEN")
    with pytest.raises(ValueError, match="the environment variable SHOP_TOKEN is not set"):
        token_in("SHOP_TOKEN")


@pytest.mark.parametrize(
    "tokens",
    [
        {"token_file": None},
        {"token": "0123456789abcdef"},
        {"token_file": None, "token": "short"},
        {"token_file": None, "token": "0123456789abcdef", "read_token": "0123456789abcdef"},
        {"read_token": "short"},
    ],
)
def test_tokens_that_are_missing_double_short_or_equal(
    tmp_path: Path, tokens: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="token"):
        start(tmp_path, **tokens)


@pytest.mark.parametrize(
    "content", ["", "short", "with spaces in between it", "größer als sechzehn"]
)
def test_malformed_tokens_are_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ValueError, match="holds no token"):
        token_of(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return certificate(tmp_path)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for a name and the loopback address, with its authority."""
    authority = make_authority()
    member = make_member(authority, "site3.example", ["127.0.0.1"])
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(member.certificate + authority.certificate)
    private.write_bytes(member.key)
    return chain, private


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def ask(pair: tuple[Path, Path], port: int, request: bytes, answer: bytes) -> bool:
    """Send a request over TLS, expect a response, and return whether the session has a ticket."""
    trust = ssl.create_default_context(cafile=pair[0])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WAIT) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as link,
    ):
        link.sendall(request)
        received = b""
        with suppress(OSError):  # the service may cut the connection
            received = link.recv(len(answer) or 1)
        assert received == answer
        return bool(link.session and link.session.has_ticket)


def test_tls_on_any_address(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    async def run() -> None:
        async with starting(tmp_path, "0.0.0.0:0", tls=pair) as (service, port):
            trust = ssl.create_default_context(cafile=pair[0])
            url = f"https://127.0.0.1:{port}"
            token = {"Authorization": f"Bearer {service.token}"}
            async with httpx.AsyncClient(verify=trust, base_url=url, trust_env=False) as client:
                assert (await client.get("/v1/status")).status_code == 401
                assert (await client.get("/v1/status", headers=token)).status_code == 200
                named = {"Host": f"site3.example:{port}", "Origin": f"https://site3.example:{port}"}
                assert (await client.get("/healthz", headers=named)).status_code == 200
                for host in ("localhost", "site4.example"):
                    other = await client.get("/healthz", headers={"Host": host})
                    assert other.status_code == 421
            old = ssl.create_default_context(cafile=pair[0])
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port, ssl=old)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEALTH)
            assert b"HTTP" not in await reader.read()
            writer.close()
            # A resumed session would not verify a renewed certificate.
            assert not await asyncio.to_thread(ask, pair, port, HEALTH, b"HTTP/1.1 200")

    asyncio.run(run())


def test_unfinished_handshakes_are_cut_and_counted(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    async def run() -> None:
        async with starting(tmp_path, tls=pair) as (service, port):
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            await asyncio.to_thread(ask, pair, port, HEALTH, b"HTTP/1.1 200")
            # Of a hundred and the client there was room for 64 at once.
            counted = r'connections_cut_total\{reason="handshake"\} ([\d.]+)'
            (cut,) = re.findall(counted, service.metrics.text().decode())
            assert float(cut) >= 37
            for each in held:
                each.close()

    asyncio.run(run())


@pytest.mark.parametrize("fast", [False, True])
def test_memory_of_connections_is_freed_at_once(
    tmp_path: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    """Of connections that were cut with half a request, and of others that had a response."""
    monkeypatch.setattr(connection.LimitedConnection, "request_seconds", 0.2)
    monkeypatch.setattr(connection, "protocol_class", partial(connection.protocol_class, fast=fast))

    async def run() -> None:
        async with starting(tmp_path, tls=pair) as (_, port):
            before = tls_connections()
            for _ in range(5):
                await asyncio.to_thread(ask, pair, port, HEALTH[:-2], b"")
                await asyncio.to_thread(ask, pair, port, HEALTH, b"HTTP/1.1 200")
            await until(lambda: tls_connections() <= before)

    with without_garbage_collection():
        asyncio.run(run())


def test_a_certificate_is_renewed_while_the_service_runs(
    tmp_path: Path, pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    new = certificate(fresh)
    expected = [read_certificate(file).public_bytes(Encoding.DER) for file in (pair[0], new[0])]

    async def shown(port: int) -> bytes:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def run() -> None:
        async with starting(tmp_path, tls=pair) as (service, port):
            assert service.server.certificate is not None
            assert await shown(port) == expected[0]
            shutil.copy(new[0], pair[0])
            for _ in range(3):
                service.server.certificate.reload()  # the key is not there yet
            assert await shown(port) == expected[0]
            assert [each.levelname for each in caplog.records].count("WARNING") == 1
            shutil.copy(new[1], pair[1])
            service.server.certificate.reload()
            assert await shown(port) == expected[1]

    asyncio.run(run())


def test_signals_and_logs_are_the_callers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(it: Served) -> None:
        assert signal.getsignal(signal.SIGTERM) == before
        await it.choose()
        await it.client.get("/nothing")

    before = signal.getsignal(signal.SIGTERM)
    served(tmp_path, play)
    assert caplog.records == []


def test_unfinished_requests_are_answered_before_the_end(tmp_path: Path) -> None:
    class Held(MemoryStore):
        held: asyncio.Event | None = None

        async def write(self, changes: Changes) -> None:
            if self.held is not None:
                begun.set()
                await self.held.wait()
            await super().write(changes)

    async def play(it: Served) -> None:
        store.held = asyncio.Event()
        asked = asyncio.create_task(it.choose())
        await begun.wait()
        stopping = asyncio.create_task(it.service.stop())
        await asyncio.sleep(0.2)
        assert not asked.done()
        store.held.set()
        assert (await asked).status_code == 200
        await stopping
        with pytest.raises(httpx.ConnectError):
            await it.choose()
        await it.service.stop()  # without effect

    store, begun = Held(), asyncio.Event()
    served(tmp_path, play, ALONE, store)


def test_pages_have_a_strict_policy_and_need_no_token(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    (pages / "parts").mkdir(parents=True)
    (pages / "index.html").write_text("<!doctype html><title>agent</title>")
    (pages / "parts" / "page.js").write_text("1")
    (pages / "notes.py").write_text("secret")

    async def play(it: Served) -> None:
        del it.client.headers["Authorization"]
        for path, kind in (
            ("/", "text/html; charset=utf-8"),
            ("/index.html", "text/html; charset=utf-8"),
            ("/parts/page.js", "text/javascript; charset=utf-8"),
        ):
            answer = await it.client.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert answer.headers["x-frame-options"] == "DENY"
        assert (await it.client.get("/notes.py")).status_code == 404

    served(tmp_path, play, static=pages)
