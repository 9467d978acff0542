"""What exchanges between agents on a network cost: 16 agents in 4 processes, TLS both ways.

Live agents and bare asyncio streams take turns within one run, each time in new processes, so that
other load on the machine affects both. CPU time is that of all threads of the processes, user and
system.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import ROOT
from benchmarks.exchanging import KINDS, PROCESSES, federation
from benchmarks.processes import environment
from benchmarks.rows import Measure, Measured

NOTES = {
    "TLS": "our transport, ledgers in memory",
    "journals": "ours, each flow on disk before it is sent: as an operator has it",
}


class Exchanged(NamedTuple):
    """One turn of one kind.

    Attributes:
        wall: microseconds between two exchanges, of all edges together.
        work: microseconds of CPU of an exchange, of both ends.
    """

    wall: float
    work: float


def measures(quick: bool) -> list[Measure]:
    """K=20, a grid, every edge between two processes; closed loop."""
    seconds, n = (0.2, 1) if quick else (3.0, 5)
    rows = []
    for kind in NOTES:
        for unit, which in (("µs of CPU", "work"), ("µs an exchange", "wall")):
            name = f"live/16 agents/{kind}{', CPU' if which == 'work' else ''}"
            rows.append(Measure(name, unit, partial(_row, kind, which, seconds, n)))
    return rows


def _row(kind: str, which: str, seconds: float, n: int) -> Measured:
    turns = _turns(seconds, n)
    taken, floor = (tuple(getattr(each, which) for each in turns[k]) for k in (kind, "plain"))
    note = f"{NOTES[kind]}; floor: TLS streams of asyncio, with nothing but messages of that size"
    if which == "wall":
        rates = [f"{1e6 / min(each.wall for each in turns[k]):,.0f}" for k in (kind, "plain")]
        note = f"{rates[0]} exchanges a second, the floor {rates[1]}"
    return Measured(min(taken), taken, None, None, min(floor), note)


@cache
def _turns(seconds: float, n: int) -> dict[str, list[Exchanged]]:
    """All kinds, one after the other, n times."""
    turns: dict[str, list[Exchanged]] = {kind: [] for kind in KINDS}
    for _ in range(n):
        for kind in KINDS:
            turns[kind].append(_turn(kind, seconds))
    return turns


def _turn(kind: str, seconds: float) -> Exchanged:
    from fedbandits.live.federation.keys import write_keys

    members = federation().members
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        write_keys(federation(), f"{folder}/keys")
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in members]
        ports = [each.getsockname()[1] for each in sockets]
        for each in sockets:
            each.close()
        addresses = {name: f"127.0.0.1:{port}" for name, port in zip(members, ports, strict=True)}
        Path(folder, "addresses.json").write_text(json.dumps(addresses), encoding="utf-8")
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.exchanging", kind, folder, str(i), str(seconds)],
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for i in range(PROCESSES)
        ]
        try:
            return _measured(processes)
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def _measured(processes: list[subprocess.Popen[str]]) -> Exchanged:
    """Let all of them begin at once, when all are ready."""
    for process in processes:
        _line(process)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    made, seconds, work = map(
        sum, zip(*(json.loads(_line(each)) for each in processes), strict=True)
    )
    return Exchanged(seconds / len(processes) / made * 1e6, work / made * 1e6)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise RuntimeError(f"a process with agents ended with {process.wait()}")
    return line
