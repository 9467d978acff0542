"""After kill -9 at any moment, nothing acknowledged is lost and nothing counts twice."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedbandits.live.journal import read_journal
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.loss_sums import LossSums
from fedbandits.live.protocol.records import SavedAgent, StateRecord, TicketRecord

from .journals import ROOT
from .killed import ARMS, PART, SEED, chosen, loss_of, next_step, observed

KILLS = int(os.environ.get("KILLS", "20"))


def run_and_kill(path: Path, callers: int, luck: random.Random, *, last: bool = False) -> list[str]:
    """Start the process and kill it at a random moment; return its acknowledgements.

    In the last run there is at least one.
    """
    pause = luck.choice([0, 0.003])
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.live.killed", str(path), str(callers), str(pause)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    timeout = threading.Timer(60, child.kill)  # of a process that hangs
    timeout.start()
    with child.stdout as pipe:
        first = b""
        if last or luck.random() < 0.8:
            assert pipe.readline() == b"running\n", "it did not start"
            first = pipe.readline() if last else b""
            time.sleep(luck.uniform(0, 0.15))
        else:  # while it starts, and opens the journal
            time.sleep(luck.uniform(0, 0.6))
        assert child.poll() is None
        child.kill()
        lines = (first + pipe.read()).decode().splitlines()
    child.wait()
    timeout.cancel()
    return [line for line in lines if line != "running"]


def core(saved: SavedAgent) -> AgentCore:
    return AgentCore(PART, saved, lambda: 1)


class Undisturbed:
    """An agent that is never killed, and its acknowledgements so far."""

    def __init__(self, life: str) -> None:
        self.life = life
        self.core = core(SavedAgent(life, SEED, None, {}, []))
        self.open: list[int] = []
        self.acknowledged: list[str] = []

    def step(self) -> None:
        t = next_step(self.core.rounds, self.open)
        if t is None:
            self.acknowledged.append(chosen(self.core.choose(now=0.0)))
            self.open.append(self.core.rounds)
        else:
            self.core.observe(f"{self.life}-{t}", loss_of(t), now=0.0)
            self.acknowledged.append(observed(t))
            self.open.remove(t)

    def tickets(self) -> list[TicketRecord]:
        known = [*self.core.book.open.values(), *self.core.book.closed.values()]
        return sorted(known, key=lambda ticket: ticket.round)


def check_same(saved: SavedAgent, twin: Undisturbed) -> SavedAgent:
    """Check that the twin reaches the saved state; return that with the ticket ids of the twin."""

    def without_times(state: StateRecord) -> StateRecord:
        """Return a state with the total losses only, without times and rounding errors."""
        if state.losses is None:
            return state
        total = LossSums(len(ARMS), state.losses).total.round(9).tobytes()
        losses = msgspec.structs.replace(state.losses, since=0.0, until=0.0, sums=total)
        return msgspec.structs.replace(state, losses=losses)

    assert saved.state is not None
    while len(twin.acknowledged) < saved.state.rounds + saved.state.observed:
        twin.step()
    assert without_times(saved.state) == without_times(twin.core.state_record())
    # Every start gives its tickets new ids.
    tickets = [
        msgspec.structs.replace(t, issued=0.0, id=f"{twin.life}-{t.round}") for t in saved.tickets
    ]
    assert tickets == twin.tickets()
    return saved._replace(tickets=tickets)


def in_order(part: list[str], whole: list[str]) -> bool:
    """Return whether the whole contains the lines of a part, each once and in this order."""
    rest = iter(whole)
    return all(line in rest for line in part)


def check_inputs(state: StateRecord, lines: list[str]) -> None:
    """Check that the inputs are Σ loss / p of the observed choices."""
    expected = np.zeros(len(ARMS))
    tickets = {}
    for line in lines:
        what, t, *rest = line.split()
        if what == "chose":
            tickets[t] = ARMS.index(rest[0]), float(rest[1])
        else:
            arm, p = tickets.pop(t)
            expected[arm] += loss_of(int(t)) / p
    np.testing.assert_allclose(np.frombuffer(state.inputs["z"]), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.soak
def test_killed_with_one_caller(tmp_path: Path) -> None:
    """After every kill the agent equals one that was never killed."""
    path, luck = tmp_path / "shop3.db", random.Random(1)
    acknowledged: list[str] = []
    twin: Undisturbed | None = None
    for kills in range(1, KILLS + 1):
        acknowledged += run_and_kill(path, 1, luck, last=kills == KILLS)
        if not path.exists() or (saved := read_journal(path).saved).state is None:
            assert acknowledged == []
            continue
        twin = twin or Undisturbed(saved.life)
        saved = check_same(saved, twin)
        assert in_order(acknowledged, twin.acknowledged)
        # Each kill may prevent one acknowledgement.
        assert len(twin.acknowledged) - len(acknowledged) <= kills
        assert saved.state is not None
        check_inputs(saved.state, twin.acknowledged)
        again, undisturbed = core(saved), copy.deepcopy(twin.core)
        for _ in range(10):
            ours, theirs = again.choose(now=0.0), undisturbed.choose(now=0.0)
            assert ours == theirs
            again.observe(ours.id, 0.7, now=0.0)
            undisturbed.observe(theirs.id, 0.7, now=0.0)
    assert acknowledged


@pytest.mark.slow
def test_killed_with_many_callers(tmp_path: Path) -> None:
    """Callers share commits; in whatever order, each observation counts once."""
    path, luck = tmp_path / "shop3.db", random.Random(2)
    acknowledged: list[str] = []
    for left in reversed(range(max(KILLS // 4, 1))):
        acknowledged += run_and_kill(path, 16, luck, last=not left)
        if not path.exists() or (state := (saved := read_journal(path).saved).state) is None:
            assert acknowledged == []
            continue
        tickets = {ticket.round: ticket for ticket in saved.tickets}
        assert len(set(acknowledged)) == len(acknowledged)  # no ticket twice
        for line in acknowledged:
            what, number, *rest = line.split()
            ticket = tickets[int(number)]
            if what == "chose":
                assert ARMS[ticket.arm] == rest[0]
            else:
                assert ticket.status == "observed"
                assert np.frombuffer(ticket.feedback) == loss_of(ticket.round)
        counted = [t for t, ticket in tickets.items() if ticket.status == "observed"]
        assert len(counted) == state.observed
        # The choice of an observed ticket was acknowledged before.
        choices = [line for line in acknowledged if line.startswith("chose")]
        check_inputs(state, choices + list(map(observed, counted)))
    assert acknowledged
