"""A live agent: what it chose, observed and exchanged is on disk before anyone hears of it."""

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
from fedbandits.live.protocol.member import Member
from fedbandits.live.protocol.messages import RefusedError
from fedbandits.live.protocol.observations import checked_range
from fedbandits.live.protocol.records import Changes, Identity
from fedbandits.live.protocol.tickets import OpenTicket, Ticket
from fedbandits.live.transport.certificate_expiry import Expiries
from fedbandits.live.transport.interface import Transport

from .arguments import as_store, own_part, own_transport, refuse_others
from .group_commit import GroupCommit, StoppedError, Store
from .neighbours import Hearing
from .rate_limit import REPEATS, Pace
from .responses import Responses, responses
from .status import Neighbour, Status

if TYPE_CHECKING:
    from .blocking import BlockingAgent

_log = limited_logger("fedbandits.live")

JITTER = 0.1
"""By how much of a period gossip is early or late, so that agents do not all speak at once."""


class Agent:
    """One agent of a federation: chooses, observes and gossips.

    Args:
        name: as the federation calls it.
        federation: the whole of it, or this agent's part.
        store: the journal's file, or another store.
        transport: to its neighbours; None for an agent that is on its own for now.
        algorithm: may be repeated here; must be the federation's.
        arms: the same.
        low: the smallest loss or reward there can be.
        high: the largest.
        epsilon: learn from one noisy bit instead of each loss: ε = epsilon per round for the losses
            of this agent (event level), even if all others collude; arms are public. The loss is
            nowhere kept. None for no guarantee; or what gives the bits.
        seed: of its choices, 32 bytes; drawn by chance where the journal is new and none is given.
        clock: seconds since 1970.
        uniforms: the number in [0, 1) from which the arm of round t is drawn; by default a keyed
            hash of t.
        chance: for numbers of incarnations and the jitter of gossip.

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
        epsilon: float | Responses | None = None,
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
        uniforms: Callable[[int], float] | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.name = name
        self.part = own_part(name, federation)
        refuse_others(self.part, algorithm, arms)
        self._store = as_store(store)
        self._transport = own_transport(self.part, transport)
        self._range = checked_range(low, high)
        self._responses = responses(epsilon, self.part.algorithm)
        self._seed = seed
        self._clock = clock
        self._uniforms = uniforms
        self._chance = chance or random.SystemRandom()
        self._member: Member | None = None
        self._commit: GroupCommit | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hearing = Hearing(name)
        self._pace = Pace(self.part.gossip_period)
        self.would: Counter[str] = Counter()
        self.expiries: Expiries | None = None
        """Of its certificates; whoever has given it keys looks at them."""
        self.baseline: str | None = None
        """What an apprentice plays each time; whoever serves it says so."""
        self._offset = self._started = 0.0

    # What an application calls

    def choose(
        self,
        allowed: Iterable[str] | None = None,
        *,
        event: str | None = None,
        baseline: str | None = None,
    ) -> Coroutine[Any, Any, Ticket]:
        """Draw an arm. It is on disk, and its loss may be observed, when this returns.

        Args:
            allowed: the arms that can be played now; None for all.
            event: your own name for this choice: asked again for the same event, also after a
                crash, it gives the same ticket.
            baseline: the arm to play, whatever is drawn: the ticket's `would` tells what was, and
                `agent.would` counts it.

        Raises:
            ChoiceError: for an unknown arm, or an event chosen for before among other arms.
        """
        self._inside_its_loop("choose")
        return self._choose(allowed, event, baseline)

    async def _choose(
        self, allowed: Iterable[str] | None, event: str | None, baseline: str | None
    ) -> Ticket:
        member = self._running()
        before = member.rounds
        ticket = member.choose(self._now(), allowed, event, baseline)
        if ticket.would is not None and member.rounds > before:
            self.would[ticket.would] += 1
        await self._saved()
        return ticket

    def ticket_of(self, event: str) -> str:
        """The id of the ticket that was given out for an event."""
        return self._running().book.of_event(event)

    def observe(
        self, ticket: str | Ticket, loss: Any = None, *, reward: Any = None
    ) -> Coroutine[Any, Any, None]:
        """Tell the loss, or the reward, of a choice. It is counted once, whatever happens.

        Safe to repeat: the same again changes nothing. Late is fine, until the ticket expires. With
        `epsilon` the loss is not kept, so that whatever is observed again is taken for the same.

        Args:
            ticket: the ticket, or its id.
            loss: between `low` and `high`; of all arms where the algorithm learns from all.
            reward: the same, larger being better.

        Raises:
            ObservationError: for an unknown or expired ticket, a loss out of range, or another loss
                than the one observed before.
        """
        self._inside_its_loop("observe")
        if (loss is None) == (reward is None):
            raise TypeError("observe takes a loss or a reward, one of the two")
        value = reward if loss is None else loss
        scaled = self._range.loss(value, reward=loss is None)
        name = ticket.id if isinstance(ticket, Ticket) else ticket
        return self._observe(name, scaled, reward=loss is None)

    async def _observe(self, ticket: str, loss: Any, *, reward: bool) -> None:
        self._running().observe(ticket, loss, self._now(), reward=reward)
        await self._saved()

    @property
    def running(self) -> bool:
        """Whether it has been started, and its store works."""
        return self._commit is not None and self.failure is None

    @property
    def failure(self) -> BaseException | None:
        """The error of the store that stopped the agent; None while it works."""
        return None if self._commit is None else self._commit.failure

    @property
    def transport(self) -> Transport | None:
        """To its neighbours."""
        return self._transport

    @property
    def recommended(self) -> str:
        """The arm it would most likely play now."""
        return self._running().recommended

    @property
    def probabilities(self) -> dict[str, float]:
        """What the next choice is drawn from."""
        p = self._running().distribution()
        return dict(zip(self.part.arms, p.tolist(), strict=True))

    @property
    def disagreement(self) -> float:
        """The largest difference between its estimates and those last heard from a neighbour."""
        return self._running().disagreement

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        """Who is there, and who has been silent for how long."""
        return self._hearing.neighbours(self._running(), self._transport, self._now())

    @property
    def rounds(self) -> int:
        """How many choices it has made."""
        return self._running().rounds

    @property
    def open_tickets(self) -> int:
        """How many of them wait for their loss."""
        return self._running().open_tickets

    @property
    def tickets(self) -> list[OpenTicket]:
        """The choices that wait for their loss, the oldest first."""
        return self._running().tickets(self._now())

    @property
    def expired(self) -> int:
        """How many tickets have expired."""
        return self._running().expired

    def status(self) -> Status:
        """All of this, as plain data."""
        member, now = self._running(), self._now()
        p = member.distribution()
        return Status(
            name=self.name,
            version=__version__,
            federation_version=self.part.version,
            algorithm=type(self.part.algorithm).__name__,
            arms=self.part.arms,
            probabilities=tuple(p.tolist()),
            recommended=self.part.arms[int(p.argmax())],
            rounds=member.rounds,
            observed=member.observed,
            expired=member.expired,
            open_tickets=member.open_tickets,
            disagreement=member.disagreement,
            gossips=member.gossips,
            agents=self.part.agents,
            gossip_period=self.part.gossip_period,
            neighbours=self.neighbours,
            uptime=now - self._started,
            time=now,
            certificate_expires=self.expiries and self.expiries.member,
            authority_expires=self.expiries and self.expiries.authority,
            epsilon=self.epsilon,
            baseline=self.baseline,
            losses=member.losses.means(now, self._range, self._responses),
        )

    @property
    def epsilon(self) -> float | None:
        """ε per round for its losses, event level, even if all others collude; or no guarantee."""
        return self._responses.epsilon if self._responses is not None else None

    # Beginning, changing and ending

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> BlockingAgent:
        from .blocking import BlockingAgent

        self._face = BlockingAgent(self)
        return self._face

    def __exit__(self, *_: object) -> None:
        self._face.stop()

    async def start(self) -> None:
        """Open the journal, go on from there, and gossip."""
        if self._member is not None:
            raise StoppedError(f"{self.name} is running already")
        part = self.part
        game = canonical(describe(part.algorithm))
        identity = Identity(part.name, game, part.arms, *self._range, self.epsilon)
        saved = await self._store.open(identity, self._seed)
        self._loop = asyncio.get_running_loop()
        # By the wall once, then by a clock that never jumps.
        self._offset = self._clock() - self._loop.time()
        self._started = self._now()
        self._hearing.begin()
        self._pace = Pace(part.gossip_period)
        try:
            member = Member(
                part.name,
                part.algorithm,
                part.arms,
                part.agents,
                part.neighbours,
                saved,
                self._incarnation,
                limit=part.limit,
                expiry=part.expiry,
                uniforms=self._uniforms,
                now=self._started,
                # A journal put back from a backup must not give out the ids of before once more.
                prefix=f"{saved.life}{self._chance.getrandbits(16):04x}",
                responses=self._responses,
            )
            self._member = member
            self._commit = GroupCommit(
                self.name, partial(self._changes, member), self._store, self._send
            )
            await self._commit.saved()
            if self._transport is not None:
                await self._transport.start(self._receive)
            if part.gossip_period < math.inf:
                self._ticking = self._loop.create_task(self._gossip())
                self._ticking.add_done_callback(self._ticked_out)
        except BaseException:
            await self._let_go()
            raise

    async def stop(self) -> None:
        """Save, say nothing, and let go; the agent may be started again."""
        if self._member is None:
            return
        try:
            if self._commit is not None and self._commit.failure is None:
                await self._commit.saved()
        finally:
            await self._let_go()

    async def leave(self, patience: float = 5.0) -> tuple[str, ...]:
        """Say goodbye to the neighbours, undo what has flowed to and from them, and stop.

        The averages of those who stay are then of what they have put in themselves. An agent that
        left may come back: its own estimates are kept.

        Args:
            patience: seconds to go on saying goodbye to those who do not show that they know.

        Returns:
            The neighbours who may not know. What had flowed between them and this agent stays with
            them until it comes back, or an operator takes it out of the federation.
        """
        member = self._running()
        member.leave()
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while True:
            await self._saved(member.goodbyes())
            if not member.ledger.untold or self._transport is None or loop.time() >= end:
                break
            await asyncio.sleep(min(0.1, patience / 10))
        untold = tuple(sorted(member.ledger.untold))
        await self.stop()
        return untold

    async def adopt(self, federation: Federation | Part) -> None:
        """Go on in a federation that has changed: other members, links, weights or settings."""
        part = own_part(self.name, federation)
        refuse_others(part, self.part.algorithm, self.part.arms)
        own_transport(part, self._transport)
        member = self._running()
        member.adopt(part.agents, part.neighbours, part.algorithm)
        member.ledger.limit, member.expiry = part.limit, part.expiry
        self.part = part
        self._pace = Pace(part.gossip_period)
        await self._saved()

    async def abort(self) -> None:
        """End at once, as a crash does: what is not on disk is lost, and nobody was told of it."""
        self._member = None
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
            self._ticking = None
        if self._commit is not None:
            await self._commit.end()
            self._commit = None

    async def _let_go(self) -> None:
        """End everything that was begun, whatever of it fails."""
        try:
            if self._transport is not None:
                await self._transport.stop()
        finally:
            try:
                await self.abort()
            finally:
                await self._store.close()

    # A round in common, which `rehearse(..., lockstep=True)` has

    def report(self, *, again: bool = False) -> None:
        """Send now what is sent every gossip period; never without this if that is infinite.

        Args:
            again: only to those who have not answered the last.
        """
        member = self._running()
        member.expire(self._now())
        assert self._commit is not None
        self._commit.post(member.repeats() if again else member.reports())

    def hold(self) -> None:
        """Exchange the estimates of this moment until `release`."""
        self._running().ledger.hold()

    def release(self) -> None:
        """Exchange the estimates of the moment again."""
        self._running().ledger.release()

    # What the above is made of

    def _inside_its_loop(self, method: str) -> None:
        """Refuse a call from elsewhere, whose coroutine would never be woken."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            raise StoppedError(
                f"await agent.{method}(...) inside `async with agent:`; in a program without "
                f"asyncio, `with agent as shop:` and shop.{method}(...)"
            ) from None
        if self._member is not None and here is not self._loop:
            raise StoppedError(
                f"{self.name} runs in another event loop; call it there, or from any thread by "
                f"`with agent as shop:` and shop.{method}(...)"
            )

    def _running(self) -> Member:
        failure = self.failure
        if failure is not None:
            raise StoppedError(
                f"{self.name} stopped, since its store failed ({failure}); what it acknowledged "
                "is safe. Mend the store, then start the agent again"
            ) from failure
        if self._member is None:
            raise StoppedError(
                f"{self.name} is not running; use it inside `async with agent:`, or `with agent as "
                "shop:` in a program without asyncio"
            )
        return self._member

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time() + self._offset

    def _incarnation(self) -> int:
        """Milliseconds since 1970 and 19 bits of chance: newer than before, unless clocks lie."""
        milliseconds = min(max(int(self._clock() * 1000), 0), 2**42 - 1)
        return (milliseconds << 19) + self._chance.getrandbits(19)

    async def _saved(self, messages: Iterable[tuple[str, bytes]] = ()) -> None:
        """Wait until everything so far is on disk; then these are sent."""
        self._running()
        assert self._commit is not None
        self._commit.post(messages)
        await self._commit.saved()

    def _changes(self, member: Member) -> Changes:
        """Return the next commit; each closes one slice of the tickets whose time is over."""
        more = member.expire(self._now())
        changes = member.changes()
        if more and self._loop is not None and self._commit is not None:
            self._loop.call_soon(self._commit.post, ())  # after other calls have had their turn
        return changes

    def _send(self, to: str, message: bytes) -> None:
        if self._transport is None:
            return
        try:
            self._transport.send(to, message)
        except Exception:  # a neighbour that cannot be reached must not stop the agent
            _log.exception("%s could not send to %s", self.name, to)

    async def _gossip(self) -> None:
        """Report to the owners of edges every period, and in between to those who are silent."""
        await asyncio.sleep(self._chance.random() * self.part.gossip_period)
        for turn in itertools.count():
            if self._commit is None or self._commit.failure is not None:
                return
            self.report(again=turn % (1 + REPEATS) > 0)
            pause = self.part.gossip_period / (1 + REPEATS)
            await asyncio.sleep(pause * (1 + JITTER * (2 * self._chance.random() - 1)))

    def _ticked_out(self, task: asyncio.Task[None]) -> None:
        """A task that died must not leave callers waiting, or an agent that is silent for ever."""
        if not task.cancelled() and (error := task.exception()) and self._commit is not None:
            self._commit.fail(error)

    def _receive(self, sender: str, payload: bytes) -> None:
        """From the transport: believe it or not, and answer after the next commit."""
        if self._member is None or self._commit is None or self._commit.failure is not None:
            return
        try:
            granted = self._pace.grants(sender, self._now())
            answer = self._member.receive(sender, payload, exchange=granted)
        except RefusedError as error:
            self._hearing.refused(sender, error, self.part.neighbours)
            if error.reason == "file":
                self._commit.post(self._member.objection(sender))
            return
        self._hearing.heard(sender, self._now())
        if answer:
            self._commit.post(answer)
