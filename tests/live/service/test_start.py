"""Where a service may listen, with which token and certificate, and how it ends."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import re
import shutil
import signal
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedbandits.live import Agent
from fedbandits.live.protocol.records import Changes
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.service import connection, serve
from fedbandits.live.service.address import parse
from fedbandits.live.service.tokens import token_in, token_of
from tests.live.links import WAIT, tls_connections, until, without_garbage_collection

from .served import ALONE, Served, served


def start(address: str, folder: Path, tls: tuple[Path, Path] | None = None) -> None:
    async def run() -> None:
        agent = Agent("agent1", ALONE, MemoryStore())
        async with await serve(agent, address, token_file=folder / "token", tls=tls):
            pass

    asyncio.run(run())


# Addresses


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "site3.example:80"])
def test_no_address_without_tls_but_this_machine(tmp_path: Path, address: str) -> None:
    with pytest.raises(
        ValueError, match=r"tls=\(certificate, key\).*agent.toml: tls = true.*127\.0\.0\.1"
    ):
        start(address, tmp_path)
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("address", ["", "8080", "localhost", "localhost:", "h:port", "h:99999"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="a host and a port"):
        parse(address)


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            start(f"127.0.0.1:{port}", tmp_path)


# Tokens


def test_a_token_is_made_once_and_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_of(path)
    assert len(token) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert token_of(path) == token
    assert token_of(tmp_path / "other") != token
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "token"]


@pytest.mark.skipif(os.name != "posix", reason="no modes")
@pytest.mark.parametrize("mode", [0o644, 0o602, 0o620, 0o604])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    token_of(tmp_path / "token")
    (tmp_path / "token").chmod(mode)
    with pytest.raises(ValueError, match=f"chmod 600 {tmp_path / 'token'}"):
        start("127.0.0.1:0", tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="no modes")
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
        {},
        {"token": "0123456789abcdef", "token_file": "token"},
        {"token": "short"},
        {"token": "0123456789abcdef", "read_token": "0123456789abcdef"},
        {"token": "0123456789abcdef", "read_token": "short"},
    ],
)
def test_tokens_that_are_refused(tmp_path: Path, tokens: dict[str, Any]) -> None:
    async def run() -> None:
        if "token_file" in tokens:
            tokens["token_file"] = str(tmp_path / "token")
        await serve(Agent("agent1", ALONE, MemoryStore()), **tokens)

    with pytest.raises(ValueError, match="token"):
        asyncio.run(run())


@pytest.mark.parametrize(
    "content", ["", "short", "with spaces in between it", "größer als sechzehn"]
)
def test_what_is_no_token_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ValueError, match="holds no token"):
        token_of(path)


# TLS


def certificate(folder: Path, name: str, number: int = 1) -> tuple[Path, Path]:
    """Self-signed, for a name and the loopback address."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(number)
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, private


def test_tls_on_any_address(tmp_path: Path) -> None:
    pair = certificate(tmp_path, "site3.example")

    async def run() -> None:
        agent = Agent("agent1", ALONE, MemoryStore())
        service = await serve(agent, "0.0.0.0:0", token_file=tmp_path / "token", tls=pair)
        async with agent, service:
            port = service.url.rpartition(":")[2]
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
                await asyncio.open_connection("127.0.0.1", int(port), ssl=old)
            reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"HTTP" not in await reader.read()
            writer.close()

    asyncio.run(run())


def test_who_holds_the_line_before_tls_begins_is_cut(tmp_path: Path) -> None:
    """They are counted, and leave file handles and room to who comes after them."""
    pair = certificate(tmp_path, "site3.example")

    async def run() -> None:
        agent = Agent("agent1", ALONE, MemoryStore())
        async with agent, await serve(agent, token_file=tmp_path / "token", tls=pair) as service:
            port = int(service.url.rpartition(":")[2])
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            trust = ssl.create_default_context(cafile=pair[0])
            url = f"https://127.0.0.1:{port}"
            async with httpx.AsyncClient(verify=trust, base_url=url, trust_env=False) as client:
                assert (await client.get("/healthz")).status_code == 200
            # Of a hundred and the client there was room for 64 at once.
            counted = r'connections_cut_total\{reason="handshake"\} ([\d.]+)'
            (cut,) = re.findall(counted, service.metrics.text().decode())
            assert float(cut) >= 37
            for each in held:
                each.close()

    asyncio.run(run())


def test_no_session_is_resumed(tmp_path: Path) -> None:
    """So that every connection verifies the certificate that the service shows now."""
    pair = certificate(tmp_path, "site3.example")
    trust = ssl.create_default_context(cafile=pair[0])

    def has_ticket(port: int) -> bool:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=WAIT) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as link,
        ):
            link.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert link.recv(100).startswith(b"HTTP/1.1 200")
            return bool(link.session and link.session.has_ticket)

    async def run() -> None:
        agent = Agent("agent1", ALONE, MemoryStore())
        async with agent, await serve(agent, token_file=tmp_path / "token", tls=pair) as service:
            port = int(service.url.rpartition(":")[2])
            assert not await asyncio.to_thread(has_ticket, port)

    asyncio.run(run())


@pytest.mark.parametrize("fast", [False, True])
def test_buffers_of_closed_connections_are_freed_at_once(
    tmp_path: Path, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of connections that sent half a request, and of others that had an answer."""
    monkeypatch.setattr(connection, "protocol_class", partial(connection.protocol_class, fast=fast))
    pair = certificate(tmp_path, "site3.example")
    trust = ssl.create_default_context(cafile=pair[0])

    def knock(port: int, request: bytes, answer: bytes) -> None:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=WAIT) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as link,
        ):
            link.sendall(request)
            assert link.recv(len(answer)) == answer

    async def run() -> None:
        agent = Agent("agent1", ALONE, MemoryStore())
        async with agent, await serve(agent, token_file=tmp_path / "token", tls=pair) as service:
            port = int(service.url.rpartition(":")[2])
            before = tls_connections()
            whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            for _ in range(5):
                await asyncio.to_thread(knock, port, whole[:-2], b"")
                await asyncio.to_thread(knock, port, whole, b"HTTP/1.1 200")
            await until(lambda: tls_connections() <= before)

    with without_garbage_collection():
        asyncio.run(run())


def test_a_certificate_is_renewed_while_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = certificate(tmp_path, "site3.example", number=1)
    fresh = tmp_path / "fresh"
    fresh.mkdir()

    async def number(port: int) -> int:
        from cryptography import x509

        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(found).serial_number

    async def run() -> None:
        agent = Agent("agent1", ALONE, MemoryStore())
        async with await serve(agent, token_file=tmp_path / "token", tls=pair) as service:
            port = int(service.url.rpartition(":")[2])
            renew = service.server.certificate
            assert renew is not None
            assert await number(port) == 1
            new = certificate(fresh, "site3.example", number=2)
            shutil.copy(new[0], pair[0])
            for _ in range(3):
                renew.reload()  # the key is not there yet
            assert await number(port) == 1
            assert [each.levelname for each in caplog.records].count("WARNING") == 1
            shutil.copy(new[1], pair[1])
            renew.reload()
            assert await number(port) == 2

    asyncio.run(run())


# The end


def test_signals_are_the_callers(tmp_path: Path) -> None:
    async def play(it: Served) -> None:
        assert signal.getsignal(signal.SIGTERM) == before

    before = signal.getsignal(signal.SIGTERM)
    served(tmp_path, play)


def test_what_is_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
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
        await it.service.stop()  # twice is once

    store, begun = Held(), asyncio.Event()
    served(tmp_path, play, ALONE, store)


def test_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(it: Served) -> None:
        await it.choose()
        await it.client.get("/nothing")

    served(tmp_path, play)
    assert caplog.records == []


# Pages


def test_pages_come_with_a_strict_policy_and_need_no_token(tmp_path: Path) -> None:
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
