"""A federation changes, and its sites get the new file one after the other, in any order."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import Counter

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Agent, Federation
from fedbandits.live.rehearsal.memory import Links, MemoryNetwork, MemoryStore
from fedbandits.live.rehearsal.virtual_clock import run_virtual
from fedbandits.networks import Network, from_edges
from tests.salt import SALT

PERIOD = 1.0
ARMS = ("tea", "coffee", "cocoa")

Pair = frozenset[str]


def graph(links: set[Pair]) -> tuple[Network, list[str]]:
    members = sorted({name for link in links for name in link})
    edges = [tuple(sorted(members.index(name) for name in link)) for link in links]
    return from_edges(len(members), edges), members


def federation(links: set[Pair], limit: float = math.inf) -> Federation:
    network, members = graph(links)
    gossip = fb.gossip.clipped(fb.gossip.metropolis(network), limit)
    return Federation(ARMS, gossip, members, gossip_period=PERIOD)


def changed(links: set[Pair], chance: random.Random) -> set[Pair]:
    """One member out whom nobody needs to hear the others, one in, and a link more or less."""
    names = sorted({name for link in links for name in link})
    chance.shuffle(names)
    for gone in names:
        rest = {link for link in links if gone not in link}
        if connected(rest, len(names) - 1):
            names.remove(gone)
            links = rest
            break
    links = links | {frozenset(("joins", other)) for other in chance.sample(names, 2)}
    one = frozenset(chance.sample(names, 2))
    if connected(links ^ {one}, len(names) + 1):
        links = links ^ {one}
    return links


def connected(links: set[Pair], members: int) -> bool:
    if not links:
        return False
    network, names = graph(links)
    return len(names) == members and bool(network.connected)


def random_links(chance: random.Random) -> set[Pair]:
    names = [f"site{i}" for i in range(chance.randint(4, 6))]
    links = {frozenset((names[i], chance.choice(names[:i]))) for i in range(1, len(names))}
    for _ in range(chance.randint(1, 4)):
        links.add(frozenset(chance.sample(names, 2)))
    return links


class World:
    """Agents with files of their own, on disks that stay."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.mail = MemoryNetwork(seed=chance.getrandbits(32))
        self.stores: dict[str, MemoryStore] = {}
        self.agents: dict[str, Agent] = {}

    async def start(self, name: str, file: Federation) -> None:
        chance = random.Random(self.chance.getrandbits(32))
        store = self.stores.setdefault(name, MemoryStore(chance, delay=0.1))
        loop = asyncio.get_running_loop()
        agent = Agent(name, file, store, self.mail.transport(name), clock=loop.time, chance=chance)
        await agent.start()
        self.agents[name] = agent

    async def take(self, name: str, file: Federation) -> None:
        """One site gets a file: its agent starts with it, or ends if it is not in it."""
        agent = self.agents.pop(name, None)
        if agent is not None:
            if name not in file.members and self.chance.random() < 0.5:
                await agent.leave(patience=PERIOD)
            elif self.chance.random() < 0.5:
                await agent.stop()
            else:  # killed
                await self.mail.transport(name).stop()
                await agent.abort()
        if name in file.members:
            await self.start(name, file)

    async def play(self, rounds: int) -> None:
        for _ in range(rounds):
            agent = self.agents[self.chance.choice(sorted(self.agents))]
            await agent.observe(await agent.choose(), round(self.chance.random(), 3))
            await asyncio.sleep(self.chance.random() * PERIOD)

    def refusals(self) -> Counter[tuple[str, str]]:
        """How many messages of whom each has refused since its file is another."""
        found: Counter[tuple[str, str]] = Counter()
        for name, agent in self.agents.items():
            for other, each in agent.neighbours.items():
                # Messages overtake each other: some are stale.
                assert set(each.reasons) <= {"file", "ledger", "stale"}, each.last_refusal
                found[name, other] = each.reasons.get("file", 0)
        return found

    def disagreeing(self) -> set[Pair]:
        """Edges of both ends' files whose weights are different there."""
        return {
            frozenset((name, other))
            for name, agent in self.agents.items()
            for other, weight in agent.part.neighbours.items()
            if other in self.agents
            and self.agents[other].part.neighbours.get(name, weight) != weight
        }

    def check_rest(self, file: Federation) -> None:
        """Σz = ΣI over those who are there; all know their neighbours, and hear them."""
        assert set(self.agents) == set(file.members)
        ledgers = {name: agent._running().ledger for name, agent in self.agents.items()}
        put_in = sum(ledger.inputs["z"] for ledger in ledgers.values())
        z = sum(ledger.values["z"] for ledger in ledgers.values())
        np.testing.assert_allclose(z, put_in, rtol=1e-9, atol=1e-9)
        for name, agent in self.agents.items():
            assert agent.disagreement < 1e-9
            assert {k: v.weight for k, v in agent.neighbours.items()} == file.part(name).neighbours
            for each in agent.neighbours.values():
                assert each.silent_for is not None
                assert each.silent_for < 5 * PERIOD
                assert not each.left


async def site_by_site(seed: int) -> tuple[int, int]:
    chance = random.Random(seed)
    links = random_links(chance)
    limit = chance.choice((math.inf, 100.0))
    world = World(chance)
    old = federation(links, limit)
    new = federation(changed(links, chance), limit)
    for name in old.members:
        await world.start(name, old)
    await world.play(20)
    everyone = sorted({*old.members, *new.members})
    chance.shuffle(everyone)
    refused = apart = 0
    for name in everyone:
        world.mail.links = Links(loss=chance.choice((0.0, 0.3)), delay=(0.0, 0.4))
        await world.take(name, new)
        await world.play(chance.randint(0, 6))
        world.mail.links = Links()
        await asyncio.sleep(0.5 * PERIOD)  # nothing of before is under way any more
        before = world.refusals()
        await asyncio.sleep(3 * PERIOD)
        after = world.refusals()
        # Both ends of an edge that they disagree about count it, and nobody else.
        growing = {frozenset(pair) for pair in after if after[pair] > before[pair]}
        both = {pair for pair in after if after[pair] > before[pair]}
        assert growing == world.disagreeing()
        assert all((other, one) in both for one, other in both)
        refused, apart = refused + after.total(), apart + len(growing)
    await world.play(10)
    before = world.refusals()
    for _ in range(300):
        await asyncio.sleep(5 * PERIOD)
        if max(agent.disagreement for agent in world.agents.values()) < 1e-10:
            break
    world.check_rest(new)
    assert world.refusals() == before
    for agent in world.agents.values():
        await agent.stop()
    return refused, apart


@pytest.mark.parametrize("seed", range(40))
def test_files_come_site_by_site(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        refused, apart = run_virtual(site_by_site(seed + 1000 * SALT))
    # Said once by each end and time, however many messages there were.
    said = [each.message for each in caplog.records]
    assert all("has another file of the federation: weight" in each for each in said)
    assert bool(apart) <= bool(said)
    assert len(said) <= refused


def test_a_status_says_who_has_another_file() -> None:
    triangle = {frozenset(pair) for pair in (("a", "b"), ("b", "c"), ("a", "c"))}
    old = federation({frozenset(("a", "b")), frozenset(("b", "c"))})

    async def work() -> None:
        world = World(random.Random(0))
        for name in old.members:
            await world.start(name, old)
        await world.take("c", federation(triangle | {frozenset(("c", "d"))}))
        await asyncio.sleep(3 * PERIOD)
        status = world.agents["b"].status()
        assert (status.federation_version, status.gossip_period) == (1, PERIOD)
        c = status.neighbours["c"]
        assert c.refused == c.reasons["file"] > 0
        assert "c has another file of the federation: weight 0.25 there and 0.333333 here" in str(
            c.last_refusal
        )
        # The edge of those whose files say the same of it goes on.
        assert status.neighbours["a"].refused == 0
        for agent in world.agents.values():
            await agent.stop()

    run_virtual(work())
