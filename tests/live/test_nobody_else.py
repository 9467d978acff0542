"""Whoever is no neighbour, or says to be another, is not heard; neighbours are, all the while."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zenoh

from fedbandits.live import keys
from fedbandits.live.zenoh_transport import ZenohTransport

from .links import Path3, credentials, handshake, keep, play, rogue, rogue_config, until


@pytest.fixture
def path(tmp_path: Path) -> Path3:
    """a - b - c, with keys."""
    return Path3(tmp_path)


class TestNobodyElse:
    """Each is tried against an agent that goes on hearing its neighbours."""

    def refused(self, path: Path3, own: Path | None, reason: str) -> None:
        """In the handshake, for a reason that TLS gives; and by zenoh, with nothing handed over."""

        async def work() -> None:
            await path.start("b", "c")
            await path.hears("b", "c", b"before")

            def knock() -> None:
                # With TLS 1.3 the client hears of its refusal when it reads.
                with handshake(path.address["b"], own) as link:
                    link.recv(1)

            with pytest.raises(ssl.SSLError, match=reason):
                await asyncio.to_thread(knock)
            guest = rogue(own, connect=[f"tls/{path.address['b']}"])
            try:
                for _ in range(20):
                    guest.put("fedbandits/b/a", b"from outside")
                    await asyncio.sleep(0.01)
                assert guest.info.links() == []
            finally:
                await asyncio.to_thread(guest.close)
            await path.hears("b", "c", b"after")
            assert {message for _, message in path.heard["b"]} == {b"before", b"after"}

        play(path, work)

    def test_no_certificate(self, path: Path3) -> None:
        self.refused(path, None, "(?i)certificate.required")

    def test_another_authority(self, path: Path3) -> None:
        own = credentials(path, "a", "other", authority=keys.make_authority())
        self.refused(path, own, "(?i)unknown.ca|decrypt.error")

    def test_an_expired_one(self, path: Path3) -> None:
        own = credentials(path, "a", "old", now=datetime.now(UTC) - timedelta(days=400))
        self.refused(path, own, "(?i)certificate.expired")

    def test_one_that_is_not_yet_valid(self, path: Path3) -> None:
        own = credentials(path, "a", "early", now=datetime.now(UTC) + timedelta(days=2))
        self.refused(path, own, "(?i)certificate|expired")

    def test_older_versions_of_tls(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b")

            def knock() -> None:
                with handshake(path.address["b"], path.folder / "a", ssl.TLSVersion.TLSv1_2):
                    pass

            with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
                await asyncio.to_thread(knock)

        play(path, work)

    @pytest.mark.slow
    def test_plain_tcp_garbage_and_half_a_handshake(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b", "c")
            host, _, port = path.address["b"].rpartition(":")
            open_ones = [socket.create_connection((host, int(port))) for _ in range(20)]
            for each in open_ones[:10]:
                each.sendall(os.urandom(1000))
            guest = rogue(None, connect=[f"tcp/{path.address['b']}"])
            for _ in range(20):
                guest.put("fedbandits/b/a", b"from outside")
                await asyncio.sleep(0.01)
            await path.hears("b", "c", b"while they hang on")
            await asyncio.to_thread(guest.close)
            for each in open_ones:
                each.close()
            assert {sender for sender, _ in path.heard["b"]} == {"c"}

        play(path, work)

    # A client sends whatever it is told to; a peer only what someone wants to hear.
    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["peer", "client"])
    @pytest.mark.parametrize("member", ["d", "c"])
    def test_a_member_that_is_no_neighbour_or_claims_anothers_name(
        self, path: Path3, member: str, mode: str
    ) -> None:
        async def work() -> None:
            await path.start("a", "b")
            await path.hears("b", "a", b"before")
            await path.hears("a", "b", b"before")
            # b hears c on the session that listens; there it admits what comes in.
            guest = rogue(path.folder / member, connect=[f"tls/{path.address['b']}"], mode=mode)
            try:
                await until(lambda: guest.info.links())
                for _ in range(10):
                    for key in ("b/a", "b/d", "b/*", "*/a", "**", "a/b", "b/b"):
                        guest.put(f"fedbandits/{key}", b"lie")
                    guest.put("fedbandits/b/c", b"truth")
                    await asyncio.sleep(0.02)
            finally:
                await asyncio.to_thread(guest.close)
            await path.hears("b", "a", b"after")
            await path.hears("a", "b", b"after")
            assert b"lie" not in {message for each in path.heard.values() for _, message in each}
            # That the way is open for what is true shows that it is closed for what is not.
            assert (("c", b"truth") in path.heard["b"]) == (member == "c")
            assert (path.transports["b"].counts["strangers"] > 0) == (member == "d")

        play(path, work)

    @pytest.mark.slow
    @pytest.mark.parametrize("thief", ["d", "c"])
    @pytest.mark.parametrize("victim", ["a", "c"])
    def test_a_member_that_takes_the_id_of_anothers_session(
        self, path: Path3, thief: str, victim: str
    ) -> None:
        """Zenoh takes links of one id for one transport, and both for what either is allowed."""

        async def work() -> None:
            await path.start("a", "b", "c")
            await path.hears("b", "a", b"before")
            await path.hears("b", "c", b"before")
            for session in path.transports[victim]._sessions.values():
                config = rogue_config(path.folder / thief, connect=[f"tls/{path.address['b']}"]) | {
                    "id": str(session.zid())
                }
                guest = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
                for _ in range(20):
                    guest.put(f"fedbandits/b/{victim}", b"lie")
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(guest.close)
            await path.hears("b", "a", b"after")
            await path.hears("b", "c", b"after")
            if thief != victim:
                assert b"lie" not in {message for _, message in path.heard["b"]}

        play(path, work)

    @pytest.mark.slow
    @pytest.mark.parametrize("impostor", ["other authority", "d", "c, under the id of a"])
    def test_someone_else_at_the_address_of_a_neighbour(self, path: Path3, impostor: str) -> None:
        async def work() -> None:
            # b opens the link to a, and to c too: c cannot reach it.
            await path.start("a")
            c = path.address["c"]
            place = path.address["a"]
            own, ident = path.folder / "d", None
            if impostor == "other authority":
                own = credentials(path, "a", "other", authority=keys.make_authority())
            if impostor.startswith("c"):
                own, place = path.folder / "c", c
                ident = str(path.transports["a"]._sessions[""].zid())
            else:
                await path.transports["a"].stop()
            config = rogue_config(own, listen=[f"tls/{place}"])
            config |= {"id": ident} if ident else {}
            guest = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
            b = ZenohTransport("b", None, {"a": path.address["a"], "c": c}, path.folder / "b")
            heard: list[tuple[str, bytes]] = []
            await b.start(keep(heard))
            try:
                if impostor != "other authority":
                    await until(lambda: guest.info.links())
                for _ in range(30):
                    guest.put("fedbandits/b/a", b"lie")
                    guest.put("fedbandits/b/c", b"truth")
                    await asyncio.sleep(0.02)
                assert set(heard) == ({("c", b"truth")} if ident else set())
                assert (guest.info.links() == []) == (impostor == "other authority")
            finally:
                await asyncio.to_thread(guest.close)
                await b.stop()

        play(path, work)
