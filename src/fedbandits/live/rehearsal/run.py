"""One run of a rehearsal: real agents on a network and disks in memory, under a virtual clock."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbandits.arrays import sample
from fedbandits.attacks import Attack, lie_about
from fedbandits.live.agent.agent import Agent
from fedbandits.live.agent.rate_limit import EXCHANGES
from fedbandits.live.agent.responses import Rehearsed
from fedbandits.live.federation.federation import Federation
from fedbandits.live.protocol.messages import Values, Vector
from fedbandits.live.protocol.tickets import Ticket
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem, check_losses

from .faults import Away, Faults
from .memory import MemoryNetwork, MemoryStore
from .virtual_clock import run_virtual

AWAY = -1
"""The arm of an agent that is away."""

EPOCH = 1e9
"""What wall clocks show when a rehearsal begins, in seconds since 1970."""

BLOCK = 2**26
"""Bytes of losses that are held at a time, about."""

LIKELIEST = 1e-6
"""Arms whose probabilities are this close to the largest are equals, as for the engine."""


class Run(NamedTuple):
    """What one run is played from.

    Attributes:
        problem: the losses.
        federation: who plays.
        faults: what goes wrong.
        lockstep: whether every edge makes one exchange a round, of the values at its start.
        seed: of the rehearsal.
        number: of the run, from 0.
        uniforms: from which arms are drawn, and in the end recommended: `[T + 1, N]`.
        privacy: what is told instead of losses; None where losses are told.
        responses: the numbers by which that is drawn, `[T + 1, N]`.
        liars: the attacks of agents that lie, by number.
    """

    problem: Problem
    federation: Federation
    faults: Faults
    lockstep: bool
    seed: int
    number: int
    uniforms: NDArray[np.float64]
    privacy: RandomisedResponse | None = None
    responses: NDArray[np.float64] | None = None
    liars: Mapping[int, Attack] = MappingProxyType({})

    @property
    def honest(self) -> list[int]:
        """The numbers of the agents that do not lie."""
        return [v for v in range(self.problem.agents) if v not in self.liars]

    def chance(self, *what: object) -> random.Random:
        """Chance of its own for everything that has a name."""
        return random.Random(repr((self.seed, self.number, *what)))


class Played(NamedTuple):
    """What came of a run.

    Attributes:
        action: the arms played, `[T, N]`; AWAY where nothing was.
        expected: ⟨p_t, ℓ̄_t⟩, `[T, N]`; NaN where nothing was played.
        arm_loss: ℓ̄_t(i), `[T, K]`.
        recommended: `[N]`.
        messages: how many were sent.
        bytes: how many they had.
    """

    action: NDArray[np.int32]
    expected: NDArray[np.float64]
    arm_loss: NDArray[np.float64]
    recommended: NDArray[np.int64]
    messages: int
    bytes: int


def play_run(run: Run) -> Played:
    """Play it to its end; a function of `run` alone."""
    return run_virtual(_Stage(run).play())


class _Losses:
    """The losses, a block of rounds at a time: nobody asks for a round that all have passed."""

    def __init__(self, problem: Problem, honest: list[int]) -> None:
        self._problem = problem
        self._honest = honest
        self._rounds = max(1, BLOCK // (8 * problem.agents * problem.arms))
        self._first = 1
        self._block: NDArray[np.float64] = np.empty((0, problem.agents, problem.arms))
        self.means = np.empty((problem.horizon, problem.arms))

    def of(self, t: int) -> NDArray[np.float64]:
        """Round t, `[N, K]`."""
        if not self._first <= t < self._first + len(self._block):
            last = min(t + self._rounds - 1, self._problem.horizon)
            block = self._problem.block(t, last)
            if self._problem.check != "never":
                check_losses(block, t, self._problem)
            self._first, self._block = t, block.astype(np.float64)
            self.means[t - 1 : last] = self._block[:, self._honest].mean(axis=1)
        found: NDArray[np.float64] = self._block[t - self._first]
        return found


class _Stage:
    """The agents of a run, and what they have played so far."""

    def __init__(self, run: Run) -> None:
        self.run = run
        problem, members = run.problem, run.federation.members
        self.losses = _Losses(problem, run.honest)
        self.network = MemoryNetwork(run.faults.links, run.chance("network").getrandbits(64))
        self.stores = [MemoryStore(run.chance(name, "disk")) for name in members]
        self.agents: list[Agent | None] = [None] * len(members)
        self.arms = {arm: i for i, arm in enumerate(run.federation.arms)}
        self.action = np.full((problem.horizon, problem.agents), AWAY, np.int32)
        self.expected = np.full((problem.horizon, problem.agents), np.nan)
        self.now = [0] * len(members)
        """The round that each agent plays."""
        self.reporting: list[asyncio.Task[None]] = []
        """Tasks of the agents that lie."""

    async def play(self) -> Played:
        """From the first round, which is at second 1, to the last."""
        await _until(1)
        for v in range(len(self.agents)):
            await self.start(v)
        if self.run.lockstep:
            await self.play_in_step()
        else:
            await asyncio.gather(*(self.play_alone(v) for v in range(len(self.agents))))
            await _until(self.run.problem.horizon + 1)
        sent = sum(self.network.messages.values()), sum(self.network.bytes.values())
        recommended = [await self.recommended(v) for v in range(len(self.agents))]
        for task in self.reporting:
            task.cancel()
        for agent in self.agents:
            assert agent is not None  # who was away is back
            await agent.stop()
        return Played(self.action, self.expected, self.losses.means, np.array(recommended), *sent)

    async def start(self, v: int) -> Agent:
        """Agent v begins, or goes on from its disk."""
        name = str(self.run.federation.members[v])
        part = self.run.federation.part(name)
        if self.run.lockstep:
            part = part._replace(gossip_period=math.inf)
        agent = self.agents[v] = Agent(
            name,
            part,
            self.stores[v],
            self.network.transport(name),
            clock=self.clock(name),
            # By the round of the problem, not the agent's own count: who was away, or has
            # forgotten, draws from the numbers of those who were not.
            uniforms=lambda _: float(self.run.uniforms[self.now[v] - 1, v]),
            chance=self.run.chance(name, "agent", self.now[v]),
            epsilon=self.responses(v),
        )
        await agent.start()
        if v in self.run.liars:
            self.lie(v, agent)
        return agent

    def lie(self, v: int, agent: Agent) -> None:
        """Make agent v lie in every message, and report as often as its neighbours allow."""
        ledger, truth = agent._running().ledger, agent._running().ledger.shown
        leaves, attack = agent.part.algorithm.leaves, self.run.liars[v]

        def shown() -> Values:
            t = np.int64(max(self.now[v], 1))
            return {
                name: lie_about(attack, leaves[name].attracts, value[:, None], t)[:, 0]
                for name, value in truth().items()
            }

        ledger.shown = shown  # type: ignore[method-assign]  # of this agent alone

        async def report() -> None:
            while agent.running:
                await asyncio.sleep(agent.part.gossip_period / EXCHANGES)
                if agent.running:
                    agent.report()

        if agent.part.gossip_period < math.inf:
            self.reporting.append(asyncio.get_running_loop().create_task(report()))

    def responses(self, v: int) -> Rehearsed | None:
        """What agent v is told instead of its losses."""
        privacy, drawn = self.run.privacy, self.run.responses
        if privacy is None or drawn is None:
            return None
        return Rehearsed(privacy, lambda: float(drawn[self.now[v] - 1, v]))

    def clock(self, name: str) -> Callable[[], float]:
        """The wall clock of an agent."""
        loop = asyncio.get_running_loop()
        jumps = [jump for jump in self.run.faults.clock_jumps if jump.member == name]
        return lambda: (
            EPOCH + loop.time() + sum(jump.by for jump in jumps if jump.at <= loop.time())
        )

    async def play_alone(self, v: int) -> None:
        """Round t at second t and a phase of its own, except when away."""
        name = self.run.federation.members[v]
        phase = self.run.chance(name, "phase").random()
        leaves = {away.start: away for away in self.run.faults.away if away.member == name}
        back = 0
        for t in range(1, self.run.problem.horizon + 1):
            await _until(t + phase)
            self.now[v] = t
            agent = self.agents[v]
            if t in leaves:
                assert agent is not None
                await self.crash(v, agent, leaves[t])
                agent, back = None, leaves[t].end
            if agent is None and t >= back:
                agent = await self.start(v)
            if agent is not None:
                await self.observe(v, t, agent, await self.choose(v, t, agent))

    async def crash(self, v: int, agent: Agent, away: Away) -> None:
        """Agent v is gone, and perhaps its disk."""
        await agent.abort()
        self.agents[v] = None
        if away.disk_lost:
            self.stores[v] = MemoryStore(self.run.chance(away.member, "disk", away.start))

    async def play_in_step(self) -> None:
        """Everyone plays, sends what it knew at the round's start, and learns."""
        agents = [agent for agent in self.agents if agent is not None]
        for t in range(1, self.run.problem.horizon + 1):
            await _until(t)
            self.now = [t] * len(agents)
            tickets = [await self.choose(v, t, agent) for v, agent in enumerate(agents)]
            for agent in agents:
                agent.hold()
            for agent in agents:
                agent.report()
            # Nothing takes time without faults: all has arrived, and is answered, when some passes.
            await _until(t + 0.5)
            assert self.network.under_way == 0
            for v, agent in enumerate(agents):
                await self.observe(v, t, agent, tickets[v])
                agent.release()

    async def choose(self, v: int, t: int, agent: Agent) -> Ticket:
        """Agent v plays in round t."""
        ticket = await agent.choose()
        self.losses.of(t)
        p = agent._running().drawn_from(ticket.id)
        self.action[t - 1, v] = self.arms[ticket.arm]
        self.expected[t - 1, v] = p @ self.losses.means[t - 1]
        return ticket

    async def observe(self, v: int, t: int, agent: Agent, ticket: Ticket) -> None:
        """Agent v learns what it cost."""
        losses = self.losses.of(t)[v]
        full = agent.part.algorithm.feedback == "full"
        seen: Any = losses.tolist() if full else float(losses[self.arms[ticket.arm]])
        await agent.observe(ticket.id, seen)

    async def recommended(self, v: int) -> int:
        """The likeliest arm of agent v's next round; a random one of equals."""
        agent = self.agents[v] or await self.start(v)
        p: Vector = agent._running().distribution()
        likeliest = (p >= p.max() * (1 - LIKELIEST)).astype(np.float64)
        return int(sample(likeliest, self.run.uniforms[-1, v]))


async def _until(second: float) -> None:
    await asyncio.sleep(second - asyncio.get_running_loop().time())
