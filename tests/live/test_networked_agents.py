"""Agents over real links: they agree, and what was recorded and sent again does no harm."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Agent, Federation
from fedbandits.live.federation import keys
from fedbandits.live.operations.local_cluster import reserved_ports
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.transport.interface import Receive, Transport
from fedbandits.live.transport.tls_transport import TlsTransport

from .links import until


class Recording:
    """Keeps what arrives."""

    def __init__(self, transport: Transport) -> None:
        self.recorded: list[tuple[str, bytes]] = []
        self.transport = transport
        self.send = transport.send
        self.stop = transport.stop

    async def start(self, receive: Receive) -> None:
        """Start, and listen in."""

        def keep(sender: str, message: bytes) -> None:
            self.recorded.append((sender, message))
            receive(sender, message)

        await self.transport.start(keep)


@pytest.fixture
def ports() -> Iterator[list[int]]:
    with reserved_ports(3) as found:
        yield found


def federation_of_three(
    folder: Path, ports: list[int]
) -> tuple[dict[str, Agent], dict[str, Recording]]:
    """Agents that gossip fifty times a second."""
    shops = Federation(
        ["tea", "coffee", "cocoa"],
        fb.networks.path(3),
        members=["a", "b", "c"],
        gossip_period=0.02,
    )
    keys.write_keys(shops, folder)
    address = {name: f"127.0.0.1:{port}" for name, port in zip("abc", ports, strict=True)}
    transports = {
        name: Recording(
            TlsTransport(
                name,
                address[name],
                {other: address[other] for other in shops.part(name).neighbours},
                folder / name,
            )
        )
        for name in shops.members
    }
    agents = {
        name: Agent(name, shops, MemoryStore(random.Random(name)), transports[name])
        for name in shops.members
    }
    return agents, transports


async def observe(agents: dict[str, Agent], rounds: int) -> None:
    """Cocoa is good, the others are not."""
    for _ in range(rounds):
        for agent in agents.values():
            ticket = await agent.choose()
            await agent.observe(ticket.id, 0.0 if ticket.arm == "cocoa" else 1.0)


def mass_error(agents: dict[str, Agent]) -> float:
    """How far the sum of values is from the sum of inputs."""
    ledgers = [agent._running().ledger for agent in agents.values()]
    values = sum(ledger.values["z"] for ledger in ledgers)
    inputs = sum(ledger.inputs["z"] for ledger in ledgers)
    return float(np.abs(values - inputs).max())


def spread(agents: dict[str, Agent]) -> float:
    """How far apart the values of agents are."""
    values = [agent._running().ledger.values["z"] for agent in agents.values()]
    return float(np.ptp(values, axis=0).max())


async def settled(agents: dict[str, Agent]) -> None:
    """Wait until all agree, and nothing is missing or counted twice."""
    await until(lambda: spread(agents) < 1e-9 and mass_error(agents) < 1e-9)


@pytest.mark.slow
class TestAgents:
    """The agents themselves, over real links."""

    def test_agree(self, tmp_path: Path, ports: list[int]) -> None:
        async def work() -> None:
            agents, _ = federation_of_three(tmp_path, ports)
            try:
                for agent in agents.values():
                    await agent.start()
                await observe(agents, 20)
                await settled(agents)
                assert {agent.recommended for agent in agents.values()} == {"cocoa"}
                assert all(
                    each.refused == 0
                    for agent in agents.values()
                    for each in agent.neighbours.values()
                )
            finally:
                for agent in agents.values():
                    await agent.stop()

        asyncio.run(work())

    def test_what_was_recorded_before_a_restart_is_harmless(
        self, tmp_path: Path, ports: list[int]
    ) -> None:
        async def work() -> None:
            agents, transports = federation_of_three(tmp_path, ports)
            try:
                for agent in agents.values():
                    await agent.start()
                await observe(agents, 10)
                await settled(agents)
                heard = [list(transports[name].recorded) for name in ("a", "b", "c")]
                assert min(map(len, heard)) > 10
                await agents["b"].stop()
                await agents["b"].start()
                await observe(agents, 10)
                # All that a and c heard from b, and b from them, once more and out of order.
                chance = random.Random(0)
                for receiver, recorded in zip("abc", heard, strict=True):
                    for sender, message in chance.sample(recorded, len(recorded)):
                        transports[sender].send(receiver, message)
                        await asyncio.sleep(0.001)
                await observe(agents, 10)
                await settled(agents)
                assert sum(agent.rounds for agent in agents.values()) == 90
            finally:
                for agent in agents.values():
                    await agent.stop()

        asyncio.run(work())


def test_a_neighbour_that_the_transport_does_not_know_is_refused(tmp_path: Path) -> None:
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
