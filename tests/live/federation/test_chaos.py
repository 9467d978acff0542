"""Nine processes with certificates of their own, killed, stopped and started again."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.live import Federation, read_journal
from fedbandits.live.client import ServiceError
from fedbandits.live.up import Member
from tests.salt import SALT

from .processes import ask, restarted, running, wait_for

SECONDS = float(os.environ.get("CHAOS", "20"))
"""Of kills and stops; 300 on demand."""

FILE = """
arms = ["tea", "coffee", "cocoa"]
gossip_period = 0.2

[network]
name = "grid"
rows = 3
cols = 3
"""


class Application:
    """Chooses and observes at one agent until it ends; remembers what was acknowledged."""

    def __init__(self, members: dict[str, Member], name: str, seed: int) -> None:
        self.observed: dict[str, float] = {}
        self.tickets: dict[str, tuple[str, float]] = {}
        self.ended = threading.Event()
        self._members, self._name = members, name
        self._chance = random.Random(seed)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self.ended.is_set():
            time.sleep(0.05)
            try:
                ticket = ask(self._members[self._name], "/v1/choose", {})
                self.tickets[ticket["ticket"]] = (ticket["arm"], ticket["probability"])
                loss = round(self._chance.random(), 3)
                self._observe(ticket["ticket"], loss)
            except (ServiceError, OSError):
                continue

    def _observe(self, ticket: str, loss: float) -> None:
        """Until it is acknowledged: an observation may be repeated, whatever has happened."""
        while not self.ended.is_set():
            try:
                ask(self._members[self._name], "/v1/observe", {"ticket": ticket, "loss": loss})
            except (ServiceError, OSError):
                time.sleep(0.2)
                continue
            self.observed[ticket] = loss
            return

    def end(self) -> None:
        self.ended.set()
        self._thread.join()


def disturb(members: dict[str, Member], folder: Path, chance: random.Random) -> str:
    """One thing that goes wrong with one agent, and is over soon."""
    name = chance.choice(sorted(members))
    process = members[name].process
    if chance.random() < 0.4:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(chance.uniform(0.5, 3.0))
        os.kill(process.pid, signal.SIGCONT)
        return "stopped"
    process.kill()
    process.wait()
    time.sleep(chance.uniform(0.0, 1.0))
    members[name] = restarted(members[name], folder)
    wait_for(members[name])
    return "killed"


@pytest.mark.slow
def test_chaos(tmp_path: Path) -> None:
    source = tmp_path / "federation.toml"
    source.write_text(FILE)
    federation = Federation.read(source)
    chance = random.Random(SALT)
    with running(federation, source, tmp_path) as members:
        applications = {
            name: Application(members, name, seed) for seed, name in enumerate(sorted(members))
        }
        end = time.monotonic() + SECONDS
        happened = [disturb(members, tmp_path, chance)]
        try:
            while time.monotonic() < end:
                happened.append(disturb(members, tmp_path, chance))
        finally:
            for application in applications.values():
                application.end()
        agree(members)
    assert len(happened) >= 3
    journals = {name: read_journal(tmp_path / f"{name}.db") for name in federation.members}
    for name, application in applications.items():
        check_observed(journals[name].saved, application)
    check_mass(journals)


def agree(members: dict[str, Member]) -> None:
    """Disagreement falls to nothing, once nothing happens any more."""
    end = time.monotonic() + 60
    apart = np.inf
    while time.monotonic() < end:
        found = [ask(member, "/v1/status") for member in members.values()]
        apart = max(each["disagreement"] for each in found)
        if apart < 1e-9 and all(each["neighbours"] for each in found):
            return
        time.sleep(0.5)
    raise AssertionError(f"still apart by {apart}")


def check_observed(saved: Any, application: Application) -> None:
    """Every observation that was acknowledged is there, and counted once."""
    records = {record.id: record for record in saved.tickets}
    for ticket, loss in application.observed.items():
        assert records[ticket].status == "observed"
        assert np.frombuffer(records[ticket].feedback)[0] == loss
    counted = np.zeros(3)
    for ticket, record in records.items():
        if record.feedback:
            arm, p = application.tickets[ticket]
            counted[("tea", "coffee", "cocoa").index(arm)] += np.frombuffer(record.feedback)[0] / p
    np.testing.assert_allclose(np.frombuffer(saved.state.inputs["z"]), counted, rtol=1e-9)


def check_mass(journals: dict[str, Any]) -> None:
    """What flowed out flowed in, so that Σz = Σ of what was put in."""
    put_in = sum(np.frombuffer(j.saved.state.inputs["z"]) for j in journals.values())
    flows = sum(
        np.frombuffer(edge.flow["z"]) for j in journals.values() for edge in j.saved.edges.values()
    )
    assert np.abs(flows).max() <= 1e-9 * np.abs(put_in).max()
