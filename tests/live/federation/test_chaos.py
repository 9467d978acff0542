"""Nine processes with certificates, killed, stopped and restarted, on bad links."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.live import Federation, read_journal
from fedbandits.live.operations.local_cluster import MemberProcess
from tests.salt import SALT

from .disturbances import DECK, Chaos, Links
from .forwarder import Forwarders
from .processes import ask, running, wait_for

SECONDS = float(os.environ.get("CHAOS", "60"))
"""Seconds of chaos."""

LEAST = 1e-9
"""The largest difference of sums of losses between neighbours that agree."""

FILE = """
arms = ["tea", "coffee", "cocoa"]
gossip_period = 0.2

[network]
name = "grid"
rows = 3
cols = 3
"""


class Application:
    """Chooses and observes at one agent, and records what was acknowledged."""

    def __init__(self, members: dict[str, MemberProcess], name: str, seed: int) -> None:
        self.observed: dict[str, float] = {}
        self.tickets: dict[str, tuple[str, float]] = {}
        self.forgotten: list[str] = []
        self.ended = threading.Event()
        self.name = name
        self._members = members
        self._chance = random.Random(seed)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self.ended.is_set():
            time.sleep(0.05)
            try:
                ticket = ask(self._members[self.name], "/v1/choose", {})
                self.tickets[ticket["ticket"]] = (ticket["arm"], ticket["probability"])
                loss = round(self._chance.random(), 3)
                self._observe(ticket["ticket"], loss)
            except OSError:
                continue

    def _observe(self, ticket: str, loss: float) -> None:
        """Repeat an observation until it is acknowledged."""
        while not self.ended.is_set():
            try:
                ask(self._members[self.name], "/v1/observe", {"ticket": ticket, "loss": loss})
            except OSError as error:
                if "answered 404" in str(error):
                    self.forgotten.append(ticket)
                    return
                time.sleep(0.2)
                continue
            self.observed[ticket] = loss
            return

    def end(self) -> None:
        self.ended.set()
        self._thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [10.0, pytest.param(SECONDS, marks=pytest.mark.soak)])
def test_chaos(tmp_path: Path, seconds: float) -> None:
    source = tmp_path / "federation.toml"
    source.write_text(FILE)
    federation = Federation.read(source)
    sys.stdout.write(f"again by SALT={SALT} CHAOS={seconds:g}\n")
    with Forwarders() as forwarders:
        links = Links(forwarders, [(u, v) for u, v, _ in federation.edges()])
        with running(federation, source, tmp_path, lambda: links.lead(tmp_path)) as members:
            applications = [Application(members, v, i) for i, v in enumerate(sorted(members))]
            chaos = Chaos(members, links, tmp_path, SALT)
            try:
                chaos.rage(seconds)
                for member in members.values():
                    wait_for(member)
            finally:
                for application in applications:
                    application.end()
            apart, _ = disagreement(members)
            seconds = agree(members)
    journals = {name: read_journal(tmp_path / f"{name}.db") for name in federation.members}
    for application in applications:
        check_observed(journals[application.name].saved, application)
    error = mass_error(journals)
    sys.stdout.write(
        f"{dict(chaos.happened)}; {sum(len(each.observed) for each in applications)} observations "
        f"acknowledged; apart by {apart:.3g}, in {seconds:.1f} s by {LEAST:g}; mass off by "
        f"{error:.1e} of it\n"
    )
    assert error <= 1e-9
    assert set(chaos.happened) == set(DECK)
    assert all(application.observed for application in applications)


def disagreement(members: dict[str, MemberProcess]) -> tuple[float, bool]:
    """Return the largest disagreement, and whether all neighbours have heard each other."""
    found = [ask(member, "/v1/status") for member in members.values()]
    neighbours = [each for one in found for each in one["neighbours"].values()]
    heard = all(each["silent_for"] is not None for each in neighbours)
    return max(each["disagreement"] for each in found), heard


def agree(members: dict[str, MemberProcess]) -> float:
    """Wait for agreement after the chaos; return how many seconds it took."""
    began = time.monotonic()
    while True:
        apart, heard = disagreement(members)
        if heard and apart < LEAST:
            return time.monotonic() - began
        assert time.monotonic() < began + 60, f"still apart by {apart}, all heard: {heard}"
        time.sleep(0.5)


def check_observed(saved: Any, application: Application) -> None:
    """Check that every acknowledged observation is counted exactly once."""
    records = {record.id: record for record in saved.tickets}
    assert application.forgotten == []
    for ticket, loss in application.observed.items():
        assert records[ticket].status == "observed"
        assert np.frombuffer(records[ticket].feedback)[0] == loss
    counted = np.zeros(3)
    for ticket, record in records.items():
        if record.feedback:
            arm, p = application.tickets[ticket]
            counted[("tea", "coffee", "cocoa").index(arm)] += np.frombuffer(record.feedback)[0] / p
    np.testing.assert_allclose(np.frombuffer(saved.state.inputs["z"]), counted, rtol=1e-9)


def mass_error(journals: dict[str, Any]) -> float:
    """Return the sum of all flows relative to the inputs, which is zero if no mass is lost."""
    put_in = sum(np.frombuffer(j.saved.state.inputs["z"]) for j in journals.values())
    flows = sum(
        np.frombuffer(edge.flow["z"]) for j in journals.values() for edge in j.saved.edges.values()
    )
    return float(np.abs(flows).max() / np.abs(put_in).max())
