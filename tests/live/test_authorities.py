"""The authority of a federation is replaced while links are open, in steps or at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
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
from fedbandits.live.transport.tls_transport import TlsTransport

from .links import WAIT, Names, Path3, client, credentials, handshake, keep, play, until

FILES = ("ca.pem", "cert.pem", "key.pem")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path3]:
    """a - b - c, with keys in "old", and keys of another authority in "new"."""
    keys.write_keys(Names(tuple("abcd")), tmp_path / "new")
    with reserved_ports(4) as ports:
        yield Path3(tmp_path / "old", ports)


def authorities(path: Path3, *names: str) -> bytes:
    return b"".join((path.folder.parent / name / "ca.pem").read_bytes() for name in names)


def replace(path: Path3, member: str, *files: str) -> None:
    """Copy files of a member by the new authority to its site."""
    for file in files:
        new = path.folder.parent / "new" / member / file
        (path.folder / member / file).write_bytes(new.read_bytes())


class TestLinks:
    """A link is cut as soon as no authority in ca.pem has signed its certificates."""

    def test_a_link_of_a_replaced_authority_is_cut_and_comes_back_by_the_new_one(
        self, path: Path3, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def work() -> None:
            await path.start("b", "c")
            await path.hears("b", "c", b"before")
            before = path.transports["b"]._links["c"]
            for name in "bc":
                replace(path, name, *FILES)
            await until(before.gone.is_set)
            counts = [path.transports[name].counts["untrusted"] for name in "bc"]
            assert sum(counts) >= 1
            assert "was cut: no authority in ca.pem has signed" in caplog.text
            await path.hears("b", "c", b"after")
            await path.hears("c", "b", b"after")

        play(path, work)

    def test_a_thief_of_the_old_authority_is_cut_off_and_does_not_come_back(
        self, path: Path3
    ) -> None:
        """One that says nothing wrong, and shows signs of life."""
        thief = credentials(path.folder, "a", path.folder / "thief")

        async def work() -> None:
            b = TlsTransport(
                "b", path.address["b"], {"a": None}, path.folder / "b", check=0.1, silence=WAIT
            )
            path.transports["b"] = b
            await b.start(keep(path.heard["b"]))

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

        play(path, work)

    @pytest.mark.parametrize("first", ["old", "new"])
    def test_with_both_authorities_in_one_file_no_link_is_cut(
        self, path: Path3, first: str
    ) -> None:
        """The steps by which operators replace an authority, in either order of the two."""
        both = authorities(path, *(("old", "new") if first == "old" else ("new", "old")))

        async def reloaded(*names: str) -> None:
            before = {name: path.transports[name].counts["reloads"] for name in names}
            await until(
                lambda: all(
                    path.transports[name].counts["reloads"] > before[name] for name in names
                )
            )

        async def work() -> None:
            await path.start("a", "b", "c")
            await path.hears("b", "c", b"before")
            await path.hears("b", "a", b"before")
            links = dict(path.transports["b"]._links)
            for name in "abc":
                (path.folder / name / "ca.pem").write_bytes(both)
            await reloaded("a", "b", "c")
            replace(path, "b", "cert.pem", "key.pem")
            await reloaded("b")
            await path.hears("b", "c", b"both")
            assert path.transports["b"]._links == links
            await path.transports["c"].stop()  # links between the old and the new are opened, too
            await path.start("c")
            await path.hears("b", "c", b"again")
            assert path.transports["b"]._links["a"] is links["a"]
            assert {each.counts["untrusted"] for each in path.transports.values()} == {0}
            replace(path, "b", "ca.pem")  # the others still show certificates of the old one
            await until(lambda: path.transports["b"].counts["untrusted"] == 2)
            for name in "ac":
                replace(path, name, *FILES)
            await path.hears("b", "c", b"after")
            await path.hears("b", "a", b"after")

        play(path, work)

    def test_an_authority_holds_before_the_own_certificate_is_there(self, path: Path3) -> None:
        """A site that has the new ca.pem alone talks to no member of the old one any more."""

        async def work() -> None:
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

        play(path, work)

    def test_a_damaged_file_cuts_nothing(
        self, path: Path3, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def work() -> None:
            await path.start("b", "c")
            await path.hears("b", "c", b"before")
            links = dict(path.transports["b"]._links)
            (path.folder / "b" / "ca.pem").write_bytes(b"-----BEGIN CERTIF")
            await until(lambda: "ca.pem holds no certificate" in caplog.text)
            await asyncio.sleep(0.3)
            await path.hears("b", "c", b"after")
            assert path.transports["b"]._links == links

        play(path, work)


class TestFiles:
    """Several authorities in one ca.pem."""

    @pytest.mark.parametrize("names", [("old", "new"), ("new", "old")])
    def test_a_member_is_checked_against_all_of_them(
        self, path: Path3, names: tuple[str, str]
    ) -> None:
        for name in names:
            member = path.folder.parent / name / "b"
            (member / "ca.pem").write_bytes(authorities(path, *names))
            keys.check_member(member, "b")
        (path.folder / "b" / "ca.pem").write_bytes(certificates.make_authority().certificate)
        with pytest.raises(KeysError, match=r"cert\.pem is not signed by an authority in ca\.pem"):
            keys.check_member(path.folder / "b", "b")

    def test_one_that_expired_does_no_harm_to_the_others(self, path: Path3) -> None:
        past = datetime.now(UTC) - timedelta(days=4000)
        old = certificates.make_authority(now=past).certificate
        (path.folder / "b" / "ca.pem").write_bytes(old + authorities(path, "old"))
        keys.check_member(path.folder / "b", "b")

    @pytest.mark.parametrize("names", [("old", "new"), ("new", "old")])
    def test_the_expiry_is_that_of_the_authority_that_signed(
        self, path: Path3, names: tuple[str, str]
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

    @pytest.mark.parametrize("names", [("old", "new"), ("new", "old")])
    def test_the_operators_key_signs_for_the_authority_that_it_is_of(
        self, path: Path3, names: tuple[str, str]
    ) -> None:
        (path.folder / "ca.pem").write_bytes(authorities(path, *names))
        keys.renew(path.folder, "b")
        certificate = certificates.read_certificate(path.folder / "b" / "cert.pem")
        [old] = x509.load_pem_x509_certificates(authorities(path, "new"))
        [own] = x509.load_pem_x509_certificates((path.folder / "b" / "ca.pem").read_bytes())
        certificate.verify_directly_issued_by(own)
        assert own != old


def test_no_link_is_resumed_from_an_earlier_session(path: Path3) -> None:
    """A resumed session would show no certificate, and so would outlive its authority."""

    async def work() -> None:
        await path.start("b")
        host, _, port = path.address["b"].rpartition(":")
        context = client(path.folder / "c")

        def talk() -> list[bool]:
            found, session = [], None
            for _ in range(2):
                with (
                    socket.create_connection((host, int(port)), timeout=WAIT) as connection,
                    context.wrap_socket(connection, session=session) as link,
                ):
                    link.recv(1)  # what a server sends first, tickets too
                    session = link.session
                    found += [bool(link.session_reused), bool(session and session.has_ticket)]
            return found

        assert await asyncio.to_thread(talk) == [False] * 4
        assert isinstance(path.transports["b"].credentials.server, ssl.SSLContext)

    play(path, work)
