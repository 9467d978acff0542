"""A hostile neighbour in a federation of real processes.

north - centre - mallory. Mallory is a true member, run by the test, and attacks centre.
Each attack is refused and moves the expected counter in centre's /metrics and no other. Afterwards
all exchange and agree, and have lost nothing of what was put in.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedbandits.live import Federation, read_journal
from fedbandits.live.operations.local_cluster import MemberProcess, start_member
from fedbandits.live.operations.site import read_site
from fedbandits.live.protocol.messages import FlowMessage, encode, game_hash
from fedbandits.live.transport.link import MOST_TAKEN
from tests.live.links import handshake
from tests.tiers import soak_but

from .processes import ask, running, wait_for
from .rogue import Rogue

pytestmark = pytest.mark.slow

FILE = """
arms = ["tea", "coffee", "cocoa"]
members = ["centre", "north", "mallory"]
links = [["north", "centre"], ["centre", "mallory"]]
gossip_period = 0.03
"""

WAIT = 30.0
"""Seconds to wait for an event that must happen."""

QUIET = ("sent", "received", "unsent", "reloads")
"""Counters that may move without attacks."""


def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.05)


class Sites:
    """The processes, and the sum of the inputs through their services."""

    def __init__(self, members: dict[str, MemberProcess], folder: Path, rogue: Rogue) -> None:
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
        """Return centre's counters of refusals, such as `strangers` or `mallory: game`."""
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
        """Check that the block moves these counters and no others, and does no harm."""
        before = self.refusals()
        yield
        until(lambda: self.refusals() - before >= Counter(expected), f"{expected}")
        self.unharmed()
        assert self.refusals() - before == Counter(expected)

    def unharmed(self) -> None:
        """Check that all play, exchange and agree, and that Σz is the sum of the inputs."""
        for name in self.members:
            self.play(name)
        until(lambda: self.apart() < 1e-6, "agreement")
        until(self.balanced, "a balance")

    def apart(self) -> float:
        found = [ask(member, "/v1/status")["disagreement"] for member in self.members.values()]
        return float(max(*found, self.rogue.disagreement()))

    def balanced(self) -> bool:
        """Return whether flows cancel out and inputs are what was acknowledged."""
        files = [self.folder / f"{name}.db" for name in self.members] + [self.rogue.site.journal]
        journals = [read_journal(file).saved for file in files]
        inputs = [np.frombuffer(each.state.inputs["z"]) for each in journals if each.state]
        edges = [edge for each in journals for edge in each.edges.values()]
        flows = np.sum([np.frombuffer(edge.flow["z"]) for edge in edges], axis=0)
        np.testing.assert_allclose(np.sum(inputs, axis=0), self.put_in, rtol=1e-12)
        return bool(np.abs(flows).max() <= 1e-9 * self.put_in.max())

    def talk_and_close(self, own: Path, data: bytes) -> None:
        """Open a link to centre, send data, end the stream, and wait until it has been read."""
        with handshake(self.address, own) as link, suppress(OSError):
            link.settimeout(WAIT)
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            while link.recv(1000):
                pass


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


def test_a_member_that_asks_for_the_name_of_another(sites: Sites) -> None:
    """Only the certificate names the sender: neither a message nor a server name does."""
    before = sites.refusals()
    with (
        sites.refusing({"mallory: message": 1}),
        sites.rogue.away(),
        handshake(sites.address, sites.keys / "mallory", called="north") as link,
    ):
        link.sendall(framed(b"lie"))
        until(lambda: sites.refusals() - before, "a refusal")


def framed(message: bytes) -> bytes:
    """Return a message as links carry it."""
    return len(message).to_bytes(4, "big") + message


def last_flow(sites: Sites) -> FlowMessage:
    """Return the last message that mallory sent."""
    return msgspec.msgpack.decode(sites.rogue.transport.kept[-1], type=FlowMessage)


def recorded(sites: Sites) -> list[bytes]:
    """Return fifty messages of mallory that are no longer the last."""
    kept = sites.rogue.transport.kept
    begin = len(kept)
    until(lambda: len(kept) >= begin + 55, "messages")
    return kept[begin : begin + 50]


def test_invalid_messages(sites: Sites) -> None:
    """As a neighbour with another file sends them, and as a liar does."""
    flow, two = last_flow(sites), {"z": np.zeros(2).tobytes()}

    def changed(**fields: Any) -> bytes:
        return encode(msgspec.structs.replace(flow, **fields))

    def with_number(field: str, number: float) -> bytes:
        numbers = np.frombuffer(getattr(flow, field)["z"]).copy()
        numbers[1] = number
        return changed(**{field: {"z": numbers.tobytes()}})

    infinite = itertools.product(("values", "flow"), (np.nan, np.inf, -np.inf))
    other = game_hash("FedExp3", {"z": 2}, ("tea", "coffee"))
    whole = sites.rogue.transport.kept[-1]
    reasons = {"numbers": 6, "game": 1, "message": 4, "large": 1}
    with sites.refusing({f"mallory: {reason}": n for reason, n in reasons.items()}):
        sites.rogue.send(
            *(with_number(*each) for each in infinite),
            changed(game=other, flow=two, values=two),
            changed(flow=two, values=two),
            *(b"lie", whole[: len(whole) // 2], whole + whole),
            bytes(500_000),
        )


@pytest.mark.parametrize(
    "meanwhile", soak_but(["nothing", "a restart"], ["nothing", "a restart", "a lost disk"])
)
def test_recorded_messages(sites: Sites, meanwhile: str) -> None:
    """Sent again, also after centre restarted, or mallory lost its disk and began a new ledger."""
    messages = recorded(sites)
    if meanwhile == "a restart":
        centre = sites.members["centre"]
        centre.process.kill()
        centre.process.wait()
        sites.members["centre"] = start_member("centre", centre.url, sites.folder)
        wait_for(sites.members["centre"])
    if meanwhile == "a lost disk":
        sites.rogue.stop()
        sites.rogue.start(sites.folder / "mallory-again.db")
    if meanwhile != "nothing":
        sites.unharmed()
    with sites.refusing({"mallory: stale": 50}):
        sites.rogue.send(*messages)


class TestTooMuch:
    """Clients with a neighbour's keys that send too much."""

    @pytest.mark.parametrize("announced", soak_but([100_000_000], [100_000_000, 2**19]))
    def test_a_hundred_megabytes_sent(self, sites: Sites, announced: int) -> None:
        """As one message, or as messages of the largest allowed size."""
        messages = 100_000_000 // announced
        before, memory = sites.refusals(), self.peak(sites)
        with sites.rogue.away():
            sites.talk_and_close(sites.keys / "mallory", framed(bytes(announced)) * messages)
        until(lambda: (sites.refusals() - before).total() >= messages, "refusals")
        sites.unharmed()
        moved = sites.refusals() - before
        # So many bytes are not read within a second.
        assert moved.pop("paused", 0) <= 3
        reason = "oversized" if messages == 1 else "mallory: large"
        assert moved[reason] + moved["dropped"] == moved.total() == messages
        assert moved[reason] > 0
        assert self.peak(sites) - memory < 60

    def peak(self, sites: Sites) -> int:
        """Return the peak memory of centre, in MiB."""
        status = Path(f"/proc/{sites.members['centre'].process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) // 1024

    @pytest.mark.parametrize("what", soak_but(["nothing"], ["a flow", "nothing"]))
    def test_ten_thousand_messages_a_second(self, sites: Sites, what: str) -> None:
        """The services respond meanwhile, and every message is counted."""
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
        """The smallest messages cost the most; centre bounds how many it reads."""
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
