"""Real links on the loopback address: neighbours hear each other, and nobody else is heard."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedbandits.live import keys
from fedbandits.live.inbox import MOST_PER_SECOND
from fedbandits.live.zenoh_config import MOST_BYTES
from fedbandits.live.zenoh_transport import ZenohTransport

from . import rogue_process
from .links import (
    Path3,
    handshake,
    ignore,
    keep,
    play,
    rogue,
    rogue_config,
    send_until,
    until,
)


@pytest.fixture
def path(tmp_path: Path) -> Path3:
    """a - b - c, with keys."""
    return Path3(tmp_path)


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
            assert {name: path.transports[name].linked for name in "abc"} == {
                "a": {"b"},
                "b": {"a", "c"},
                "c": {"b"},
            }
            assert path.transports["b"].counts["strangers"] == 0

        play(path, work)

    def test_only_neighbours_are_sent_to_and_only_what_fits(self, path: Path3) -> None:
        transport = path.transport("a")
        with pytest.raises(ValueError, match="'c' is no neighbour of 'a'"):
            transport.send("c", b"")
        with pytest.raises(ValueError, match="524,289 bytes; 524,288 are allowed"):
            transport.send("b", b"x" * (MOST_BYTES + 1))
        transport.send("b", b"into the void, before the start")
        assert transport.counts["sent"] == 0

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

    def test_one_that_cannot_be_reached_opens_its_links(self, path: Path3) -> None:
        async def work() -> None:
            for inside, outside in ("ab", "ba"):
                address = path.address[outside]
                heard: list[tuple[str, bytes]] = []
                hidden = ZenohTransport(inside, None, {outside: address}, path.folder / inside)
                public = ZenohTransport(outside, address, {inside: None}, path.folder / outside)
                path.transports |= {inside: hidden, outside: public}
                await hidden.start(ignore)
                await public.start(keep(heard))
                await send_until(hidden, outside, b"", heard.copy)
                await path.stop()

        play(path, work)

    def test_two_that_cannot_be_reached_are_refused(self, path: Path3) -> None:
        with pytest.raises(ValueError, match="neither 'a' nor 'b' can be reached"):
            ZenohTransport("a", None, {"b": None}, path.folder / "a")

    def test_an_address_that_is_taken_is_named(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("b")
            path.address["c"] = path.address["b"]
            path.address["a"] = path.address["b"]
            with pytest.raises(OSError, match=r"[ac] cannot listen on 127\.0\.0\.1:\d+"):
                await path.start("a", "c")

        play(path, work)

    def test_keys_that_let_nobody_in_are_refused_at_the_start(self, path: Path3) -> None:
        async def work() -> None:
            wrong = ZenohTransport("a", path.address["a"], {"b": None}, path.folder / "c")
            with pytest.raises(keys.KeysError, match="'c''s certificate, not 'a''s"):
                await wrong.start(ignore)

        play(path, work)

    @pytest.mark.slow
    def test_a_link_that_is_silent_is_opened_anew(self, path: Path3) -> None:
        """As of a neighbour that has closed its session and holds the link."""

        async def work() -> None:
            ghost = rogue(path.folder / "a", listen=[f"tls/{path.address['a']}"])
            try:
                await path.start("b", "c")
                b = path.transports["b"]
                await until(lambda: b.linked == {"a", "c"} and b.counts["reopened"])
                await until(lambda: len(ghost.info.links()) == 1)
            finally:
                await asyncio.to_thread(ghost.close)
            await path.start("a")
            await path.hears("b", "a", b"alive")
            reopened = b.counts["reopened"]
            for turn in range(15):  # one that speaks is left alone
                await path.hears("b", "a", b"%d" % turn)
                await asyncio.sleep(0.1)
            assert b.counts["reopened"] == reopened

        play(path, work)

    def test_who_is_no_neighbour_any_more_is_not_heard(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("a", "b", "c")
            await path.hears("b", "a", b"before")
            await path.hears("b", "c", b"before")
            await path.transports["b"].reload({"c": path.address["c"]})
            await path.hears("b", "c", b"after")
            path.heard["b"].clear()
            for _ in range(20):
                path.transports["a"].send("b", b"still here")
                await asyncio.sleep(0.01)
            await path.transports["b"].reload({})
            assert path.transports["b"].linked == frozenset()
            assert path.heard["b"] == []

        play(path, work)

    @pytest.mark.slow
    def test_a_renewed_certificate_is_taken_without_a_restart(self, path: Path3) -> None:
        async def work() -> None:
            await path.start("a", "b", "c")
            await path.hears("b", "a", b"before")
            bad = path.folder / "b" / "cert.pem"
            good = bad.read_bytes()
            bad.write_bytes(b"half a certif")
            await asyncio.sleep(0.3)
            await path.hears("b", "a", b"with the old one")
            assert path.transports["b"].counts["reloads"] == 0
            bad.write_bytes(good)
            keys.renew(path.folder, "b", days=700)
            await until(lambda: path.transports["b"].counts["reloads"])
            await path.hears("b", "a", b"after")
            await path.hears("c", "b", b"after")
            assert shown_expiry(path.address["b"], path.folder / "c") > timedelta(days=699)

        play(path, work)


def shown_expiry(address: str, own: Path) -> timedelta:
    """How long the certificate is valid that is shown at an address."""
    from cryptography import x509

    with handshake(address, own) as link:
        shown = link.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).not_valid_after_utc - datetime.now(UTC)


def resident() -> int:
    """MiB of this process."""
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


class TestTooMuch:
    """A neighbour that went mad: it has a certificate, and is believed to be who it is."""

    async def flood(self, path: Path3, size: int, count: int) -> None:
        config = rogue_config(
            path.folder / "a", connect=[f"tls/{path.address['b']}"], mode="client"
        )
        command = [sys.executable, rogue_process.__file__, json.dumps(config), "fedbandits/b/a"]
        process = await asyncio.create_subprocess_exec(
            *command,
            str(size),
            str(count),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            await asyncio.wait_for(process.stdout.readline(), 8)
        finally:
            process.stdin.close()
            await process.wait()

    @pytest.mark.slow
    def test_thousands_of_messages_a_second(self, path: Path3) -> None:
        async def work() -> None:
            heard: list[str] = []
            b = ZenohTransport("b", path.address["b"], {"a": None}, path.folder / "b")
            await b.start(lambda sender, _: heard.append(sender))
            before, began = resident(), time.monotonic()
            await self.flood(path, 5000, 40_000)
            seconds = int(time.monotonic()) - int(began) + 1
            assert heard.count("a") == b.counts["received"] <= MOST_PER_SECOND * seconds
            assert b.counts["dropped"] > 10_000
            assert resident() - before < 40  # of 200 MB that were sent
            await b.stop()

        play(path, work)

    @pytest.mark.slow
    def test_a_hundred_megabytes_at_once(self, path: Path3) -> None:
        async def work() -> None:
            heard: list[str] = []
            b = ZenohTransport("b", path.address["b"], {"a": None}, path.folder / "b")
            await b.start(lambda sender, _: heard.append(sender))
            before = resident()
            await self.flood(path, 100_000_000, 2)
            assert heard == []
            assert resident() - before < 40
            await self.flood(path, 100, 1)
            await until(lambda: heard)
            await b.stop()

        play(path, work)


STOPPED = """
import asyncio, json, sys
from fedbandits.live.zenoh_transport import ZenohTransport
name, listen, neighbours, keys = sys.argv[1:]

async def main():
    transport = ZenohTransport(name, listen, json.loads(neighbours), keys)
    def answer(sender, message):
        transport.send(sender, b"answer")
    await transport.start(answer)
    print("ready", flush=True)
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
            json.dumps({"b": path.address["b"]}),
            str(path.folder / "a"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        b = path.transports["b"]

        def answered() -> bool:
            return ("a", b"answer") in path.heard["b"]

        try:
            await send_until(b, "a", b"", answered)
            process.send_signal(signal.SIGSTOP)
            longest = 0.0
            for turn in range(3000):  # 30 MB: more than sockets and queues hold
                began = time.perf_counter()
                b.send("a", b"x" * 10_000)
                longest = max(longest, time.perf_counter() - began)
                if turn % 300 == 0:
                    await path.hears("c", "b", b"%d" % turn)
                    await path.hears("b", "c", b"%d" % turn)
            assert longest < 1.0  # a put that blocks takes five seconds
            process.send_signal(signal.SIGCONT)
            path.heard["b"].clear()
            await send_until(b, "a", b"", answered)
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.stdin.close()
            await process.wait()

    play(path, work)
