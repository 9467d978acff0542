"""One run of a rehearsal: live agents on a network and disks in memory, under a virtual clock."""

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
from fedbandits.live.federation.federation import Federation
from fedbandits.live.protocol.messages import Values, Vector
from fedbandits.live.protocol.noisy_bits import RehearsedBits
from fedbandits.live.protocol.tickets import Ticket
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem, check_losses

from .faults import Away, Faults
from .memory import MemoryNetwork, MemoryStore
from .virtual_clock import run_virtual

AWAY = -1
"""The arm of an agent that is away."""

EPOCH = 1e9
"""The time of wall clocks at the beginning of a rehearsal, in seconds since 1970."""

BLOCK_BYTES = 2**26
"""The approximate size of a block of losses in memory."""

TIE_TOLERANCE = 1e-6
"""The relative difference up to which arms tie for the largest probability, as in the engine."""


class RehearsalRun(NamedTuple):
    """The settings of one run.

    Attributes:
        problem: The losses.
        federation: The agents.
        faults: The faults.
        lockstep: Whether every edge makes one exchange a round, of the values at its start.
        seed: The seed of the rehearsal.
        number: The number of the run, from 0.
        uniforms: The random numbers that draw the arms and break ties in the recommendation:
            `[T + 1, N]`.
        privacy: The randomised response; None if agents learn from losses.
        bit_uniforms: The random numbers that draw its bits, `[T + 1, N]`.
        liars: The attacks of lying agents, by number.
    """

    problem: Problem
    federation: Federation
    faults: Faults
    lockstep: bool
    seed: int
    number: int
    uniforms: NDArray[np.float64]
    privacy: RandomisedResponse | None = None
    bit_uniforms: NDArray[np.float64] | None = None
    liars: Mapping[int, Attack] = MappingProxyType({})

    @property
    def honest(self) -> list[int]:
        """The numbers of the agents that do not lie."""
        return [v for v in range(self.problem.agents) if v not in self.liars]

    def chance(self, *name: object) -> random.Random:
        """Return a separate random generator for each name."""
        return random.Random(repr((self.seed, self.number, *name)))

    def play(self) -> RunOutcome:
        """Play the run; the outcome is a function of its settings alone."""
        return run_virtual(_RunningFederation(self).play())


class RunOutcome(NamedTuple):
    """The outcome of a run.

    Attributes:
        action: The arms played, `[T, N]`; AWAY for agents that were away.
        expected: ⟨p_t, ℓ̄_t⟩, `[T, N]`; NaN for agents that were away.
        arm_loss: ℓ̄_t(i), `[T, K]`.
        recommended: The recommended arms, `[N]`.
        messages: Number of messages sent.
        bytes: Their total size.
    """

    action: NDArray[np.int32]
    expected: NDArray[np.float64]
    arm_loss: NDArray[np.float64]
    recommended: NDArray[np.int64]
    messages: int
    bytes: int


class _LossBlocks:
    """The losses, in blocks of rounds. Rounds before the current block are not requested again."""

    def __init__(self, problem: Problem, honest: list[int]) -> None:
        self._problem = problem
        self._honest = honest
        self._rounds = max(1, BLOCK_BYTES // (8 * problem.agents * problem.arms))
        self._first = 1
        self._block: NDArray[np.float64] = np.empty((0, problem.agents, problem.arms))
        self.means = np.empty((problem.horizon, problem.arms))

    def of(self, t: int) -> NDArray[np.float64]:
        """Return the losses of round t, `[N, K]`."""
        if not self._first <= t < self._first + len(self._block):
            last = min(t + self._rounds - 1, self._problem.horizon)
            block = self._problem.block(t, last)
            if self._problem.check != "never":
                check_losses(block, t, self._problem)
            self._first, self._block = t, block.astype(np.float64)
            self.means[t - 1 : last] = self._block[:, self._honest].mean(axis=1)
        losses: NDArray[np.float64] = self._block[t - self._first]
        return losses


class _RunningFederation:
    """The agents of a run, and their actions so far."""

    def __init__(self, run: RehearsalRun) -> None:
        self.run = run
        problem, members = run.problem, run.federation.members
        self.losses = _LossBlocks(problem, run.honest)
        self.network = MemoryNetwork(run.faults, run.chance("network").getrandbits(64))
        self.stores = [MemoryStore(run.chance(name, "disk")) for name in members]
        self.agents: list[Agent | None] = [None] * len(members)
        self.arms = {arm: i for i, arm in enumerate(run.federation.arms)}
        self.action = np.full((problem.horizon, problem.agents), AWAY, np.int32)
        self.expected = np.full((problem.horizon, problem.agents), np.nan)
        self.rounds = [0] * len(members)
        """The current round of each agent."""
        self.liar_tasks: list[asyncio.Task[None]] = []

    async def play(self) -> RunOutcome:
        """Play all rounds; the first begins at second 1."""
        await _until(1)
        for v in range(len(self.agents)):
            await self.start(v)
        if self.run.lockstep:
            await self.play_in_lockstep()
        else:
            await asyncio.gather(*(self.play_agent(v) for v in range(len(self.agents))))
            await _until(self.run.problem.horizon + 1)
        sent = sum(self.network.messages.values()), sum(self.network.bytes.values())
        recommended = [await self.recommended(v) for v in range(len(self.agents))]
        for task in self.liar_tasks:
            task.cancel()
        for agent in self.agents:
            assert agent is not None  # `recommended` started the ones that were away
            await agent.stop()
        recommended_arms = np.array(recommended)
        return RunOutcome(self.action, self.expected, self.losses.means, recommended_arms, *sent)

    async def start(self, v: int) -> Agent:
        """Start agent v, from its disk if it has played before."""
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
            # Indexed by the problem's round instead of the agent's own count, so that agents that
            # were away draw from the same numbers as the others.
            uniforms=lambda _: float(self.run.uniforms[self.rounds[v] - 1, v]),
            chance=self.run.chance(name, "agent", self.rounds[v]),
            epsilon=self.noisy_bits(v),
        )
        await agent.start()
        if v in self.run.liars:
            self.make_liar(v, agent)
        return agent

    def make_liar(self, v: int, agent: Agent) -> None:
        """Make agent v lie in every message, and report as often as its neighbours allow."""
        ledger = agent._running().ledger
        truth = ledger.outgoing_values
        leaves, attack = agent.part.algorithm.leaves, self.run.liars[v]

        def lies() -> Values:
            t = np.int64(max(self.rounds[v], 1))
            return {
                name: lie_about(attack, leaves[name].attracts, value[:, None], t)[:, 0]
                for name, value in truth().items()
            }

        ledger.outgoing_values = lies  # type: ignore[method-assign]  # of this agent alone

        async def report() -> None:
            while agent.running:
                await asyncio.sleep(agent.part.gossip_period / EXCHANGES)
                if agent.running:
                    agent.report()

        if agent.part.gossip_period < math.inf:
            self.liar_tasks.append(asyncio.get_running_loop().create_task(report()))

    def noisy_bits(self, v: int) -> RehearsedBits | None:
        """Return the noisy bits of agent v; None if it learns from losses."""
        privacy, drawn = self.run.privacy, self.run.bit_uniforms
        if privacy is None or drawn is None:
            return None
        return RehearsedBits(privacy, lambda: float(drawn[self.rounds[v] - 1, v]))

    def clock(self, name: str) -> Callable[[], float]:
        """Return the wall clock of an agent."""
        loop = asyncio.get_running_loop()
        jumps = [jump for jump in self.run.faults.clock_jumps if jump.member == name]
        return lambda: (
            EPOCH + loop.time() + sum(jump.by for jump in jumps if jump.at <= loop.time())
        )

    async def play_agent(self, v: int) -> None:
        """Play round t of agent v at second t plus a constant phase, except when it is away."""
        name = self.run.federation.members[v]
        phase = self.run.chance(name, "phase").random()
        crashes = {away.start: away for away in self.run.faults.away if away.member == name}
        back = 0
        for t in range(1, self.run.problem.horizon + 1):
            await _until(t + phase)
            self.rounds[v] = t
            agent = self.agents[v]
            if t in crashes:
                assert agent is not None
                await self.crash(v, agent, crashes[t])
                agent, back = None, crashes[t].end
            if agent is None and t >= back:
                agent = await self.start(v)
            if agent is not None:
                await self.observe(v, t, agent, await self.choose(v, t, agent))

    async def crash(self, v: int, agent: Agent, away: Away) -> None:
        """Stop agent v without saving, and replace its disk if that is lost."""
        await agent.abort()
        self.agents[v] = None
        if away.disk_lost:
            self.stores[v] = MemoryStore(self.run.chance(away.member, "disk", away.start))

    async def play_in_lockstep(self) -> None:
        """Let all agents choose, exchange the estimates of the round's start, and observe."""
        agents = [agent for agent in self.agents if agent is not None]
        for t in range(1, self.run.problem.horizon + 1):
            await _until(t)
            self.rounds = [t] * len(agents)
            tickets = [await self.choose(v, t, agent) for v, agent in enumerate(agents)]
            for agent in agents:
                agent._running().ledger.hold()
            for agent in agents:
                agent.report()
            # Without faults nothing takes time: all messages are answered at the next instant.
            await _until(t + 0.5)
            assert self.network.pending_messages == 0
            for v, agent in enumerate(agents):
                await self.observe(v, t, agent, tickets[v])
                agent._running().ledger.release()

    async def choose(self, v: int, t: int, agent: Agent) -> Ticket:
        """Let agent v choose in round t, and record its action."""
        ticket = await agent.choose()
        self.losses.of(t)
        p = np.frombuffer(agent._running().book.open[ticket.id].p)
        self.action[t - 1, v] = self.arms[ticket.arm]
        self.expected[t - 1, v] = p @ self.losses.means[t - 1]
        return ticket

    async def observe(self, v: int, t: int, agent: Agent, ticket: Ticket) -> None:
        """Report the loss of round t to agent v."""
        losses = self.losses.of(t)[v]
        full = agent.part.algorithm.feedback == "full"
        observed: Any = losses.tolist() if full else float(losses[self.arms[ticket.arm]])
        await agent.observe(ticket.id, observed)

    async def recommended(self, v: int) -> int:
        """Return the arm with the largest probability of agent v; a random one of ties."""
        agent = self.agents[v] or await self.start(v)
        p: Vector = agent._running().distribution()
        largest = (p >= p.max() * (1 - TIE_TOLERANCE)).astype(np.float64)
        return int(sample(largest, self.run.uniforms[-1, v]))


async def _until(second: float) -> None:
    await asyncio.sleep(second - asyncio.get_running_loop().time())
