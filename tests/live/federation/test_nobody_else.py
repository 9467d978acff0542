"""Whoever is no neighbour, or sends what no neighbour would, meets a federation of real processes.

outsider - north - centre - mallory. Mallory is a true member, run by the test, and centre is
attacked. Each attack is refused, moves the very count in centre's /metrics that it should and no
other, and afterwards everyone exchanges, agrees, and has lost nothing of what was put in.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedbandits.live import Federation, read_journal
from fedbandits.live.federation import keys
from fedbandits.live.operations.local_cluster import Member, start
from fedbandits.live.operations.site import read_site
from fedbandits.live.protocol.messages import Flow, encode, game_hash
from fedbandits.live.transport.link import MOST_TAKEN
from tests.live.links import credentials, handshake
from tests.tiers import soak_but

from .processes import ask, running, wait_for
from .rogue import Rogue

pytestmark = pytest.mark.slow

FILE = """
arms = ["tea", "coffee", "cocoa"]
members = ["centre", "north", "outsider", "mallory"]
links = [["outsider", "north"], ["north", "centre"], ["centre", "mallory"]]
gossip_period = 0.03
"""

WAIT = 30.0
"""Seconds after which what should happen has not."""

QUIET = ("sent", "received", "unsent", "reloads")
"""What the transport counts where all is well, or busy."""


def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.05)


class Sites:
    """The processes, and what the test has put in through their services."""

    def __init__(self, members: dict[str, Member], folder: Path, rogue: Rogue) -> None:
        self.members = members
        self.folder = folder
        self.keys = folder / "keys"
        self.rogue = rogue
        self.address = rogue.site.part.addresses["centre"]
        self.put_in = np.zeros(3)

    def play(self, name: str, loss: float = 0.5) -> None:
        """Choose and observe once, as an application does."""
        ticket = ask(self.members[name], "/v1/choose", {})
        ask(self.members[name], "/v1/observe", {"ticket": ticket["ticket"], "loss": loss})
        arm = ("tea", "coffee", "cocoa").index(ticket["arm"])
        self.put_in[arm] += loss / ticket["probability"]

    def refusals(self) -> Counter[str]:
        """All that centre's /metrics tells of what it refused: `strangers`, or `mallory: game`."""
        member = self.members["centre"]
        token = member.token.read_text(encoding="utf-8").strip()
        asked = Request(f"{member.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urlopen(asked, timeout=10) as answer:
            text = answer.read().decode()
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = sample.labels
                if sample.name == "fedbandits_transport_total" and labels["what"] not in QUIET:
                    found[labels["what"]] += int(sample.value)
                if sample.name == "fedbandits_messages_refused_total":
                    found[f"{labels['neighbour']}: {labels['reason']}"] += int(sample.value)
        return found

    @contextmanager
    def refusing(self, expected: Mapping[str, int]) -> Iterator[None]:
        """What is done meanwhile moves these counts, and no others; and does no harm."""
        before = self.refusals()
        yield
        until(lambda: self.refusals() - before >= Counter(expected), f"{expected}")
        self.unharmed()
        assert self.refusals() - before == Counter(expected)

    def unharmed(self) -> None:
        """All play, exchange and agree, and Σz = Σ of what was put in."""
        for name in self.members:
            self.play(name)
        until(lambda: self.apart() < 1e-6, "agreement")
        until(self.balanced, "a balance")

    def apart(self) -> float:
        found = [ask(member, "/v1/status")["disagreement"] for member in self.members.values()]
        return float(max(*found, self.rogue.disagreement()))

    def balanced(self) -> bool:
        """Flows are what flowed in elsewhere, and inputs are what was acknowledged."""
        files = [self.folder / f"{name}.db" for name in self.members] + [self.rogue.site.journal]
        journals = [read_journal(file).saved for file in files]
        inputs = [np.frombuffer(each.state.inputs["z"]) for each in journals if each.state]
        edges = [edge for each in journals for edge in each.edges.values()]
        flows = np.sum([np.frombuffer(edge.flow["z"]) for edge in edges], axis=0)
        np.testing.assert_allclose(np.sum(inputs, axis=0), self.put_in, rtol=1e-12)
        return bool(np.abs(flows).max() <= 1e-9 * self.put_in.max())

    def talk_and_close(self, own: Path, data: bytes) -> None:
        """Open a link to centre, say this, say no more, and wait until it has been read."""
        with handshake(self.address, own) as link, suppress(OSError):
            link.settimeout(WAIT)
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            while link.recv(1000):
                pass

    def talk(self, own: Path | None, data: bytes = b"", called: str | None = None) -> None:
        """Open a link to centre, say this, and wait until it is closed."""
        with suppress(OSError), handshake(self.address, own, called=called) as link:
            link.settimeout(WAIT)
            with suppress(OSError):
                link.sendall(data)
            while link.recv(1000):
                pass  # signs of life


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    folder = tmp_path_factory.mktemp("federation")
    source = folder / "federation.toml"
    source.write_text(FILE)
    with running(Federation.read(source), source, folder) as members:
        mallory = members.pop("mallory")
        mallory.process.terminate()
        mallory.process.wait()
        rogue = Rogue(read_site(folder / "mallory.toml"), "centre")
        try:
            sites = Sites(members, folder, rogue)
            sites.unharmed()
            yield sites
        finally:
            rogue.close()


class TestNoMember:
    """Refused in the handshake."""

    def test_no_certificate(self, sites: Sites) -> None:
        with sites.refusing({"refused": 1}):
            sites.talk(None, b"\0\0\0\3lie")

    def test_another_authority(self, sites: Sites, tmp_path: Path) -> None:
        other = keys.make_authority()
        own = credentials(sites.keys, "north", tmp_path / "other", authority=other)
        with sites.refusing({"refused": 1}):
            sites.talk(own, b"\0\0\0\3lie")

    def test_an_expired_certificate(self, sites: Sites, tmp_path: Path) -> None:
        past = datetime.now(UTC) - timedelta(days=400)
        own = credentials(sites.keys, "mallory", tmp_path / "old", now=past)
        with sites.refusing({"refused": 1}):
            sites.talk(own, b"\0\0\0\3lie")

    def test_handshakes_that_stand_still(self, sites: Sites) -> None:
        """More than there is room for; a neighbour that comes then is let in all the same."""
        host, _, port = sites.address.rpartition(":")
        with sites.refusing({"refused": 150}):
            held = [socket.create_connection((host, int(port))) for _ in range(150)]
            with sites.rogue.away():
                pass
            sites.unharmed()
            for each in held:
                each.close()


class TestAnotherMember:
    """Has a certificate, and is not whom it speaks for."""

    def test_one_that_is_no_neighbour(self, sites: Sites) -> None:
        with sites.refusing({"strangers": 1}):
            sites.talk(sites.keys / "outsider", b"\0\0\0\3lie")

    def test_one_that_signs_a_certificate_of_anothers_name(
        self, sites: Sites, tmp_path: Path
    ) -> None:
        """With its own key, as if it were an authority."""
        own = sites.keys / "mallory"
        signer = keys.Pair((own / "cert.pem").read_bytes(), (own / "key.pem").read_bytes())
        forged = credentials(sites.keys, "north", tmp_path / "forged", authority=signer)
        with (forged / "cert.pem").open("ab") as chain:
            chain.write(signer.certificate)
        with sites.refusing({"refused": 1}):
            sites.talk(forged, b"\0\0\0\3lie")

    def test_one_that_asks_under_anothers_name(self, sites: Sites) -> None:
        """It is heard as who it is: neither a message nor the name of a server says who speaks."""
        before = sites.refusals()
        with (
            sites.refusing({"mallory: message": 1}),
            sites.rogue.away(),
            handshake(sites.address, sites.keys / "mallory", called="north") as link,
        ):
            link.sendall(framed(b"lie"))
            until(lambda: sites.refusals() - before, "a refusal")

    @pytest.mark.soak
    def test_one_at_the_address_of_another(self, sites: Sites) -> None:
        """Mallory at north's: centre and outsider, which open links to it, see whose it is."""
        own = sites.keys / "mallory"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own / "cert.pem", own / "key.pem")
        address = read_site(sites.folder / "centre.toml").part.addresses["north"]
        host, _, port = address.rpartition(":")
        before = sites.refusals()
        sites.members["north"].process.terminate()
        sites.members["north"].process.wait()
        with (
            socket.create_server((host, int(port))) as listening,
            context.wrap_socket(listening, server_side=True) as server,
        ):
            server.settimeout(0.5)

            def greeted() -> bool:
                with suppress(OSError):  # who comes does not even end the handshake
                    link, _ = server.accept()
                    with link:
                        link.sendall(framed(b"lie"))
                return bool(sites.refusals() - before)

            until(greeted, "a refusal")
        sites.members["north"] = start("north", sites.members["north"].url, sites.folder)
        wait_for(sites.members["north"])
        sites.unharmed()
        moved = sites.refusals() - before
        assert moved.keys() == {"strangers"}


def framed(message: bytes) -> bytes:
    """As it travels."""
    return len(message).to_bytes(4, "big") + message


def nan(flow: Flow, field: str, number: float) -> bytes:
    """A message in which one number is none."""
    numbers = np.frombuffer(getattr(flow, field)["z"]).copy()
    numbers[1] = number
    return encode(msgspec.structs.replace(flow, **{field: {"z": numbers.tobytes()}}))


class TestMessages:
    """Of a true neighbour, over its own link."""

    def flow(self, sites: Sites) -> Flow:
        """What it last sent."""
        return msgspec.msgpack.decode(sites.rogue.transport.kept[-1], type=Flow)

    @pytest.mark.parametrize("field", ["values", "flow"])
    @pytest.mark.parametrize("number", soak_but([np.inf], [np.nan, np.inf, -np.inf]))
    def test_no_number(self, sites: Sites, field: str, number: float) -> None:
        with sites.refusing({"mallory: numbers": 1}):
            sites.rogue.send(nan(self.flow(sites), field, number))

    def test_another_number_of_arms(self, sites: Sites) -> None:
        """As a neighbour with another file sends it, and as a liar does."""
        flow, two = self.flow(sites), {"z": np.zeros(2).tobytes()}
        other = game_hash("FedExp3", {"z": 2}, ("tea", "coffee"))
        with sites.refusing({"mallory: game": 1, "mallory: message": 1}):
            sites.rogue.send(
                encode(msgspec.structs.replace(flow, game=other, flow=two, values=two)),
                encode(msgspec.structs.replace(flow, flow=two, values=two)),
            )

    def test_what_is_no_message(self, sites: Sites) -> None:
        whole = sites.rogue.transport.kept[-1]
        with sites.refusing({"mallory: message": 3}):
            sites.rogue.send(b"lie", whole[: len(whole) // 2], whole + whole)

    def test_one_far_longer_than_any_of_the_game(self, sites: Sites) -> None:
        with sites.refusing({"mallory: large": 1}):
            sites.rogue.send(bytes(500_000))

    def test_what_was_sent_before(self, sites: Sites) -> None:
        recorded = self.recorded(sites)
        with sites.refusing({"mallory: stale": 50}):
            sites.rogue.send(*recorded)

    def test_what_was_recorded_before_a_restart(self, sites: Sites) -> None:
        recorded = self.recorded(sites)
        centre = sites.members["centre"]
        centre.process.kill()
        centre.process.wait()
        sites.members["centre"] = start("centre", centre.url, sites.folder)
        wait_for(sites.members["centre"])
        sites.unharmed()
        with sites.refusing({"mallory: stale": 50}):
            sites.rogue.send(*recorded)

    @pytest.mark.soak
    def test_what_was_recorded_before_a_disk_was_lost(self, sites: Sites) -> None:
        """Mallory's own: the edge starts anew, and what was said before is of another ledger."""
        recorded = self.recorded(sites)
        sites.rogue.stop()
        sites.rogue.start(sites.folder / "mallory-again.db")
        sites.unharmed()
        with sites.refusing({"mallory: stale": 50}):
            sites.rogue.send(*recorded)

    def recorded(self, sites: Sites) -> list[bytes]:
        """Fifty messages that are no longer the last."""
        kept = sites.rogue.transport.kept
        begin = len(kept)
        until(lambda: len(kept) >= begin + 55, "messages")
        return kept[begin : begin + 50]


class TestTooMuch:
    """Of who has a neighbour's keys."""

    def test_a_hundred_megabytes_announced(self, sites: Sites) -> None:
        with sites.refusing({"oversized": 1}), sites.rogue.away():
            sites.talk(sites.keys / "mallory", (100_000_000).to_bytes(4, "big") + b"x" * 100)

    @pytest.mark.parametrize("announced", soak_but([100_000_000], [100_000_000, 2**19]))
    def test_a_hundred_megabytes_sent(self, sites: Sites, announced: int) -> None:
        """At once, or in as many messages as are allowed in size."""
        messages = 100_000_000 // announced
        before, memory = sites.refusals(), self.peak(sites)
        with sites.rogue.away():
            sites.talk_and_close(sites.keys / "mallory", framed(bytes(announced)) * messages)
        until(lambda: (sites.refusals() - before).total() >= messages, "refusals")
        sites.unharmed()
        moved = sites.refusals() - before
        # So many bytes are not read in a second, unless they come in more.
        assert moved.pop("paused", 0) <= 3
        reason = "oversized" if messages == 1 else "mallory: large"
        assert moved[reason] + moved["dropped"] == moved.total() == messages
        assert moved[reason] > 0
        assert self.peak(sites) - memory < 60

    def peak(self, sites: Sites) -> int:
        """The most memory that centre ever had, in MiB."""
        status = Path(f"/proc/{sites.members['centre'].process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) // 1024

    def test_half_a_message_and_the_end(self, sites: Sites) -> None:
        with sites.refusing({"half": 1}), sites.rogue.away():
            sites.talk_and_close(sites.keys / "mallory", framed(b"whole")[:6])

    @pytest.mark.soak
    def test_half_a_message_and_silence(self, sites: Sites) -> None:
        """A link over which nothing more comes is cut; `talk` sees it closed."""
        with sites.refusing({"silent": 1, "half": 1}), sites.rogue.away():
            sites.talk(sites.keys / "mallory", framed(b"whole")[:6])

    @pytest.mark.parametrize("what", soak_but(["nothing"], ["a flow", "nothing"]))
    def test_ten_thousand_messages_a_second(self, sites: Sites, what: str) -> None:
        """The services answer meanwhile, and every message is accounted for."""
        message = sites.rogue.transport.kept[0] if what == "a flow" else b"x"
        before = sites.refusals()
        flood = threading.Thread(target=sites.rogue.send, args=[message] * 30_000)
        flood.start()
        played = 0
        while flood.is_alive() or played < 5:
            sites.play("centre")  # within the five seconds that a client waits
            sites.play("north")
            played += 1
        flood.join()
        reason = "mallory: stale" if what == "a flow" else "mallory: message"

        def all_there() -> bool:
            moved = sites.refusals() - before
            return moved["dropped"] + moved[reason] >= 30_000

        until(all_there, "the flood")
        sites.unharmed()
        moved = sites.refusals() - before
        moved.pop("paused", None)
        assert moved.keys() == {"dropped", reason}
        assert moved.total() >= 30_000  # beside those that mallory meant itself

    @pytest.mark.parametrize("message", [b"", b"x"])
    def test_as_many_as_the_line_takes(self, sites: Sites, message: bytes) -> None:
        """The smallest there are, which cost the most; centre reads so many, and no more."""
        data, before, began = framed(message) * 100_000, sites.refusals(), time.monotonic()

        def paused() -> int:
            return (sites.refusals() - before)["paused"]

        ended = threading.Event()

        def flood() -> None:
            with suppress(OSError), handshake(sites.address, sites.keys / "mallory") as link:
                link.settimeout(0.5)
                while not ended.is_set():
                    with suppress(TimeoutError):
                        link.send(data)

        with sites.rogue.away():
            flooding = threading.Thread(target=flood)
            flooding.start()
            try:
                while paused() < 2 and flooding.is_alive():  # centre answers meanwhile
                    assert time.monotonic() < began + WAIT, "it is never paused"
                    sites.play("centre")
            finally:
                ended.set()
                flooding.join()
        sites.unharmed()
        moved = sites.refusals() - before
        assert moved["paused"] >= 2
        assert moved.keys() <= {"paused", "dropped", "half", "mallory: message"}
        assert moved.total() < MOST_TAKEN * (time.monotonic() - began + 1)
