"""A live agent: what it chose, observed and exchanged is on disk before anyone hears of it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common.describe import canonical, describe
from fedbandits.common.version import __version__

from .federation import Federation, Part, names
from .member import Member
from .messages import RefusedError
from .observations import checked_range
from .records import Changes, Identity, Saved
from .status import NeighbourStatus, Status
from .tickets import Ticket
from .transport import Transport

if TYPE_CHECKING:
    from .blocking import BlockingAgent

_log = logging.getLogger("fedbandits.live")

JITTER = 0.1
"""By how much of a period gossip is early or late, so that agents do not all speak at once."""

REPEATS = 1
"""How often within a period a report is repeated to a neighbour that does not answer. So where
messages are lost there are almost as many exchanges as where none is."""


class Store(Protocol):
    """Where an agent keeps what it must not lose; `Journal` is one."""

    async def open(self, identity: Identity, seed: bytes | None = None) -> Saved:
        """What is there, or a beginning."""

    async def write(self, changes: Changes) -> None:
        """All of it or nothing; it is safe when this returns."""

    async def close(self) -> None:
        """Let others have it."""


class StoppedError(RuntimeError):
    """The agent is not running, or stopped because its store failed."""


class Neighbour(NamedTuple):
    """What an agent knows of a neighbour.

    Attributes:
        weight: of the edge.
        silent_for: seconds since it was last heard from; None if it never was since the start.
        left: whether it has said goodbye.
        refused: how many of its messages were not believed.
        last_refusal: why the last of those was not.
    """

    weight: float
    silent_for: float | None
    left: bool
    refused: int
    last_refusal: str | None


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
        seed: bytes | None = None,
        clock: Callable[[], float] = time.time,
        uniforms: Callable[[int], float] | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.name = name
        self.part = _own_part(name, federation)
        _refuse_others(self.part, algorithm, arms)
        self._store = _as_store(store)
        self._transport = transport
        self._range = checked_range(low, high)
        self._seed = seed
        self._clock = clock
        self._uniforms = uniforms
        self._chance = chance or random.SystemRandom()
        self._member: Member | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._pending = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._outbox: list[tuple[str, bytes]] = []
        self._heard_at: dict[str, float] = {}
        self._refused: Counter[str] = Counter()
        self._why_refused: dict[str, str] = {}
        self._failure: BaseException | None = None
        self.would: Counter[str] = Counter()
        self._offset = self._started = 0.0

    # What an application calls

    def choose(
        self,
        allowed: Sequence[str] | None = None,
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
        _inside_a_loop("choose")
        return self._choose(allowed, event, baseline)

    async def _choose(
        self, allowed: Sequence[str] | None, event: str | None, baseline: str | None
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
        return self._running().ticket_of(event)

    def observe(
        self, ticket: str | Ticket, loss: Any = None, *, reward: Any = None
    ) -> Coroutine[Any, Any, None]:
        """Tell the loss, or the reward, of a choice. It is counted once, whatever happens.

        Safe to repeat: the same again changes nothing. Late is fine, until the ticket expires.

        Args:
            ticket: the ticket, or its id.
            loss: between `low` and `high`; of all arms where the algorithm learns from all.
            reward: the same, larger being better.

        Raises:
            ObservationError: for an unknown or expired ticket, a loss out of range, or another loss
                than the one observed before.
        """
        _inside_a_loop("observe")
        if (loss is None) == (reward is None):
            raise TypeError("observe takes a loss or a reward, one of the two")
        value = reward if loss is None else loss
        scaled = self._range.loss(value, reward=loss is None)
        return self._observe(ticket.id if isinstance(ticket, Ticket) else ticket, scaled)

    async def _observe(self, ticket: str, loss: Any) -> None:
        self._running().observe(ticket, loss, self._now())
        await self._saved()

    @property
    def running(self) -> bool:
        """Whether it has been started, and its store works."""
        return self._member is not None and self._failure is None

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
        now = self._now()
        return {
            name: Neighbour(
                edge.weight,
                now - self._heard_at[name] if name in self._heard_at else None,
                edge.left,
                self._refused[name],
                self._why_refused.get(name),
            )
            for name, edge in self._running().ledger.edges.items()
        }

    @property
    def rounds(self) -> int:
        """How many choices it has made."""
        return self._running().rounds

    @property
    def open_tickets(self) -> int:
        """How many of them wait for their loss."""
        return self._running().open_tickets

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
            algorithm=type(self.part.algorithm).__name__,
            arms=self.part.arms,
            probabilities=tuple(p.tolist()),
            recommended=self.part.arms[int(p.argmax())],
            rounds=member.rounds,
            observed=member.observed,
            expired=member.expired,
            open_tickets=member.open_tickets,
            disagreement=member.disagreement,
            agents=self.part.agents,
            neighbours={
                name: NeighbourStatus(*each, member.distance(name))
                for name, each in self.neighbours.items()
            },
            uptime=now - self._started,
            time=now,
        )

    # Beginning, changing and ending

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def __enter__(self) -> BlockingAgent:
        from .blocking import BlockingAgent

        self._face = BlockingAgent(self)
        return self._face

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._face.stop()

    async def start(self) -> None:
        """Open the journal, go on from there, and gossip."""
        if self._member is not None:
            raise StoppedError(f"{self.name} is running already")
        part = self.part
        game = canonical(describe(part.algorithm))
        saved = await self._store.open(Identity(part.name, game, part.arms), self._seed)
        loop = asyncio.get_running_loop()
        # By the wall once, then by a clock that never jumps.
        self._offset = self._clock() - loop.time()
        self._failure = None
        self._heard_at.clear()
        self._started = self._now()
        try:
            self._member = Member(
                part.name,
                part.algorithm,
                part.arms,
                part.agents,
                part.neighbours,
                saved,
                self._incarnation,
                clip=part.clip,
                expiry=part.expiry,
                uniforms=self._uniforms,
            )
            self._tasks = [loop.create_task(self._commits())]
            await self._saved()
            if self._transport is not None:
                await self._transport.start(self._receive)
            if part.gossip_period < math.inf:
                self._tasks.append(loop.create_task(self._gossip()))
        except BaseException:
            self._member = None
            await self.abort()
            await self._store.close()
            raise

    async def stop(self) -> None:
        """Save, say nothing, and let go; the agent may be started again."""
        if self._member is None:
            return
        if self._transport is not None:
            await self._transport.stop()
        with suppress(StoppedError):
            await self._saved()
        self._member = None
        await self.abort()
        await self._store.close()

    async def leave(self) -> None:
        """Say goodbye to the neighbours, undo what has flowed to and from them, and stop.

        The averages of those who stay are then of what they have put in themselves. An agent that
        left may come back: its own estimates are kept.
        """
        self._outbox += self._running().leave()
        await self._saved()
        await self.stop()

    async def adopt(self, federation: Federation | Part) -> None:
        """Go on in a federation that has changed: other members, links or weights."""
        part = _own_part(self.name, federation)
        _refuse_others(part, self.part.algorithm, self.part.arms)
        self._running().adopt(part.agents, part.neighbours)
        self.part = part
        await self._saved()

    async def abort(self) -> None:
        """End at once, as a crash does: what is not on disk is lost, and nobody was told of it."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        for future in self._waiting:
            future.cancel()
        self._waiting, self._outbox = [], []
        self._member = None

    # A round in common, which `rehearse(..., lockstep=True)` has

    def report(self, *, again: bool = False) -> None:
        """Send now what is sent every gossip period; never without this if that is infinite.

        Args:
            again: only to those who have not answered the last.
        """
        member = self._running()
        member.expire(self._now())
        self._outbox += member.repeats() if again else member.reports()
        self._pending.set()

    def hold(self) -> None:
        """Exchange the estimates of this moment until `release`."""
        self._running().ledger.hold()

    def release(self) -> None:
        """Exchange the estimates of the moment again."""
        self._running().ledger.release()

    # What the above is made of

    def _running(self) -> Member:
        if self._failure is not None:
            raise StoppedError(
                f"{self.name} stopped, since its store failed ({self._failure}); what it "
                "acknowledged is safe. Mend the store, then start the agent again"
            ) from self._failure
        if self._member is None:
            raise StoppedError(f"{self.name} is not running; use it inside `async with agent:`")
        return self._member

    def _now(self) -> float:
        return asyncio.get_running_loop().time() + self._offset

    def _incarnation(self) -> int:
        """Milliseconds since 1970 and 20 bits of chance: newer than before, unless clocks lie."""
        return (int(self._clock() * 1000) << 20) + self._chance.getrandbits(20)

    async def _saved(self) -> None:
        """Wait until everything so far is on disk; concurrent callers share a commit."""
        self._running()
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._pending.set()
        await future

    async def _commits(self) -> None:
        """Write what has gathered, then tell those who wait for it and send what it allows."""
        while True:
            await self._pending.wait()
            self._pending.clear()
            waiting, self._waiting = self._waiting, []
            outbox, self._outbox = self._outbox, []
            try:
                if changes := self._running().changes():
                    await self._store.write(changes)
            except asyncio.CancelledError:
                self._waiting += waiting
                raise
            except Exception as error:
                _log.exception("%s could not save and stops", self.name)
                self._fail(error, waiting)
                return
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            self._send(outbox)

    def _send(self, outbox: list[tuple[str, bytes]]) -> None:
        if self._transport is None:
            return
        for to, message in outbox:
            try:
                self._transport.send(to, message)
            except Exception:  # a neighbour that cannot be reached must not stop the agent
                _log.exception("%s could not send to %s", self.name, to)

    def _fail(self, error: BaseException, waiting: list[asyncio.Future[None]]) -> None:
        """What is in memory is ahead of the disk: nothing may be told any more."""
        self._failure = error
        for future in waiting + self._waiting:
            if not future.done():
                future.set_exception(
                    StoppedError(f"{self.name} could not save this: {error}; it is not counted")
                )
        self._waiting, self._outbox = [], []

    async def _gossip(self) -> None:
        """Report to the owners of edges every period, and in between to those who are silent."""
        pause = self.part.gossip_period / (1 + REPEATS)
        await asyncio.sleep(self._chance.random() * self.part.gossip_period)
        for turn in itertools.count():
            if self._failure is not None:
                return
            self.report(again=turn % (1 + REPEATS) > 0)
            await asyncio.sleep(pause * (1 + JITTER * (2 * self._chance.random() - 1)))

    def _receive(self, sender: str, payload: bytes) -> None:
        """From the transport: believe it or not, and answer after the next commit."""
        if self._member is None or self._failure is not None:
            return
        try:
            answer = self._member.receive(sender, payload)
        except RefusedError as error:
            self._refused[sender] += 1
            self._why_refused[sender] = str(error)
            return
        self._heard_at[sender] = self._now()
        if answer:
            self._outbox += answer
            self._pending.set()


def _inside_a_loop(method: str) -> None:
    """Refuse a call from a plain thread, whose coroutine nobody would ever run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise StoppedError(
            f"await agent.{method}(...) inside `async with agent:`; in a program without asyncio, "
            f"`with agent as shop:` and shop.{method}(...)"
        ) from None


def _own_part(name: str, federation: Any) -> Part:
    if isinstance(federation, Federation):
        return federation.part(name)
    if not isinstance(federation, Part):
        raise TypeError(f"federation must be a Federation or a Part of one, not {federation!r}")
    if federation.name != name:
        raise ValueError(f"this is the part of {federation.name!r}, not of {name!r}")
    return federation


def _refuse_others(part: Part, algorithm: AnyAlgorithm | None, arms: Sequence[str] | None) -> None:
    """Refuse an algorithm or arms that are not the federation's."""
    if algorithm is not None:
        given, agreed = (canonical(describe(each)) for each in (algorithm, part.algorithm))
        if given != agreed:
            raise ValueError(f"the federation plays {part.algorithm}, not {algorithm}")
    if arms is not None and names(arms, "arm", least=2) != part.arms:
        raise ValueError(
            f"the federation's arms are {', '.join(part.arms)}, in this order, and not "
            f"{', '.join(arms)}"
        )


def _as_store(store: Any) -> Store:
    if isinstance(store, str | Path):
        from .journal import Journal

        return Journal(store)
    if not hasattr(store, "write"):
        raise TypeError(f"store must be the name of a file or a store, not {store!r}")
    found: Store = store
    return found
