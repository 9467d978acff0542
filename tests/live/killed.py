"""A process that chooses and observes at full speed until a test kills it.

`python -m tests.live.killed shop3.db 1 0` prints each acknowledged call at once, a line each. With
one caller the next step is a function of the journal (`next_step`), so that an undisturbed agent
makes the same steps.
"""

from __future__ import annotations

import asyncio
import os
import sys

from fedbandits.algorithms.fedexp3 import FedExp3
from fedbandits.live.agent.agent import Agent
from fedbandits.live.federation.federation import Part
from fedbandits.live.journal import Journal, read_journal
from fedbandits.live.protocol.records import Changes
from fedbandits.live.protocol.tickets import Ticket, TicketExpiry

SEED = b"killed"
ARMS = tuple(f"arm{i}" for i in range(20))
PART = Part("shop3", 1, {}, ARMS, FedExp3(0.1), 0.5, float("inf"), TicketExpiry(), {})


def loss_of(t: int) -> float:
    return (t * 0.37) % 1.0


def next_step(rounds: int, open_rounds: list[int]) -> int | None:
    """Return the open round to observe next; None to choose."""
    if len(open_rounds) <= 1 + rounds % 7:
        return None
    return open_rounds[(5 * rounds + len(open_rounds)) % len(open_rounds)]


def chosen(ticket: Ticket) -> str:
    return f"chose {ticket.id.rpartition('-')[2]} {ticket.arm} {ticket.probability!r}"


def observed(t: int) -> str:
    return f"observed {t}"


def acknowledge(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # at once, and whole


async def step_by_step(agent: Agent, path: str) -> None:
    """Act as one caller, who continues from the journal."""
    saved = read_journal(path).saved
    waiting = [ticket.round for ticket in saved.tickets if ticket.status == "open"]
    ids = {ticket.round: ticket.id for ticket in saved.tickets}
    while True:
        t = next_step(agent.rounds, waiting)
        if t is None:
            ticket = await agent.choose()
            acknowledge(chosen(ticket))
            ids[agent.rounds] = ticket.id
            waiting.append(agent.rounds)
        else:
            await agent.observe(ids[t], loss_of(t))
            acknowledge(observed(t))
            waiting.remove(t)


async def pairs(agent: Agent) -> None:
    """Act as one of several callers, who share commits."""
    while True:
        ticket = await agent.choose()
        acknowledge(chosen(ticket))
        t = int(ticket.id.rpartition("-")[2])
        await agent.observe(ticket.id, loss_of(t))
        acknowledge(observed(t))


class SlowJournal(Journal):
    """A journal that pauses before and after a write, so that kills often happen there.

    Data given to the system survive a killed process, synced or not. A kill during the sync, which
    takes most of a write, therefore leaves the same as a kill after it.
    """

    def __init__(self, path: str, pause: float) -> None:
        super().__init__(path)
        self.pause = pause

    async def write(self, changes: Changes) -> None:
        await asyncio.sleep(self.pause)
        await super().write(changes)
        await asyncio.sleep(self.pause)


async def main(path: str, callers: int, pause: float) -> None:
    journal = SlowJournal(path, pause) if pause else Journal(path)
    async with Agent("shop3", PART, journal, seed=SEED) as agent:
        acknowledge("running")
        if callers == 1:
            await step_by_step(agent, path)
        else:
            await asyncio.gather(*(pairs(agent) for _ in range(callers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
