"""A network and disks in memory, as bad as one asks for: for tests and rehearsals.

Whole federations run in one process under a virtual clock (`virtual_clock.run_virtual`), with
messages lost, late, repeated and out of order, partitions, and crashes with and without the disk.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedbandits.common import checks
from fedbandits.live.protocol.records import (
    Changes,
    EdgeRecord,
    Identity,
    Saved,
    StateRecord,
    TicketRecord,
)
from fedbandits.live.transport.interface import Receive


class Partition(NamedTuple):
    """A time during which some agents and the others hear nothing of each other.

    Attributes:
        start: in seconds.
        end: in seconds.
        members: of one side.
    """

    start: float
    end: float
    members: frozenset[str]


@dataclass(frozen=True)
class Links:
    """What becomes of messages.

    Args:
        loss: the share that is lost.
        delay: seconds, uniform between these; of every message anew, so that some overtake others.
        repeat: the share that arrives twice.
        one_way: the share lost from a sender to a receiver, where that is not `loss`.
        partitions: who is cut off when.
    """

    loss: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)
    repeat: float = 0.0
    one_way: Mapping[tuple[str, str], float] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        checks.unit_interval(self.loss, "loss")
        checks.unit_interval(self.repeat, "repeat")
        for share in self.one_way.values():
            checks.unit_interval(share, "one_way")
        if np.shape(self.delay) != (2,):
            raise TypeError(f"delay must be (shortest, longest) in seconds, not {self.delay!r}")
        low, high = self.delay
        if not 0 <= low <= high < float("inf"):
            raise ValueError(f"delay must be (shortest, longest) in seconds, not {self.delay}")

    def apart(self, one: str, other: str, now: float) -> bool:
        """Whether a partition lies between two agents."""
        return any(
            cut.start <= now < cut.end and (one in cut.members) != (other in cut.members)
            for cut in self.partitions
        )


class MemoryNetwork:
    """Carries messages between the agents of one process.

    Args:
        links: what becomes of messages; may be replaced at any time.
        seed: of what is lost, late and repeated.
    """

    def __init__(self, links: Links | None = None, seed: int = 0) -> None:
        if links is not None and not isinstance(links, Links):
            raise TypeError(f"links must be fb.live.Links(loss=..., ...), not {links!r}")
        self.links = links or Links()
        self.messages: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.under_way = 0
        self._chance = random.Random(seed)
        self._receivers: dict[str, tuple[Receive, asyncio.AbstractEventLoop]] = {}

    def transport(self, name: str) -> MemoryTransport:
        """The access of one agent."""
        return MemoryTransport(self, name)

    def carry(self, sender: str, to: str, message: bytes) -> None:
        """Send, with the luck of the links."""
        links, chance = self.links, self._chance
        self.messages[sender, to] += 1
        self.bytes[sender, to] += len(message)
        copies = 2 if links.repeat and chance.random() < links.repeat else 1
        for _ in range(copies):
            if chance.random() < links.one_way.get((sender, to), links.loss):
                continue
            self.under_way += 1
            late = chance.uniform(*links.delay)
            here = asyncio.get_running_loop()
            _, there = self._receivers.get(to, (None, here))
            if there is here:
                here.call_later(late, self._deliver, sender, to, message)
            else:  # agents in threads of their own
                there.call_soon_threadsafe(
                    there.call_later, late, self._deliver, sender, to, message
                )

    def _deliver(self, sender: str, to: str, message: bytes) -> None:
        self.under_way -= 1
        now = asyncio.get_running_loop().time()
        if to in self._receivers and not self.links.apart(sender, to, now):
            self._receivers[to][0](sender, message)


class MemoryTransport:
    """One agent's access to a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self.name = name
        self._network = network

    async def start(self, receive: Receive) -> None:
        """Hand over what arrives from now on."""
        self._network._receivers[self.name] = (receive, asyncio.get_running_loop())

    def send(self, to: str, message: bytes) -> None:
        """Send and forget."""
        self._network.carry(self.name, to, message)

    async def stop(self) -> None:
        """Hand over nothing more."""
        self._network._receivers.pop(self.name, None)


class MemoryStore:
    """A disk in memory: survives an agent that crashes, and knows what was written when.

    Args:
        chance: of the life, the seed and how long a write takes.
        delay: seconds that a write takes at most; a crash may come before or after it is done.
    """

    def __init__(self, chance: random.Random | None = None, delay: float = 0.0) -> None:
        self._chance = chance or random.Random(0)
        self._delay = delay
        self.identity: Identity | None = None
        self.life = self._chance.randbytes(4).hex()
        self.seed = self._chance.randbytes(32)
        self.state: StateRecord | None = None
        self.edges: dict[str, EdgeRecord] = {}
        self.tickets: dict[int, TicketRecord] = {}

    async def open(self, identity: Identity, seed: bytes | None = None) -> Saved:
        """What was written, or a beginning."""
        if self.identity not in (None, identity):
            raise ValueError(f"this store is of {self.identity}, not of {identity}")
        self.identity = identity
        self.seed = seed or self.seed
        tickets = sorted(self.tickets.values(), key=lambda ticket: ticket.round)
        return Saved(self.life, self.seed, self.state, dict(self.edges), tickets)

    async def write(self, changes: Changes) -> None:
        """Takes a while, during which a crash may come: before it is done, or after."""
        await self._wait()
        self.state = changes.state or self.state
        for neighbour, edge in changes.edges.items():
            if edge is None:
                self.edges.pop(neighbour, None)
            else:
                self.edges[neighbour] = edge
        self.tickets.update({ticket.round: ticket for ticket in changes.tickets})
        for number in changes.forgotten:
            self.tickets.pop(number, None)
        await self._wait()

    async def close(self) -> None:
        """Nothing to let go."""

    async def _wait(self) -> None:
        if self._delay:
            await asyncio.sleep(self._chance.random() * self._delay / 2)
