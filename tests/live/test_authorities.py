"""The authority of a federation is replaced while links are open, in steps or at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fedbandits.live.federation import certificates, keys
from fedbandits.live.federation.certificates import KeysError
from fedbandits.live.operations.local_cluster import reserved_ports
from fedbandits.live.transport.certificate_expiry import ExpiryWatch

from .links import WAIT, Names, Path3, client, credentials, handshake, on_path, until

FILES = ("ca.pem", "cert.pem", "key.pem")

ORDERS = pytest.mark.parametrize("names", [("old", "new"), ("new", "old")])
"""Several authorities in one ca.pem, in either order."""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path3]:
    """The members a - b - c, with keys in "old", and keys of another authority in "new"."""
    keys.write_keys(Names(tuple("abcd")), tmp_path / "new")
    with reserved_ports(4) as ports:
        yield Path3(tmp_path / "old", ports)


def authorities(path: Path3, *names: str) -> bytes:
    return b"".join((path.folder.parent / name / "ca.pem").read_bytes() for name in names)


def replace(path: Path3, members: str, *files: str) -> None:
    """Copy files of the new authority to the sites of some members."""
    for member in members:
        for file in files:
            new = path.folder.parent / "new" / member / file
            (path.folder / member / file).write_bytes(new.read_bytes())


@on_path
async def test_a_replaced_authority_cuts_links_which_come_back(
    path: Path3, caplog: pytest.LogCaptureFixture
) -> None:
    await path.start("b", "c")
    await path.hears("b", "c", b"before")
    before = path.transports["b"]._links["c"]
    replace(path, "bc", *FILES)
    await until(before.gone.is_set)
    assert sum(path.transports[name].counts["untrusted"] for name in "bc") >= 1
    assert "was cut: no authority in ca.pem has signed" in caplog.text
    await path.hears("b", "c", b"after")
    await path.hears("c", "b", b"after")


@on_path
async def test_a_thief_of_the_old_authority_stays_out(path: Path3) -> None:
    """A thief that sends valid messages and heartbeats."""
    thief = credentials(path.folder, "a", path.folder / "thief")
    path.silence = WAIT
    b = await path.start_b()

    def talk() -> bytes:
        with handshake(path.address["b"], thief) as link:
            link.sendall(b"\0\0\0\3one")
            with suppress(OSError):
                while link.recv(100):
                    link.sendall(b"\0\0\0\0")
        with suppress(OSError), handshake(path.address["b"], thief) as link:
            link.sendall(b"\0\0\0\3two")
            return link.recv(1)
        return b""

    talking = asyncio.create_task(asyncio.to_thread(talk))
    await until(lambda: path.heard["b"] == [("a", b"one")])
    assert b.linked == {"a"}
    replace(path, "b", *FILES)
    assert await asyncio.wait_for(talking, WAIT) == b""
    assert b.counts["untrusted"] == 1
    assert b.counts["refused"] >= 1
    assert path.heard["b"] == [("a", b"one")]


@ORDERS
@on_path
async def test_with_both_authorities_in_one_file_no_link_is_cut(
    path: Path3, names: tuple[str, str]
) -> None:
    """The steps by which operators replace an authority."""

    async def reloaded(members: str) -> None:
        found = [path.transports[name] for name in members]
        before = [each.counts["reloads"] for each in found]
        await until(
            lambda: all(e.counts["reloads"] > n for e, n in zip(found, before, strict=True))
        )

    await path.start("a", "b", "c")
    await path.hears("b", "c", b"before")
    await path.hears("b", "a", b"before")
    b = path.transports["b"]
    links = dict(b._links)
    for name in "abc":
        (path.folder / name / "ca.pem").write_bytes(authorities(path, *names))
    await reloaded("abc")
    replace(path, "b", "cert.pem", "key.pem")
    await reloaded("b")
    await path.hears("b", "c", b"both")
    assert b._links == links
    await path.transports["c"].stop()  # new links between the old and the new work, too
    await path.start("c")
    await path.hears("b", "c", b"again")
    assert b._links["a"] is links["a"]
    assert {each.counts["untrusted"] for each in path.transports.values()} == {0}
    replace(path, "b", "ca.pem")  # the others still show certificates of the old one
    await until(lambda: b.counts["untrusted"] == 2)
    replace(path, "ac", *FILES)
    await path.hears("b", "c", b"after")
    await path.hears("b", "a", b"after")


@on_path
async def test_a_new_authority_holds_before_the_own_certificate_is_there(path: Path3) -> None:
    """A site that has only the new ca.pem stops talking to members of the old authority."""
    await path.start("b", "c")
    await path.hears("b", "c", b"before")
    b, c = path.transports["b"], path.transports["c"]
    replace(path, "b", "ca.pem")
    await until(lambda: b.counts["untrusted"])
    cut = b.counts["untrusted"]
    await until(lambda: b.counts["untrusted"] > cut)  # c opens the link again
    assert b.linked == frozenset()
    assert "no authority in ca.pem has signed its certificate" in (b.last_refusal or "")
    await until(lambda: "before the first message" in (c.obstacle("b") or ""))
    replace(path, "b", "cert.pem", "key.pem")
    replace(path, "c", *FILES)
    await path.hears("b", "c", b"after")


@on_path
async def test_a_damaged_file_cuts_nothing(path: Path3, caplog: pytest.LogCaptureFixture) -> None:
    await path.start("b", "c")
    await path.hears("b", "c", b"before")
    links = dict(path.transports["b"]._links)
    (path.folder / "b" / "ca.pem").write_bytes(b"-----BEGIN CERTIF")
    await until(lambda: "ca.pem holds no certificate" in caplog.text)
    await asyncio.sleep(0.3)
    await path.hears("b", "c", b"after")
    assert path.transports["b"]._links == links


@ORDERS
def test_a_member_is_checked_against_all_authorities(path: Path3, names: tuple[str, str]) -> None:
    for name in names:
        member = path.folder.parent / name / "b"
        (member / "ca.pem").write_bytes(authorities(path, *names))
        keys.check_member(member, "b")
    site = path.folder / "b"
    expired = certificates.make_authority(now=datetime.now(UTC) - timedelta(days=4000)).certificate
    (site / "ca.pem").write_bytes(expired + authorities(path, "old"))
    keys.check_member(site, "b")
    (site / "ca.pem").write_bytes(certificates.make_authority().certificate)
    with pytest.raises(KeysError, match=r"cert\.pem is not signed by an authority in ca\.pem"):
        keys.check_member(site, "b")


@ORDERS
def test_the_expiry_is_that_of_the_authority_that_signed(
    path: Path3, names: tuple[str, str]
) -> None:
    short = certificates.make_authority(days=50)
    pair = certificates.make_member(short, "b", days=40)
    site = path.folder / "b"
    (site / "cert.pem").write_bytes(pair.certificate)
    (site / "key.pem").write_bytes(pair.key)
    files = {"old": short.certificate, "new": authorities(path, "new")}
    (site / "ca.pem").write_bytes(b"".join(files[name] for name in names))
    found = ExpiryWatch(site, "b").check(0.0)
    assert found is not None
    days = (found.authority - datetime.now(UTC).timestamp()) / 86_400
    assert days == pytest.approx(50, abs=1)


@ORDERS
def test_the_operators_key_signs_for_its_own_authority(path: Path3, names: tuple[str, str]) -> None:
    own = x509.load_pem_x509_certificate(authorities(path, "old"))
    (path.folder / "ca.pem").write_bytes(authorities(path, *names))
    keys.renew(path.folder, "b")
    certificate = certificates.read_certificate(path.folder / "b" / "cert.pem")
    certificate.verify_directly_issued_by(own)


@on_path
async def test_no_link_is_resumed_from_an_earlier_session(path: Path3) -> None:
    """A resumed session would show no certificate, and so would outlive its authority."""
    await path.start("b")
    context = client(path.folder / "c")

    def talk() -> list[bool]:
        found, session = [], None
        for _ in range(2):
            with (
                socket.create_connection(path.endpoint("b"), timeout=WAIT) as connection,
                context.wrap_socket(connection, session=session) as link,
            ):
                link.recv(1)  # the first bytes of a server include its session tickets
                session = link.session
                found += [bool(link.session_reused), bool(session and session.has_ticket)]
        return found

    assert await asyncio.to_thread(talk) == [False] * 4
