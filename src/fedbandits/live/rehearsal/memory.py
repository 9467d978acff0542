"""A network and disks in memory with chosen faults, for tests and rehearsals.

Whole federations run in one process under a virtual clock (`virtual_clock.run_virtual`). Messages
are lost, late, repeated or out of order; networks split; agents crash with or without their disk.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedbandits.common import checks
from fedbandits.live.protocol.records import (
    Changes,
    EdgeRecord,
    Identity,
    SavedAgent,
    StateRecord,
    TicketRecord,
)
from fedbandits.live.transport.interface import Receive


class Partition(NamedTuple):
    """A split of the network for some time.

    Attributes:
        start: The beginning in seconds.
        end: The end in seconds.
        members: The agents of one side.
    """

    start: float
    end: float
    members: frozenset[str]


@dataclass(frozen=True)
class Links:
    """The faults of links.

    Args:
        loss: the share of lost messages.
        delay: the range of delays in seconds. Each message has a random one, so that some overtake
            others.
        repeat: the share of messages that arrive twice.
        one_way: the share of lost messages from a sender to a receiver, if different from `loss`.
        partitions: splits of the network.
    """

    loss: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)
    repeat: float = 0.0
    one_way: Mapping[tuple[str, str], float] = field(default_factory=dict)
    partitions: Sequence[Partition] = ()

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
        """Return whether a partition is between two agents."""
        return any(
            cut.start <= now < cut.end and (one in cut.members) != (other in cut.members)
            for cut in self.partitions
        )


class MemoryNetwork:
    """A network between the agents of one process.

    Args:
        links: the faults of links; may be replaced at any time.
        seed: the seed of losses, delays and repetitions.
    """

    def __init__(self, links: Links | None = None, seed: int = 0) -> None:
        if links is not None and not isinstance(links, Links):
            raise TypeError(f"links must be fb.live.Links(loss=..., ...), not {links!r}")
        self.links = links or Links()
        self.messages: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.pending_messages = 0
        self._chance = random.Random(seed)
        self._receivers: dict[str, tuple[Receive, asyncio.AbstractEventLoop]] = {}

    def transport(self, name: str) -> MemoryTransport:
        """Return the transport of one agent."""
        return MemoryTransport(self, name)

    def carry(self, sender: str, to: str, message: bytes) -> None:
        """Send a message, subject to the faults of the links."""
        links, chance = self.links, self._chance
        self.messages[sender, to] += 1
        self.bytes[sender, to] += len(message)
        for _ in range(2 if links.repeat and chance.random() < links.repeat else 1):
            if chance.random() < links.one_way.get((sender, to), links.loss):
                continue
            self.pending_messages += 1
            delay = chance.uniform(*links.delay)
            here = asyncio.get_running_loop()
            _, there = self._receivers.get(to, (None, here))
            if there is here:
                here.call_later(delay, self._deliver, sender, to, message)
            else:  # the receiver is in another thread
                there.call_soon_threadsafe(
                    there.call_later, delay, self._deliver, sender, to, message
                )

    def _deliver(self, sender: str, to: str, message: bytes) -> None:
        self.pending_messages -= 1
        now = asyncio.get_running_loop().time()
        if to in self._receivers and not self.links.apart(sender, to, now):
            self._receivers[to][0](sender, message)


class MemoryTransport:
    """The transport of one agent in a `MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self.name = name
        self._network = network

    async def start(self, receive: Receive) -> None:
        """Begin to deliver messages."""
        self._network._receivers[self.name] = (receive, asyncio.get_running_loop())

    def send(self, to: str, message: bytes) -> None:
        """Send without confirmation."""
        self._network.carry(self.name, to, message)

    async def stop(self) -> None:
        """Deliver nothing more."""
        self._network._receivers.pop(self.name, None)


class MemoryStore:
    """A disk in memory, which survives the crash of an agent.

    Args:
        chance: draws the life, the seed and the time of each write.
        delay: the longest write in seconds; a crash may happen before or after its effect.
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

    async def open(self, identity: Identity, seed: bytes | None = None) -> SavedAgent:
        """Return the saved agent, or a new one."""
        if self.identity not in (None, identity):
            raise ValueError(f"this store is of {self.identity}, not of {identity}")
        self.identity = identity
        self.seed = seed or self.seed
        tickets = sorted(self.tickets.values(), key=lambda ticket: ticket.round)
        return SavedAgent(self.life, self.seed, self.state, dict(self.edges), tickets)

    async def write(self, changes: Changes) -> None:
        """Write all changes in one moment, with a random pause before and after it."""
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
        """Do nothing: memory needs no closing."""

    async def _wait(self) -> None:
        if self._delay:
            await asyncio.sleep(self._chance.random() * self._delay / 2)
