"""kill -9 at any instant: nothing acknowledged is lost, nothing counts twice."""

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
from fedbandits.live.protocol.loss_sums import LossSums
from fedbandits.live.protocol.member import Member
from fedbandits.live.protocol.records import Saved, StateRecord, TicketRecord

from .killed import ARMS, PART, SEED, chosen, loss_of, next_step, observed

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("KILLS", "20"))


def run_and_kill(path: Path, callers: int, luck: random.Random, *, last: bool = False) -> list[str]:
    """Start the process, kill it at some instant; what it has acknowledged: at last, something."""
    pause = luck.choice([0, 0.003])
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.live.killed", str(path), str(callers), str(pause)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    late = threading.Timer(60, child.kill)  # one that hangs shall fail, not wait
    late.start()
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
    late.cancel()
    return [line for line in lines if line != "running"]


def member(saved: Saved) -> Member:
    return Member(PART.name, PART.algorithm, ARMS, 1, {}, saved, lambda: 1)


class Undisturbed:
    """An agent that nobody kills, and what it has acknowledged so far."""

    def __init__(self, life: str) -> None:
        self.life = life
        self.member = member(Saved(life, SEED, None, {}, []))
        self.open: list[int] = []
        self.told: list[str] = []

    def step(self) -> None:
        t = next_step(self.member.rounds, self.open)
        if t is None:
            self.told.append(chosen(self.member.choose(now=0.0)))
            self.open.append(self.member.rounds)
        else:
            self.member.observe(f"{self.life}-{t}", loss_of(t), now=0.0)
            self.told.append(observed(t))
            self.open.remove(t)

    def tickets(self) -> list[TicketRecord]:
        known = [*self.member.book.open.values(), *self.member.book.closed.values()]
        return sorted(known, key=lambda ticket: ticket.round)


def without_times(state: StateRecord) -> StateRecord:
    """Return a state with the losses since the start alone, without times and rounding errors."""
    if state.losses is None:
        return state
    total = LossSums(len(ARMS), state.losses).total.round(9).tobytes()
    losses = msgspec.structs.replace(state.losses, since=0.0, until=0.0, sums=total)
    return msgspec.structs.replace(state, losses=losses)


def in_order(part: list[str], whole: list[str]) -> bool:
    """Whether the lines of a part come in the whole, each once and in this order."""
    rest = iter(whole)
    return all(line in rest for line in part)


def sums(told: list[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Σ loss / p at the arms of what was observed."""
    found = np.zeros(len(ARMS))
    tickets = {}
    for line in told:
        what, t, *rest = line.split()
        if what == "chose":
            tickets[t] = ARMS.index(rest[0]), float(rest[1])
        else:
            arm, p = tickets.pop(t)
            found[arm] += loss_of(int(t)) / p
    return found


@pytest.mark.soak
def test_killed_step_by_step(tmp_path: Path) -> None:
    """One caller: after every kill the agent is the very one that nobody killed."""
    path = tmp_path / "shop3.db"
    luck = random.Random(1)
    told: list[str] = []
    twin: Undisturbed | None = None
    for kills in range(1, KILLS + 1):
        told += run_and_kill(path, 1, luck, last=kills == KILLS)
        if not path.exists():  # killed before there was anything to lose
            assert told == []
            continue
        saved = read_journal(path).saved
        twin = twin or Undisturbed(saved.life)
        state = saved.state
        if state is None:
            assert told == []
            continue
        while len(twin.told) < state.rounds + state.observed:
            twin.step()
        assert in_order(told, twin.told)  # all that was acknowledged is there, once
        assert len(twin.told) - len(told) <= kills  # and what a kill kept from being told
        assert without_times(state) == without_times(twin.member._state_record())
        # Every start gives out ids of its own.
        known = {
            t.round: msgspec.structs.replace(t, issued=0.0, id=f"{twin.life}-{t.round}")
            for t in saved.tickets
        }
        assert [*known.values()] == twin.tickets()
        saved = saved._replace(tickets=[*known.values()])
        np.testing.assert_allclose(
            np.frombuffer(state.inputs["z"]), sums(twin.told), rtol=1e-9, atol=1e-9
        )
        again, undisturbed = member(saved), copy.deepcopy(twin.member)
        for _ in range(10):
            ours, theirs = again.choose(now=0.0), undisturbed.choose(now=0.0)
            assert ours == theirs
            again.observe(ours.id, 0.7, now=0.0)
            undisturbed.observe(theirs.id, 0.7, now=0.0)
    assert told


@pytest.mark.slow
def test_killed_with_many_callers(tmp_path: Path) -> None:
    """Callers who share commits: whatever their order, each observation counts once."""
    path = tmp_path / "shop3.db"
    luck = random.Random(2)
    told: list[str] = []
    for left in reversed(range(max(KILLS // 4, 1))):
        told += run_and_kill(path, 16, luck, last=not left)
        if not path.exists() or (state := (saved := read_journal(path).saved).state) is None:
            assert told == []
            continue
        tickets = {ticket.round: ticket for ticket in saved.tickets}
        assert len(set(told)) == len(told)  # no ticket was given out twice
        for line in told:
            what, number, *rest = line.split()
            ticket = tickets[int(number)]
            if what == "chose":
                assert ARMS[ticket.arm] == rest[0]
            else:
                assert ticket.status == "observed"
                assert np.frombuffer(ticket.feedback) == loss_of(ticket.round)
        counted = [t for t, ticket in tickets.items() if ticket.status == "observed"]
        assert len(counted) == state.observed
        # Who observes was told of the ticket, and so were we.
        lines = [line for line in told if line.startswith("chose")] + list(map(observed, counted))
        inputs = np.frombuffer(state.inputs["z"])
        np.testing.assert_allclose(inputs, sums(lines), rtol=1e-9, atol=1e-9)
    assert told
