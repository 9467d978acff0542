"""Journals and members for tests."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedbandits.algorithms.fedexp3 import FedExp3
from fedbandits.common.describe import canonical, describe
from fedbandits.live.federation.definition import Part
from fedbandits.live.journal import Journal
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.records import Changes, Identity, SavedAgent
from fedbandits.live.protocol.tickets import TicketExpiry

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
    """What an agent without a journal begins with."""
    return SavedAgent("00000000", seed, None, {}, [])


def loss_of(t: int) -> float:
    return (t * 0.37) % 1.0


def play(player: AgentCore, rounds: int) -> list[str]:
    """Choose, and observe all but every fifth choice; what was played."""
    arms = []
    for _ in range(rounds):
        ticket = player.choose(now=100.0 + player.rounds)
        arms.append(ticket.arm)
        if player.rounds % 5:
            player.observe(ticket.id, loss_of(player.rounds), now=100.0)
    return arms


def gossip(first: AgentCore, second: AgentCore) -> None:
    """One exchange over their edge."""
    for sender, receiver in ((first, second), (second, first)):
        for _, report in sender.reports():
            for _, answer in receiver.receive(sender.name, report):
                sender.receive(receiver.name, answer)


class Opened:
    """A journal that is open, for tests without an event loop."""

    def __init__(self, runner: asyncio.Runner, journal: Journal, saved: SavedAgent) -> None:
        self.runner = runner
        self.journal = journal
        self.saved = saved

    def write(self, changes: Changes) -> None:
        self.runner.run(self.journal.write(changes))

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement where the journal runs its own."""

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
    """A journal with open and closed tickets and an edge, closed; its member."""
    other = member(unsaved(b"other"), ("shop3",), "shop4")
    with opened(path) as kept:
        player = member(kept.saved, ("shop4",))
        play(other, rounds)
        play(player, rounds)
        gossip(player, other)
        assert np.abs(player.ledger.edges["shop4"].flow["z"]).max() > 0
        kept.write(player.changes())
    return player
