"""Journals and cores of agents for tests."""

from __future__ import annotations

import asyncio
import itertools
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fedbandits.algorithms.fedexp3 import FedExp3
from fedbandits.common.describe import canonical, describe
from fedbandits.live.federation.federation import Part
from fedbandits.live.journal import Journal, read_journal
from fedbandits.live.journal.errors import JournalError
from fedbandits.live.journal.format import log_path
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.records import Changes, Identity, SavedAgent
from fedbandits.live.protocol.tickets import TicketExpiry

ROOT = Path(__file__).parents[2]
ARMS = ("tea", "coffee", "cocoa")
SEED = bytes(range(32))
ALGORITHM = FedExp3(0.1)


def identity(agent: str = "shop3", arms: tuple[str, ...] = ARMS) -> Identity:
    return Identity(agent, canonical(describe(ALGORITHM)), arms)


def member(
    saved: SavedAgent, neighbours: tuple[str, ...] = (), agent: str = "shop3", arms: int = len(ARMS)
) -> AgentCore:
    """Return the core of an agent with these neighbours."""
    names = ARMS if arms == len(ARMS) else tuple(f"arm{i}" for i in range(arms))
    weights = dict.fromkeys(neighbours, 0.25)
    part = Part(agent, 2, weights, names, ALGORITHM, 0.5, math.inf, TicketExpiry(), {})
    numbers = itertools.count(1)
    return AgentCore(part, saved, lambda: next(numbers))


def unsaved(seed: bytes = SEED) -> SavedAgent:
    """Return the content of an empty journal."""
    return SavedAgent("00000000", seed, None, {}, [])


def loss_of(t: int) -> float:
    return (t * 0.37) % 1.0


def play(player: AgentCore, rounds: int) -> list[str]:
    """Choose, observe all but every fifth choice, and return the arms."""
    arms = []
    for _ in range(rounds):
        ticket = player.choose(now=100.0 + player.rounds)
        arms.append(ticket.arm)
        if player.rounds % 5:
            player.observe(ticket.id, loss_of(player.rounds), now=100.0)
    return arms


def gossip(first: AgentCore, second: AgentCore) -> None:
    """Make one exchange over the edge of two agents."""
    for sender, receiver in ((first, second), (second, first)):
        for _, report in sender.reports():
            for _, answer in receiver.receive(sender.name, report):
                sender.receive(receiver.name, answer)


class Opened:
    """An open journal, for tests without an event loop."""

    def __init__(self, runner: asyncio.Runner, journal: Journal, saved: SavedAgent) -> None:
        self.runner = runner
        self.journal = journal
        self.saved = saved

    def write(self, changes: Changes) -> None:
        self.runner.run(self.journal.write(changes))

    def play(self, rounds: int) -> AgentCore:
        """Play more rounds from the journal's state in one commit, and return the core."""
        player = member(read_journal(self.journal.path).saved)
        play(player, rounds)
        self.write(player.changes())
        return player

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement in the thread and the connection of the journal."""

        def work() -> list[tuple[object, ...]]:
            assert self.journal._connection is not None
            return self.journal._connection.execute(statement).fetchall()

        assert self.journal._executor is not None
        return self.journal._executor.submit(work).result()


@contextmanager
def opened(path: Path, who: Identity | None = None, seed: bytes | None = SEED) -> Iterator[Opened]:
    journal = Journal(path)
    with asyncio.Runner() as runner:
        saved = runner.run(journal.open(who or identity(), seed))
        try:
            yield Opened(runner, journal, saved)
        finally:
            runner.run(journal.close())


def played_journal(path: Path, rounds: int = 40) -> AgentCore:
    """Write a journal with open and closed tickets and an edge, close it, and return the core."""
    other = member(unsaved(b"other"), ("shop3",), "shop4")
    with opened(path) as journal:
        player = member(journal.saved, ("shop4",))
        play(other, rounds)
        play(player, rounds)
        gossip(player, other)
        assert np.abs(player.ledger.edges["shop4"].flow["z"]).max() > 0
        journal.write(player.changes())
    return player


def rounds_of(path: Path) -> int:
    state = read_journal(path).saved.state
    return 0 if state is None else state.rounds


def put_private(path: Path, content: bytes | None) -> None:
    """Write a file that only its owner may read; delete it for None."""
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)


def copy_of(path: Path, folder: Path, log: bytes | None = None) -> Path:
    """Copy the main file of a journal, with this log or without one."""
    folder.mkdir(exist_ok=True)
    copy = Path(shutil.copy(path, folder / path.name))
    put_private(log_path(copy), log)
    return copy


def rejected(path: Path, kind: type[JournalError], who: Identity | None = None) -> str:
    """Return the error of opening a journal; check that no file changes and no lock remains."""

    def files() -> dict[str, bytes]:
        found = [file for file in path.parent.iterdir() if file.is_file()]
        passing = (".lock", "-shm")  # the lock, and the memory that readers share
        return {file.name: file.read_bytes() for file in found if not file.name.endswith(passing)}

    before = files()
    for _ in range(2):
        with pytest.raises(kind) as error:
            asyncio.run(Journal(path).open(who or identity(), SEED))
    assert files() == before
    assert str(path) in str(error.value)
    return str(error.value)
