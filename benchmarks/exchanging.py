"""One of several processes with agents that exchange as fast as they can; `exchanges.py` starts it.

    python -m benchmarks.exchanging KIND FOLDER PROCESS SECONDS

It says "ready" when every edge of its agents has seen an exchange, waits for a line, exchanges for
so many seconds, prints what it did, and goes on until its input ends, since others still measure.

Each agent has one report under way to every owner among its neighbours, and reports again as soon
as all have answered: a closed loop, which takes all the CPU there is.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import fedbandits as fb
from fedbandits.live.federation.federation import Federation
from fedbandits.live.protocol.edge import owns
from fedbandits.live.protocol.messages import EdgeTerms, FlowMessage, ReportMessage, encode
from fedbandits.live.transport.interface import Receive, Transport

ARMS = tuple(f"arm{i}" for i in range(20))
SIDE = 4
PROCESSES = 4
KINDS = ("TLS", "journals", "plain")
"""Live agents; live agents with journals on disk instead of in memory; TLS streams alone."""

WARM = 0.5
"""Seconds of exchanges before those that are measured."""

LOST = 0.2
"""Seconds after which a report without an answer is repeated."""


def federation() -> Federation:
    """Sixteen agents on a grid; every edge is between two processes."""
    return fb.live.Federation(ARMS, fb.networks.grid(SIDE, SIDE))


def agents_of(process: int) -> list[str]:
    """By (row + column) mod 4: neighbours are in different processes."""
    return [
        name
        for i, name in enumerate(federation().members)
        if sum(divmod(i, SIDE)) % PROCESSES == process
    ]


class ClosedLoop:
    """A transport that has its agent report again as soon as all owners have answered.

    Args:
        transport: carries the messages.
        owners: neighbours that own their edge.
    """

    def __init__(self, transport: Transport, owners: frozenset[str]) -> None:
        self.exchanges = 0
        self.seen: set[str] = set()
        self.owners = owners
        self.report: Callable[..., None] = lambda **_: None
        self._transport = transport
        self._unanswered = set(owners)
        self._receive: Receive = lambda *_: None

    async def start(self, receive: Receive) -> None:
        """Begin to listen; `run` begins to report."""
        self._receive = receive
        await self._transport.start(self._heard)

    def send(self, to: str, message: bytes) -> None:
        """As the transport does."""
        self._transport.send(to, message)

    async def stop(self) -> None:
        """As the transport does."""
        await self._transport.stop()

    async def run(self) -> None:
        """Report for the first time, and again what was lost."""
        self.report()
        while True:
            before = self.exchanges
            await asyncio.sleep(LOST)
            if self.exchanges == before:
                self.report(again=True)

    def _heard(self, sender: str, message: bytes) -> None:
        self._receive(sender, message)
        if sender not in self.owners:
            return
        self.exchanges += 1
        self.seen.add(sender)
        self._unanswered.discard(sender)
        if not self._unanswered:
            self._unanswered = set(self.owners)
            self.report()


class Exchanging(NamedTuple):
    """What is measured of this process.

    Attributes:
        exchanges: how many so far, each counted by the end that reports.
        ready: whether every edge has seen one.
    """

    exchanges: Callable[[], int]
    ready: Callable[[], bool]


@asynccontextmanager
async def agents(kind: str, folder: Path, process: int) -> AsyncIterator[Exchanging]:
    """Live agents of this process, with their ledgers."""
    addresses = json.loads((folder / "addresses.json").read_text(encoding="utf-8"))
    loops = []
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for name in agents_of(process):
            part = federation().part(name)._replace(gossip_period=math.inf)
            near = {neighbour: addresses[neighbour] for neighbour in part.neighbours}
            keys = folder / "keys" / name
            transport = fb.live.TlsTransport(name, addresses[name], near, keys)
            owners = frozenset(each for each in near if owns(each, name))
            loop = ClosedLoop(transport, owners)
            store: Any = folder / f"{name}.db" if kind == "journals" else fb.live.MemoryStore()
            agent = fb.live.Agent(name, part, store, loop)
            await stack.enter_async_context(agent)
            loop.report = agent.report
            loops.append(loop)
        running = [tasks.create_task(loop.run()) for loop in loops if loop.owners]
        yield Exchanging(
            lambda: sum(loop.exchanges for loop in loops),
            lambda: all(loop.seen == loop.owners for loop in loops),
        )
        for task in running:
            task.cancel()


@asynccontextmanager
async def plain(folder: Path, process: int) -> AsyncIterator[Exchanging]:
    """The same links and sizes of messages over asyncio's streams, and nothing else.

    Who would own an edge answers a report with a flow; the other sends the next report then.
    """
    addresses = json.loads((folder / "addresses.json").read_text(encoding="utf-8"))
    values, terms = {"z": bytes(8 * len(ARMS))}, EdgeTerms(0.25)
    report = _framed(encode(ReportMessage(1, bytes(8), 2**60, 2**60, 2**10, terms, values)))
    flow = _framed(encode(FlowMessage(1, bytes(8), 2**60, 2**60, 2**10, terms, values, values)))
    made: Counter[str] = Counter()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await _message(reader):
            writer.write(flow)

    async def ask(own: str, owner: str) -> None:
        host, port = addresses[owner].split(":")
        context = _context(folder / "keys" / own, ssl.PROTOCOL_TLS_CLIENT)
        reader, writer = await _until_there(
            lambda: asyncio.open_connection(host, int(port), ssl=context)
        )
        while True:
            writer.write(report)
            if not await _message(reader):
                return
            made[f"{own} {owner}"] += 1

    servers = []
    for name in agents_of(process):
        host, port = addresses[name].split(":")
        context = _context(folder / "keys" / name, ssl.PROTOCOL_TLS_SERVER)
        servers.append(await asyncio.start_server(answer, host, int(port), ssl=context))
    edges = [
        (name, neighbour)
        for name in agents_of(process)
        for neighbour in federation().part(name).neighbours
        if owns(neighbour, name)
    ]
    tasks = [asyncio.create_task(ask(*edge)) for edge in edges]
    yield Exchanging(lambda: sum(made.values()), lambda: len(made) == len(edges))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for server in servers:
        server.close()


async def _until_there(connect: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await connect()
        except OSError:
            await asyncio.sleep(0.05)


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One message; nothing when the link ends."""
    try:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    except (asyncio.IncompleteReadError, OSError):
        return b""


def _context(keys: Path, side: int) -> ssl.SSLContext:
    """As our transport's: TLS 1.3, certificates at both ends."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(keys / "ca.pem")
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    return context


async def main(kind: str, folder: Path, process: int, seconds: float) -> None:
    """Begin, wait, measure, and wait for the others."""
    running = plain(folder, process) if kind == "plain" else agents(kind, folder, process)
    async with running as found:
        while not found.ready():
            await asyncio.sleep(0.02)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(WARM)
        made, began, worked = found.exchanges(), perf_counter(), process_time()
        await asyncio.sleep(seconds)
        made, took = found.exchanges() - made, perf_counter() - began
        sys.stdout.write(json.dumps([made, took, process_time() - worked]) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
