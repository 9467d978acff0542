"""Random histories of federations under a virtual clock, and the invariants that they must keep.

A history is a function of its seed: the members, the faults of links, and dozens of events while
messages and writes are pending. Then all faults end. The federation must come to rest without any
loss and without counting anything twice.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.live import Agent, Federation, StoppedError
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.edge import EdgeState
from fedbandits.live.protocol.ledger import AgentLedger
from fedbandits.live.protocol.observations import ConflictingObservationError, ExpiredTicketError
from fedbandits.live.protocol.records import TicketRecord
from fedbandits.live.rehearsal.memory import Links, MemoryNetwork, MemoryStore, Partition
from fedbandits.live.rehearsal.virtual_clock import run_virtual
from fedbandits.networks import Network, from_edges

PERIOD = 1.0
ARMS = ("tea", "coffee", "cocoa")
SMALL = 1e-9
"""The relative rounding error of sums of dozens of numbers in float64."""


def play_history(
    seed: int, events: int = 40, algorithm: AnyAlgorithm | None = None
) -> dict[str, int]:
    """Play one history and return the number of each event; raise AssertionError if one fails."""
    history = History(random.Random(seed), algorithm)
    try:
        run_virtual(history.play(events))
    except Exception as error:
        error.add_note(f"in the history of seed {seed}, after: {', '.join(history.log[-12:])}")
        raise
    return {name: history.log.count(name) for name in set(history.log)}


def random_network(chance: random.Random) -> Network:
    """Return a tree of two to five agents with some additional edges."""
    agents = chance.randint(2, 5)
    edges = {(chance.randrange(v), v) for v in range(1, agents)}
    for _ in range(chance.randint(0, agents)):
        u, v = sorted(chance.sample(range(agents), 2))
        edges.add((u, v))
    return from_edges(agents, sorted(edges))


def without(network: Network, gone: int) -> Network:
    """Return the network without one agent; the others keep their order."""
    staying = [v for v in range(network.agents) if v != gone]
    edges = [edge for edge in network.edges.tolist() if gone not in edge]
    return from_edges(len(staying), [(staying.index(u), staying.index(v)) for u, v in edges])


class Life:
    """The acknowledged tickets and observations of an agent since its disk was new."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.tickets: list[str] = []
        self.observed: dict[str, float] = {}
        self.drawn: dict[str, tuple[int, Any, tuple[int, ...]]] = {}


class History:
    """One federation, its random events, and its invariants."""

    checked_every = 1
    """Number of events between two checks of everything."""

    rounding = SMALL
    """Largest error that rounding explains in I - Σ f."""

    agreement = SMALL
    """Largest difference between agents at rest, relative to their estimates."""

    def __init__(self, chance: random.Random, algorithm: AnyAlgorithm | None = None) -> None:
        self.chance = chance
        self.network = self.draw_network()
        self.log: list[str] = []
        self.options: dict[str, Any] = {"gossip_period": PERIOD}
        self.options["algorithm"] = fb.GossipUCB() if chance.random() < 0.15 else fb.FedExp3()
        if algorithm is not None:
            self.options["algorithm"] = algorithm
        self.limit = self.draw_limit()
        if chance.random() < 0.3:
            self.options["expire_after"] = chance.choice((3.0, 20.0))
            self.options["expired_loss"] = chance.choice((None, 0.5))
        self.federation = Federation(ARMS, self.weights(self.network), **self.options)
        self.everyone = tuple(self.federation.members)
        self.linked = {frozenset((u, v)) for u, v, _ in self.federation.edges()}
        self.mail = MemoryNetwork(seed=chance.getrandbits(32))
        self.clocks = dict.fromkeys(self.everyone, 1e9)
        self.lives = {name: self.new_life() for name in self.everyone}
        self.agents: dict[str, Agent] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def draw_network(self) -> Network:
        """Return the links."""
        return random_network(self.chance)

    def draw_limit(self) -> float:
        """Return the largest difference that counts in an exchange."""
        return self.chance.choice((10.0, 100.0)) if self.chance.random() < 0.25 else math.inf

    def weights(self, network: fb.Network) -> fb.Gossip:
        """Return the weights of a network, with the limit of this history."""
        return fb.gossip.clipped(fb.gossip.metropolis(network), self.limit)

    def new_life(self) -> Life:
        """Return an agent with a new disk."""
        delay = self.chance.choice((0.0, 0.2, 1.0)) * PERIOD
        return Life(MemoryStore(random.Random(self.chance.getrandbits(32)), delay))

    async def play(self, events: int) -> None:
        """Play the history until the federation rests."""
        for name in self.everyone:
            await self.start(name)
        self.change_links()
        happenings = self.happenings()
        for number in range(events):
            happening = self.chance.choice(happenings)
            self.log.append(happening.__name__)
            done = happening()
            if done is not None:
                await done
            await asyncio.sleep(self.chance.expovariate(1 / (0.4 * PERIOD)))
            if number % self.checked_every == 0:
                self.check_all()
        await self.come_to_rest()

    # Events

    def happenings(self) -> tuple[Callable[[], Coroutine[Any, Any, None] | None], ...]:
        """Return the events to choose from; an event that is listed twice is twice as likely."""
        return (
            *[self.choose] * 8,
            *[self.observe] * 8,
            self.observe_again,
            self.crash,
            self.crash,
            self.lose_disk,
            *[self.come_back] * 3,
            self.change_links,
            self.cut,
            self.jump_clock,
            self.leave,
            self.change_members,
        )

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task concurrently; a crash may end it."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)

    def choose(self) -> None:
        name, agent = self.someone()
        if agent is None:
            return
        life = self.lives[name]
        allowed = None
        if agent.part.algorithm.sleeps and self.chance.random() < 0.3:
            allowed = self.chance.sample(ARMS, self.chance.randint(1, 3))

        async def choose() -> None:
            ticket = await agent.choose(allowed)
            assert ticket.arm in (allowed or ARMS), f"{ticket.arm} was not allowed"
            life.tickets.append(ticket.id)

        self.run(choose())

    def observe(self) -> None:
        name, agent = self.someone()
        life = self.lives[name]
        waiting = [ticket for ticket in life.tickets if ticket not in life.observed]
        if agent is None or not waiting:
            return
        ticket = self.chance.choice(waiting)
        loss = self.draw_loss(ARMS[life.drawn[ticket][0]])

        async def observe() -> None:
            try:
                await agent.observe(ticket, loss)
            except ExpiredTicketError:
                return
            except ConflictingObservationError:
                return  # a concurrent observation was first, or was never acknowledged
            life.observed[ticket] = loss

        self.run(observe())

    def observe_again(self) -> None:
        name, agent = self.someone()
        life = self.lives[name]
        if agent is None or not life.observed:
            return
        ticket, loss = self.chance.choice(list(life.observed.items()))

        async def again() -> None:
            await agent.observe(ticket, loss)
            try:
                await agent.observe(ticket, 1 - loss if loss != 0.5 else 0.0)
            except ConflictingObservationError:
                return
            raise AssertionError("another loss for the same ticket was accepted")

        self.run(again())

    async def crash(self) -> None:
        name, agent = self.someone()
        if agent is not None:
            await self.end(name)

    async def lose_disk(self) -> None:
        name, agent = self.someone()
        if agent is not None:
            await self.end(name)
        self.lives[name] = self.new_life()

    async def come_back(self) -> None:
        away = [name for name in self.federation.members if name not in self.agents]
        if away:
            await self.start(self.chance.choice(away))

    async def leave(self) -> None:
        name, agent = self.someone()
        if agent is not None and self.chance.random() < 0.5:
            del self.agents[name]
            await agent.leave(patience=PERIOD)

    def change_links(self) -> None:
        chance = self.chance
        names = [name for edge in self.linked for name in edge]
        one_way = {}
        if chance.random() < 0.3:
            one_way = {(chance.choice(names), chance.choice(names)): 1.0}
        self.mail.links = Links(
            loss=chance.choice((0.0, 0.3, 0.7)),
            delay=(0.0, chance.choice((0.0, 0.3, 5.0)) * PERIOD),
            repeat=chance.choice((0.0, 0.1, 0.5)),
            one_way=one_way,
            partitions=self.mail.links.partitions,
        )

    def cut(self) -> None:
        now = asyncio.get_running_loop().time()
        side = self.chance.sample(self.everyone, self.chance.randint(1, len(self.everyone) - 1))
        cut = Partition(now, now + 10 * PERIOD * self.chance.random(), frozenset(side))
        self.mail.links = Links(
            self.mail.links.loss, self.mail.links.delay, self.mail.links.repeat, partitions=(cut,)
        )

    def jump_clock(self) -> None:
        self.clocks[self.chance.choice(self.everyone)] += self.chance.uniform(-3600, 3600)

    async def change_members(self) -> None:
        """Remove a member as an operator, or add all again."""
        if len(self.federation.members) < len(self.everyone):
            network, members = self.network, self.everyone
        else:
            gone = self.chance.randrange(len(self.everyone))
            network = without(self.network, gone)
            members = tuple(name for name in self.everyone if name != self.everyone[gone])
            if not network.connected:
                return
            await self.end(self.everyone[gone])
        self.federation = Federation(ARMS, self.weights(network), members, **self.options)
        for agent in self.agents.values():
            self.run(self.adopt_later(agent, self.chance.random() * 5 * PERIOD))

    async def adopt_later(self, agent: Agent, delay: float) -> None:
        """Give an agent the new file after a delay; neighbours with the old file reject it."""
        federation = self.federation
        await asyncio.sleep(delay)
        if agent.running and federation is self.federation:
            await agent.adopt(federation)

    # Helpers

    def draw_loss(self, arm: str) -> float:
        """Return the observed loss of an arm."""
        return round(self.chance.random(), 3)

    def someone(self) -> tuple[str, Agent | None]:
        """Return a random member, and its agent if it runs."""
        name = self.chance.choice(self.federation.members)
        return name, self.agents.get(name)

    async def start(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        agent = Agent(
            name,
            self.federation,
            self.lives[name].store,
            self.mail.transport(name),
            clock=lambda: self.clocks[name] + loop.time(),
            chance=random.Random(self.chance.getrandbits(32)),
        )
        await agent.start()
        self.agents[name] = agent
        book, life = agent._running().book, self.lives[name]
        keep = book.add

        def recorded(record: TicketRecord) -> None:
            life.drawn[record.id] = (record.arm, np.frombuffer(record.p), record.absent)
            keep(record)

        # Closed tickets lose their distribution, so record it here, also of unacknowledged ones.
        book.add = recorded  # type: ignore[method-assign]  # a spy

    async def end(self, name: str) -> None:
        agent = self.agents.pop(name, None)
        if agent is not None:
            await self.mail.transport(name).stop()
            await agent.abort()

    # Invariants

    def check_all(self) -> None:
        """Check the invariants that hold after every event."""
        for task in list(self.tasks):
            if task.done() and not task.cancelled() and (error := task.exception()):
                if not isinstance(error, StoppedError):  # by a crash, before it returned
                    raise error
                self.tasks.discard(task)
        for name, agent in self.agents.items():
            check_member(agent._running(), self.lives[name], self.rounding)
        for sender, to in self.mail.messages:
            assert frozenset((sender, to)) in self.linked, f"{sender} wrote to {to}"
        for name, ledger in self.ledgers().items():
            for neighbour, edge in ledger.edges.items():
                there = self.agents.get(neighbour)
                if edge.owner and there is not None and name in there._running().ledger.edges:
                    check_edge(edge, there._running().ledger.edges[name])

    async def come_to_rest(self) -> None:
        """End all faults, restart all agents, and check that they agree."""
        self.log.append("rest")
        self.mail.links = Links()
        for name in self.federation.members:
            if name not in self.agents:
                await self.start(name)
        for agent in self.agents.values():
            while not agent._running().gossips:  # in first rounds without gossip
                await agent.choose()
                for waiting in agent.tickets:
                    with suppress(ExpiredTicketError):
                        await agent.observe(waiting.id, 0.25)
        await asyncio.sleep(12 * PERIOD)
        self.check_all()
        gone = self.chance.choice(list(self.agents))
        if self.chance.random() < 0.3 and self.connected_without(gone):
            assert await self.agents.pop(gone).leave() == (), "a neighbour may not know who left"
        for _ in range(100):
            await asyncio.sleep(10 * PERIOD)
            if self.disagreement() < self.agreement / 10:
                break
        self.check_all()
        self.check_rest()

    def connected_without(self, gone: str) -> bool:
        """Return whether the others are still connected if one leaves."""
        staying = [name for name in self.federation.members if name != gone]
        edges = [
            (staying.index(u), staying.index(v))
            for u, v, _ in self.federation.edges()
            if gone not in (u, v)
        ]
        return bool(staying) and from_edges(len(staying), edges).connected

    def ledgers(self) -> dict[str, AgentLedger]:
        return {name: agent._running().ledger for name, agent in self.agents.items()}

    def disagreement(self) -> float:
        """Return the largest difference between two agents, relative to the largest value."""
        [leaf] = next(iter(self.ledgers().values())).inputs
        values = np.array([ledger.values[leaf] for ledger in self.ledgers().values()])
        return float(np.ptp(values, axis=0).max() / max(1.0, np.abs(values).max()))

    def check_rest(self) -> None:
        """Check the invariants of a federation at rest."""
        for agent in self.agents.values():
            for ticket in agent.tickets:
                late = self.federation.expire_after
                assert late is None or ticket.age < late + 2 * PERIOD, f"{ticket} is still open"
        assert self.disagreement() < self.agreement, f"still apart by {self.disagreement()}"
        ledgers = self.ledgers()
        for leaf in next(iter(ledgers.values())).inputs:
            put_in = sum(ledger.inputs[leaf] for ledger in ledgers.values())
            there = sum(ledger.values[leaf] for ledger in ledgers.values())
            assert isinstance(put_in, np.ndarray)
            scale = max(1.0, float(np.abs(put_in).max()))
            lost = np.abs(put_in - there).max()
            assert lost <= self.agreement * scale, "something was lost on the way"
        for name, ledger in ledgers.items():
            for leaf, value in ledger.maxima.items():
                assert all((value == other.maxima[leaf]).all() for other in ledgers.values()), (
                    "maxima differ"
                )
            for neighbour, edge in ledger.edges.items():
                if neighbour not in ledgers:  # it has left
                    assert not any(flow.any() for flow in edge.flow.values()), "was lost on the way"
                    continue
                other = ledgers[neighbour].edges[name]
                assert edge.incarnation == other.neighbour_incarnation, (
                    "the ends mean different ledgers"
                )
                for leaf, flow in edge.flow.items():
                    scale = max(1.0, float(np.abs(ledger.inputs[leaf]).max()))
                    gap = float(np.abs(flow + other.flow[leaf]).max())
                    assert gap <= self.agreement * scale, (
                        f"flows of {name} and {neighbour} differ by {gap}"
                    )


def check_edge(owner: EdgeState, other: EdgeState) -> None:
    """Check the two ends of an edge, if they have the same incarnations."""
    if (owner.incarnation, owner.neighbour_incarnation) != (
        other.neighbour_incarnation,
        other.incarnation,
    ):
        return
    ahead = owner.sequence - other.sequence
    assert ahead in (0, 1), f"the owner is {ahead} exchanges ahead: at most one is under way"
    if ahead == 0:
        for leaf, flow in owner.flow.items():
            assert (flow == -other.flow[leaf]).all(), "what flowed out did not flow in"


def check_member(member: AgentCore, life: Life, rounding: float = SMALL) -> None:
    """Check the invariants of one agent."""
    ledger = member.ledger
    for leaf, put_in in ledger.inputs.items():
        z = put_in - sum(edge.flow[leaf] for edge in ledger.edges.values())
        assert np.allclose(ledger.values[leaf], z, rtol=SMALL, atol=rounding), "z is not I - Σ f"
    closed = {r.id: r for r in member.book.closed.values() if r.feedback}
    for ticket, loss in life.observed.items():
        assert ticket in closed, f"an acknowledged observation of {ticket} is gone"
        assert np.frombuffer(closed[ticket].feedback)[0] == loss
    gone = set(life.tickets) - member.book.open.keys() - member.book.closed.keys()
    assert not gone, f"an acknowledged ticket is gone: {gone}"
    if isinstance(member.learner.algorithm, fb.GossipUCB):
        assert np.allclose(
            ledger.inputs["theta"], member.learner.state.mean, rtol=SMALL, atol=SMALL
        )
        return
    if (
        isinstance(member.learner.algorithm, fb.FedExp3)
        and member.learner.algorithm.memory is not None
    ):
        return  # its inputs subtract what it forgot of the flows
    counted = np.zeros(len(ARMS))
    for ticket, record in closed.items():
        arm, p, absent = life.drawn[ticket]
        loss = np.frombuffer(record.feedback)[0]
        counted[arm] += loss / p[arm]
        counted[list(absent)] += loss
    assert np.allclose(ledger.inputs["z"], counted, rtol=SMALL, atol=SMALL), (
        "the inputs are not the sum of the observations"
    )
