"""A live agent: it saves every choice, observation and exchange before anyone else learns of it."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common.describe import canonical, describe
from fedbandits.common.log_limit import limited_logger
from fedbandits.common.version import __version__
from fedbandits.live.federation.federation import Federation, Part
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.messages import RejectedMessageError
from fedbandits.live.protocol.noisy_bits import NoisyBits, noisy_bits
from fedbandits.live.protocol.observations import loss_range
from fedbandits.live.protocol.records import Changes, Identity
from fedbandits.live.protocol.tickets import OpenTicket, Ticket
from fedbandits.live.transport.certificate_expiry import Expiries
from fedbandits.live.transport.interface import Transport

from .arguments import as_store, check_same_game, own_part, own_transport
from .group_commit import GroupCommit, StoppedError, Store
from .neighbour_monitor import NeighbourMonitor
from .rate_limit import REPEATS, RateLimit
from .status import Neighbour, Status

if TYPE_CHECKING:
    from .blocking import BlockingAgent

_log = limited_logger("fedbandits.live")

JITTER = 0.1
"""The largest random shift of gossip, as a share of a period, so that agents do not synchronise."""


class Agent:
    """One agent of a federation: it chooses, observes and gossips.

    Args:
        name: the name of the agent in the federation.
        federation: the federation, or this agent's part of it.
        store: the name of the journal's file, or another store.
        transport: the connection to the neighbours; None for an agent without any for now.
        algorithm: the federation's algorithm, if you want it checked.
        arms: the federation's arms, if you want them checked.
        low: the smallest possible loss or reward.
        high: the largest possible loss or reward.
        epsilon: learn from one noisy bit instead of each loss: ε = epsilon per round for the losses
            of this agent (event level), even if all others collude; arms are public. The loss is
            not saved anywhere. None for no guarantee; or a source of the bits.
        seed: the seed of the choices, 32 bytes; drawn by chance if a new journal is given none.
        clock: returns the seconds since 1970.
        uniforms: returns the number in [0, 1) that draws the arm of round t; by default a keyed
            hash of t.
        chance: draws numbers of incarnations and the jitter of gossip.

    Example:
        >>> import asyncio, tempfile, fedbandits as fb
        >>> shops = fb.live.Federation(["tea", "coffee"], fb.networks.path(1))
        >>> async def one_choice(folder):
        ...     async with fb.live.Agent("agent1", shops, f"{folder}/shop.db") as agent:
        ...         ticket = await agent.choose(allowed=["tea"])
        ...         await agent.observe(ticket.id, loss=0.2)
        ...         return ticket.arm, agent.rounds
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(one_choice(folder))
        ('tea', 1)
    """

    def __init__(
        self,
        name: str,
        federation: Federation | Part,
        store: str | Path | Store,
        transport: Transport | None = None,
        *,
        algorithm: AnyAlgorithm | None = None,
        arms: Sequence[str] | None = None,
        low: float = 0.0,
        high: float = 1.0,
        epsilon: float | NoisyBits | None = None,
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
        uniforms: Callable[[int], float] | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.name = name
        self.part = own_part(name, federation)
        check_same_game(self.part, algorithm, arms)
        self._store = as_store(store)
        self._transport = own_transport(self.part, transport)
        self._range = loss_range(low, high)
        self._noisy_bits = noisy_bits(epsilon, self.part.algorithm)
        self._seed = seed
        self._clock = clock
        self._uniforms = uniforms
        self._chance = chance or random.SystemRandom()
        self._core: AgentCore | None = None
        self._commit: GroupCommit | None = None
        self._gossiping: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._monitor = NeighbourMonitor(name)
        self._rate_limit = RateLimit(self.part.gossip_period)
        self.would: Counter[str] = Counter()
        """Number of draws of each arm while a baseline was played."""
        self.expiries: Expiries | None = None
        """The expiry of its certificates, set by the code that reads them."""
        self.baseline: str | None = None
        """The arm that an apprentice plays in every round, set by the service."""
        self._offset = self._started = 0.0

    def choose(
        self,
        allowed: Iterable[str] | None = None,
        *,
        event: str | None = None,
        baseline: str | None = None,
    ) -> Coroutine[Any, Any, Ticket]:
        """Draw an arm and return its ticket, which is on disk then.

        Args:
            allowed: the arms that can be played now; None for all.
            event: your name for this choice. A repeated one returns the same ticket, also after a
                crash.
            baseline: the arm to play instead of the drawn one. The ticket's `would` names the drawn
                arm, and `agent.would` counts it.

        Raises:
            ChoiceError: for an unknown arm, or an event chosen for before among other arms.
        """
        self._check_loop("choose")
        return self._choose(allowed, event, baseline)

    async def _choose(
        self, allowed: Iterable[str] | None, event: str | None, baseline: str | None
    ) -> Ticket:
        core = self._running()
        before = core.rounds
        ticket = core.choose(self._now(), allowed, event, baseline)
        if ticket.would is not None and core.rounds > before:
            self.would[ticket.would] += 1
        await self._saved()
        return ticket

    def ticket_of(self, event: str) -> str:
        """Return the id of the ticket for an event."""
        return self._running().book.id_of(event)

    def observe(
        self, ticket: str | Ticket, loss: Any = None, *, reward: Any = None
    ) -> Coroutine[Any, Any, None]:
        """Report the loss or the reward of a choice, which is counted exactly once.

        Repeated calls are safe: the same observation again has no effect. An observation may come
        late, until the ticket expires. With `epsilon` the loss is not saved, so every later
        observation counts as the same.

        Args:
            ticket: the ticket, or its id.
            loss: between `low` and `high`; with full information, of all arms.
            reward: the same, where larger is better.

        Raises:
            ObservationError: for an unknown or expired ticket, a loss out of range, or another loss
                than the one observed before.
        """
        self._check_loop("observe")
        if (loss is None) == (reward is None):
            raise TypeError("observe takes a loss or a reward, one of the two")
        value = reward if loss is None else loss
        scaled = self._range.scaled(value, reward=loss is None)
        name = ticket.id if isinstance(ticket, Ticket) else ticket
        return self._observe(name, scaled, reward=loss is None)

    async def _observe(self, ticket: str, loss: Any, *, reward: bool) -> None:
        self._running().observe(ticket, loss, self._now(), reward=reward)
        await self._saved()

    @property
    def running(self) -> bool:
        """True after a start, while the store works."""
        return self._commit is not None and self.failure is None

    @property
    def failure(self) -> BaseException | None:
        """The error of the store that stopped the agent; None while it works."""
        return None if self._commit is None else self._commit.failure

    @property
    def transport(self) -> Transport | None:
        """The connection to the neighbours."""
        return self._transport

    @property
    def recommended(self) -> str:
        """The arm with the largest probability."""
        return self._running().recommended

    @property
    def probabilities(self) -> dict[str, float]:
        """The distribution of the next choice."""
        p = self._running().distribution()
        return dict(zip(self.part.arms, p.tolist(), strict=True))

    @property
    def disagreement(self) -> float:
        """The largest difference between its estimates and those that a neighbour last sent."""
        return self._running().ledger.disagreement

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        """The status of each neighbour."""
        return self._monitor.neighbours(self._running().ledger, self._transport, self._now())

    @property
    def rounds(self) -> int:
        """Number of choices."""
        return self._running().rounds

    @property
    def open_tickets(self) -> int:
        """Number of choices that wait for their loss."""
        return self._running().open_tickets

    @property
    def tickets(self) -> list[OpenTicket]:
        """The choices that wait for their loss, the oldest first."""
        return self._running().tickets(self._now())

    @property
    def expired(self) -> int:
        """Number of expired tickets."""
        return self._running().expired

    @property
    def epsilon(self) -> float | None:
        """ε per round for its losses (event level), even if all others collude; or no guarantee."""
        return self._noisy_bits.epsilon if self._noisy_bits is not None else None

    def status(self) -> Status:
        """Return the status as plain data."""
        core, now = self._running(), self._now()
        p = core.distribution()
        return Status(
            name=self.name,
            version=__version__,
            federation_version=self.part.version,
            algorithm=type(self.part.algorithm).__name__,
            arms=self.part.arms,
            probabilities=tuple(p.tolist()),
            recommended=self.part.arms[int(p.argmax())],
            rounds=core.rounds,
            observed=core.observed,
            expired=core.expired,
            open_tickets=core.open_tickets,
            disagreement=core.ledger.disagreement,
            gossips=core.gossips,
            agents=self.part.agents,
            gossip_period=self.part.gossip_period,
            neighbours=self.neighbours,
            uptime=now - self._started,
            time=now,
            certificate_expires=self.expiries and self.expiries.member,
            authority_expires=self.expiries and self.expiries.authority,
            epsilon=self.epsilon,
            baseline=self.baseline,
            losses=core.losses.means(now, self._range, self._noisy_bits),
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> BlockingAgent:
        from .blocking import BlockingAgent

        self._blocking = BlockingAgent(self)
        return self._blocking

    def __exit__(self, *_: object) -> None:
        self._blocking.stop()

    async def start(self) -> None:
        """Open the journal, continue from it, and begin to gossip."""
        if self._core is not None:
            raise StoppedError(f"{self.name} is running already")
        part = self.part
        game = canonical(describe(part.algorithm))
        identity = Identity(part.name, game, part.arms, *self._range, self.epsilon)
        saved = await self._store.open(identity, self._seed)
        self._loop = asyncio.get_running_loop()
        # Read the wall clock once. Later times come from a clock that never jumps.
        self._offset = self._clock() - self._loop.time()
        self._started = self._now()
        self._monitor.restart()
        self._rate_limit = RateLimit(part.gossip_period)
        try:
            self._core = core = AgentCore(
                part,
                saved,
                self._new_incarnation,
                uniforms=self._uniforms,
                now=self._started,
                # A journal restored from a backup must not repeat the ids of lost tickets.
                id_prefix=f"{saved.life}{self._chance.getrandbits(16):04x}",
                noisy_bits=self._noisy_bits,
            )
            self._commit = GroupCommit(
                self.name, partial(self._changes, core), self._store, self._send
            )
            await self._commit.saved()
            if self._transport is not None:
                await self._transport.start(self._receive)
            if part.gossip_period < math.inf:
                self._gossiping = self._loop.create_task(self._gossip())
                self._gossiping.add_done_callback(self._stop_after_error)
        except BaseException:
            await self._release()
            raise

    async def stop(self) -> None:
        """Save all changes and stop, without a message to neighbours. `start` works again."""
        if self._core is None:
            return
        try:
            if self._commit is not None and self._commit.failure is None:
                await self._commit.saved()
        finally:
            await self._release()

    async def leave(self, patience: float = 5.0) -> tuple[str, ...]:
        """Say goodbye to the neighbours, return all flow, and stop.

        The averages of the remaining agents then contain only their inputs. The agent keeps its
        estimates and may come back.

        Args:
            patience: seconds to repeat the goodbye to neighbours that do not confirm it.

        Returns:
            The neighbours that have not confirmed it. They keep the flow of this agent until it
            comes back or an operator removes it from the federation.
        """
        core = self._running()
        core.leave()
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while True:
            await self._saved(core.goodbyes())
            if not core.ledger.unaware or self._transport is None or loop.time() >= end:
                break
            await asyncio.sleep(min(0.1, patience / 10))
        unaware = tuple(sorted(core.ledger.unaware))
        await self.stop()
        return unaware

    async def adopt(self, federation: Federation | Part) -> None:
        """Continue in a federation that has other members, links, weights or settings."""
        part = own_part(self.name, federation)
        check_same_game(part, self.part.algorithm, self.part.arms)
        own_transport(part, self._transport)
        self._running().adopt(part)
        self.part = part
        self._rate_limit = RateLimit(part.gossip_period)
        await self._saved()

    async def abort(self) -> None:
        """Stop at once, as a crash does. Unsaved changes are lost, before any acknowledgement."""
        self._core = None
        if self._gossiping is not None:
            self._gossiping.cancel()
            await asyncio.gather(self._gossiping, return_exceptions=True)
            self._gossiping = None
        if self._commit is not None:
            await self._commit.end()
            self._commit = None

    def report(self, *, again: bool = False) -> None:
        """Send the messages of a gossip period now, also if that period is infinite.

        Args:
            again: only to the neighbours that have not answered the last ones.
        """
        core = self._running()
        core.expire(self._now())
        assert self._commit is not None
        self._commit.post(core.repeats() if again else core.reports())

    async def _release(self) -> None:
        """Stop the transport, the tasks and the store, even if one of them fails."""
        try:
            if self._transport is not None:
                await self._transport.stop()
        finally:
            try:
                await self.abort()
            finally:
                await self._store.close()

    def _check_loop(self, method: str) -> None:
        """Reject a call from another event loop, in which its coroutine would never resume."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            raise StoppedError(
                f"await agent.{method}(...) inside `async with agent:`; in a program without "
                f"asyncio, `with agent as shop:` and shop.{method}(...)"
            ) from None
        if self._core is not None and here is not self._loop:
            raise StoppedError(
                f"{self.name} runs in another event loop; call it there, or from any thread by "
                f"`with agent as shop:` and shop.{method}(...)"
            )

    def _running(self) -> AgentCore:
        """Return the core; raise StoppedError if the agent does not run."""
        failure = self.failure
        if failure is not None:
            raise StoppedError(
                f"{self.name} stopped, since its store failed ({failure}); what it acknowledged "
                "is safe. Repair the store, then start the agent again"
            ) from failure
        if self._core is None:
            raise StoppedError(
                f"{self.name} is not running; use it inside `async with agent:`, or `with agent as "
                "shop:` in a program without asyncio"
            )
        return self._core

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time() + self._offset

    def _new_incarnation(self) -> int:
        """Return milliseconds since 1970 and 19 random bits: larger than before on a good clock."""
        milliseconds = min(max(int(self._clock() * 1000), 0), 2**42 - 1)
        return (milliseconds << 19) + self._chance.getrandbits(19)

    async def _saved(self, messages: Iterable[tuple[str, bytes]] = ()) -> None:
        """Wait until all changes so far are on disk, then send these messages."""
        self._running()
        assert self._commit is not None
        self._commit.post(messages)
        await self._commit.saved()

    def _changes(self, core: AgentCore) -> Changes:
        """Return the next commit; each closes one batch of expired tickets."""
        more = core.expire(self._now())
        changes = core.changes()
        if more and self._loop is not None and self._commit is not None:
            self._loop.call_soon(self._commit.post, ())  # after the pending calls
        return changes

    def _send(self, to: str, message: bytes) -> None:
        if self._transport is None:
            return
        try:
            self._transport.send(to, message)
        except Exception:  # an unreachable neighbour must not stop the agent
            _log.exception("%s could not send to %s", self.name, to)

    async def _gossip(self) -> None:
        """Report to the owners of edges every period, and again to neighbours without an answer."""
        await asyncio.sleep(self._chance.random() * self.part.gossip_period)
        for turn in itertools.count():
            if self._commit is None or self._commit.failure is not None:
                return
            self.report(again=turn % (1 + REPEATS) > 0)
            pause = self.part.gossip_period / (1 + REPEATS)
            await asyncio.sleep(pause * (1 + JITTER * (2 * self._chance.random() - 1)))

    def _stop_after_error(self, task: asyncio.Task[None]) -> None:
        """Stop an agent whose gossip failed, so that no caller waits for it forever."""
        if not task.cancelled() and (error := task.exception()) and self._commit is not None:
            self._commit.fail(error)

    def _receive(self, sender: str, payload: bytes) -> None:
        """Process a message from the transport, and answer after the next commit."""
        if self._core is None or self._commit is None or self._commit.failure is not None:
            return
        try:
            allowed = self._rate_limit.allows(sender, self._now())
            answer = self._core.receive(sender, payload, exchange=allowed)
        except RejectedMessageError as error:
            self._monitor.rejected(sender, error, self.part.neighbours)
            if error.reason == "file":
                self._commit.post(self._core.own_terms(sender))
            return
        self._monitor.accepted(sender, self._now())
        if answer:
            self._commit.post(answer)
