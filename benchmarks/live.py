"""What a live agent costs: choices that are on disk, exchanges, memory and the start."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import fedbandits as fb
from benchmarks.processes import python
from benchmarks.rows import Measure, Measured
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.records import SavedAgent

ARMS = tuple(f"arm{i}" for i in range(20))
GOAL_PAIR = 200.0
GOAL_MEMORY = 60.0
GOAL_IMPORT = 0.2

IDLE = """
import asyncio, pathlib, sys, tempfile, time
began = time.perf_counter()
import fedbandits as fb
fb.live.Agent
imported = time.perf_counter() - began

async def idle():
    with tempfile.TemporaryDirectory() as folder:
        shops = fb.live.Federation([f"arm{i}" for i in range(20)], fb.networks.star(5))
        network = fb.live.MemoryNetwork()
        async with fb.live.Agent("agent1", shops, f"{folder}/a.db", network.transport("agent1")):
            await asyncio.sleep(2)
            status = pathlib.Path("/proc/self/status").read_text()
    resident = [line for line in status.splitlines() if line.startswith("VmRSS")]
    print(imported, int(resident[0].split()[1]) / 1024)

asyncio.run(idle())
"""


def measures(quick: bool) -> list[Measure]:
    """One agent on this machine's disk; K=20."""
    pairs, n = (50, 2) if quick else (4_000, 5)
    return [
        Measure("live/one caller", "µs a pair", lambda: _pairs(1, pairs // 4, n)),
        Measure("live/64 callers", "µs a pair", lambda: _pairs(64, pairs, n)),
        Measure("live/exchange", "µs of CPU", lambda: _exchange(pairs, n)),
        Measure("live/idle memory", "MiB", lambda: _idle(1, GOAL_MEMORY, n)),
        Measure("live/import", "s", lambda: _idle(0, GOAL_IMPORT, n)),
    ]


def _pairs(callers: int, pairs: int, n: int) -> Measured:
    """A choice and its observation, each on disk before it returns, SQLite at synchronous=FULL."""
    taken = tuple(asyncio.run(_play(callers, pairs)) / pairs * 1e6 for _ in range(n))
    rate = 1e6 / min(taken)
    note = f"{rate:,.0f} pairs a second; floor: a commit of SQLite alone, of both calls"
    goal = GOAL_PAIR if callers > 1 else None
    floor = 2 * _commit(n) / callers
    return Measured(min(taken), taken, goal, None, floor, note)


async def _play(callers: int, pairs: int) -> float:
    federation = fb.live.Federation(ARMS, fb.networks.path(1))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        async with fb.live.Agent("agent1", federation, f"{folder}/agent.db") as agent:

            async def call(times: int) -> None:
                for _ in range(times):
                    ticket = await agent.choose()
                    await agent.observe(ticket.id, 0.5)

            await asyncio.gather(*[call(2) for _ in range(callers)])
            began = perf_counter()
            await asyncio.gather(*[call(pairs // callers) for _ in range(callers)])
            return perf_counter() - began


def _commit(n: int) -> float:
    """Microseconds of a commit of one short row."""
    import sqlite3

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        connection = sqlite3.connect(f"{folder}/floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (x)")
        taken = []
        for _ in range(n):
            began = perf_counter()
            for _ in range(100):
                connection.execute("INSERT INTO t VALUES (?)", (b"x" * 100,))
            taken.append((perf_counter() - began) / 100 * 1e6)
        connection.close()
    return min(taken)


def _exchange(exchanges: int, n: int) -> Measured:
    """A report and its answer, both ends together, without disk and network."""
    taken = []
    for _ in range(n):
        owner, other = sorted(_pair(), key=lambda one: len(one.reports()))
        other.ledger.set_values({"z": np.ones(len(ARMS))})
        began = process_time()
        for _ in range(exchanges):
            [(_, report)] = other.reports()
            [(_, flow)] = owner.receive(other.name, report)
            other.receive(owner.name, flow)
            owner.changes(), other.changes()
        taken.append((process_time() - began) / exchanges * 1e6)
    return Measured(min(taken), tuple(taken), note="K=20; report, answer, and what is to be saved")


def _pair() -> list[AgentCore]:
    federation = fb.live.Federation(ARMS, fb.networks.path(2))
    return [
        AgentCore(federation.part(name), SavedAgent(name, b"s", None, {}, []), lambda: 1)
        for name in federation.members
    ]


def _idle(which: int, goal: float, n: int) -> Measured:
    """A process with one agent that waits."""
    found = tuple(float(python("-c", IDLE).output.split()[which]) for _ in range(max(n // 2, 1)))
    note = (
        "fresh process; import fedbandits and fb.live.Agent" if which == 0 else "VmRSS, after 2 s"
    )
    return Measured(min(found), found, goal, note=note)
