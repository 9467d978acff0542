"""Agents over real links: they agree, and recorded messages that are sent again do no harm."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Agent, Federation
from fedbandits.live.federation import keys
from fedbandits.live.operations.local_cluster import reserved_ports
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.transport.interface import Receive
from fedbandits.live.transport.tls_transport import TlsTransport

from .links import until


class Recording(TlsTransport):
    """A transport that keeps the messages it receives."""

    async def start(self, receive: Receive) -> None:
        self.recorded: list[tuple[str, bytes]] = []

        def keep(sender: str, message: bytes) -> None:
            self.recorded.append((sender, message))
            receive(sender, message)

        await super().start(keep)


class Three:
    """Agents a - b - c that gossip fifty times a second, and their transports."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        shops = Federation(
            ["tea", "coffee", "cocoa"], fb.networks.path(3), ["a", "b", "c"], gossip_period=0.02
        )
        keys.write_keys(shops, folder)
        address = {name: f"127.0.0.1:{port}" for name, port in zip("abc", ports, strict=True)}
        near = {name: shops.part(name).neighbours for name in "abc"}
        self.transports = {
            name: Recording(name, address[name], {v: address[v] for v in near[name]}, folder / name)
            for name in "abc"
        }
        self.agents = {
            name: Agent(name, shops, MemoryStore(random.Random(name)), self.transports[name])
            for name in "abc"
        }

    async def observe(self, rounds: int) -> None:
        """Let all choose and observe: cocoa has no loss, the others have."""
        for _ in range(rounds):
            for agent in self.agents.values():
                ticket = await agent.choose()
                await agent.observe(ticket.id, 0.0 if ticket.arm == "cocoa" else 1.0)

    def settled(self) -> bool:
        """Return whether all agree, and the sum of values is the sum of inputs."""
        ledgers = [agent._running().ledger for agent in self.agents.values()]
        values = np.array([ledger.values["z"] for ledger in ledgers])
        inputs = np.array([ledger.inputs["z"] for ledger in ledgers])
        apart = np.ptp(values, axis=0).max()
        return bool(apart < 1e-9 and np.abs(values.sum(axis=0) - inputs.sum(axis=0)).max() < 1e-9)


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[Three]:
    with reserved_ports(3) as ports:
        found = Three(folder, ports)
        try:
            for agent in found.agents.values():
                await agent.start()
            yield found
        finally:
            for agent in found.agents.values():
                await agent.stop()


@pytest.mark.slow
def test_recorded_messages_are_harmless_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with three(tmp_path) as found:
            agents = found.agents
            await found.observe(20)
            await until(found.settled)
            assert {agent.recommended for agent in agents.values()} == {"cocoa"}
            refused = [v.refused for each in agents.values() for v in each.neighbours.values()]
            assert refused == [0] * 4
            recorded = {name: list(each.recorded) for name, each in found.transports.items()}
            assert min(map(len, recorded.values())) > 10
            await agents["b"].stop()
            await agents["b"].start()
            await found.observe(10)
            # Every message once more, out of order.
            chance = random.Random(0)
            for receiver, messages in recorded.items():
                for sender, message in chance.sample(messages, len(messages)):
                    found.transports[sender].send(receiver, message)
                    await asyncio.sleep(0.001)
            await found.observe(10)
            await until(found.settled)
            assert sum(agent.rounds for agent in agents.values()) == 120

    asyncio.run(work())


def test_a_neighbour_that_the_transport_does_not_know_is_rejected(tmp_path: Path) -> None:
    """Nothing would ever be sent to it, and every attempt would fill the log."""
    two = Federation(["tea", "coffee"], fb.networks.path(2), members=["a", "b"])
    ring = Federation(["tea", "coffee"], fb.networks.ring(3), members=["a", "b", "c"])
    keys.write_keys(ring, tmp_path)

    async def work() -> None:
        transport = TlsTransport("a", "127.0.0.1:0", {"b": None}, tmp_path / "a")
        with pytest.raises(ValueError, match="'a' does not know where c can be reached"):
            Agent("a", ring, MemoryStore(), transport)
        async with Agent("a", two, MemoryStore(), transport) as agent:
            with pytest.raises(ValueError, match="'a' does not know where c can be reached"):
                await agent.adopt(ring)
            assert set(agent.neighbours) == {"b"}

    asyncio.run(work())
