"""An agent without disk, clock, network or thread: what it learns, chooses and would send.

Whoever runs it writes `changes()` to disk before it hands out a ticket, acknowledges an observation
or sends a message that came after them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import sample
from fedbandits.common.checks import did_you_mean
from fedbandits.live.agent.responses import Responses

from .ledger import AHEAD, Edge, Ledger, fresh_edge, owns
from .loss_sums import LossSums
from .messages import LARGEST, Format, Message, Values, Vector, encode, game_hash, packed
from .observations import (
    ConflictingObservationError,
    ExpiredTicketError,
    checked_loss,
    losses_of_all,
)
from .records import ArrayRecord, Changes, EdgeRecord, Saved, StateRecord, Status, TicketRecord
from .suitable import check_suitable
from .ticket_book import Expiry, TicketBook
from .tickets import EVENT_LENGTH, ChoiceError, ConflictingChoiceError, OpenTicket, Ticket, uniform

MOST_ROUNDS = 2.0**40
"""Largest number of rounds of one agent; 3,000 a second for ten years stay below it."""

SAME = 1e-6
"""Losses that differ by no more are the same observation, made twice."""

SLICE = 200
"""Tickets that may expire in one commit. More at once would block the event loop too long."""


class Member:
    """One agent's part in a federation.

    Args:
        name: of the agent.
        algorithm: what it does, set up.
        arms: their names.
        agents: N.
        neighbours: the weight of the edge to each.
        saved: what the journal holds.
        incarnation: gives a new number for an edge that starts, never a smaller one if it can.
        limit: see `Ledger`.
        expiry: of tickets.
        uniforms: the number in [0, 1) from which the arm of round t is drawn; by default a keyed
            hash of t.
        now: seconds since 1970; no ticket of the journal is younger.
        prefix: what the ids of tickets begin with; by default the journal's life.
        responses: give the bits that it learns from; None to learn from losses.
    """

    def __init__(
        self,
        name: str,
        algorithm: AnyAlgorithm,
        arms: tuple[str, ...],
        agents: int,
        neighbours: Mapping[str, float],
        saved: Saved,
        incarnation: Callable[[], int],
        *,
        limit: float = math.inf,
        expiry: Expiry = Expiry(),  # noqa: B008 (a tuple)
        uniforms: Callable[[int], float] | None = None,
        now: float = math.inf,
        prefix: str | None = None,
        responses: Responses | None = None,
    ) -> None:
        kept = check_suitable(algorithm, len(arms), agents)
        self.name = name
        self.algorithm = algorithm
        self.arms = arms
        self.expiry = expiry
        self._responses = responses
        self.observed = self.expired = self.rounds = 0
        self._prefix = saved.life if prefix is None else prefix
        self._number = {arm: i for i, arm in enumerate(arms)}
        self._uniform = uniforms or (lambda t: uniform(saved.seed, t))
        self._incarnation = incarnation
        self._state = algorithm.init(len(arms), agents, dtype=np.float64)
        self.form = message_format(algorithm, self._state, arms)
        self.ledger = Ledger(name, self.form, limit, kept, newest=self._newest)
        self._heard: Values = {}
        self._gossips = False
        self._unanswered: set[str] = set()
        self.book = TicketBook(name, saved.tickets, now)
        self._learnt = False
        self._slice = SLICE
        self.losses = LossSums(len(arms), saved.state.losses if saved.state else None)
        self._restore(saved)
        self.adopt(agents, neighbours, algorithm)

    # Choices

    def choose(
        self,
        now: float,
        allowed: Iterable[str] | None = None,
        event: str | None = None,
        baseline: str | None = None,
    ) -> Ticket:
        """Draw an arm and open a ticket for its loss.

        Args:
            now: seconds since 1970.
            allowed: the arms that can be played now; None for all.
            event: the application's own name for the choice. The same again gives the same ticket,
                while that is open and for the next `REMEMBERED` that are closed.
            baseline: the arm to play, whatever is drawn; the ticket tells what was. For an
                algorithm that learns from the arm played the others are then absent.
        """
        absent = self._absent(allowed)
        played = None if baseline is None else self._played(baseline, absent)
        self.expire(now)
        if event is not None:
            if not 1 <= len(event) <= EVENT_LENGTH:
                raise ChoiceError(f"an event has 1 to {EVENT_LENGTH} letters, not {len(event)}")
            if event in self.book.events:
                return self._again(event, absent, played)
        t = self.rounds + 1
        p = self.distribution(t)
        if absent:
            there = np.ones(len(self.arms))
            there[list(absent)] = 0.0
            p = p * there if (p * there).any() else there  # no share left: any that is there
            p = p / p.sum()
        arm = int(sample(p, np.float64(self._uniform(t))))
        self.rounds = t
        would = -1
        if played is not None:
            would, arm, absent = arm, played, self._beside(played, absent)
            p = np.zeros(len(self.arms))
            p[arm] = 1.0
        record = TicketRecord(
            f"{self._prefix}-{t}",
            t,
            arm,
            p.tobytes(),
            now,
            absent=tuple(absent),
            event=event or "",
            would=would,
        )
        self.book.keep(record)
        self._learnt = True
        return self._ticket(record)

    def observe(self, ticket: str, loss: Any, now: float, *, reward: bool = False) -> None:
        """Learn from the loss of a choice; the same again changes nothing.

        Args:
            ticket: its id.
            loss: of the arm played, in [0, 1]; of all arms, by name or in order, where the
                algorithm takes full information (of those allowed then, by name).
            now: seconds since 1970.
            reward: whether the application observed a reward.
        """
        self.expire(now)
        record = self.book.open.get(ticket)
        if record is None:
            self._check_again(ticket, loss)
            return
        if self._over(record, now):  # a later slice closes it
            raise _expired(ticket)
        losses = self._losses(record, loss)
        if self._responses is not None:  # from here on nobody knows the loss
            losses = np.array([self._responses.bit(losses.item())])
        self.observed += 1
        known = {record.arm: losses[0]}
        if self.algorithm.feedback == "full":
            known = {i: loss for i, loss in enumerate(losses) if i not in record.absent}
        self.losses.add(record.arm, known, now, reward=reward)
        self._learn(record, losses, "observed")

    def expire(self, now: float) -> bool:
        """Close at most `SLICE` expired tickets, the oldest first.

        Returns:
            Whether more tickets have expired.
        """
        if self.expiry.after is None:
            return False
        first = itertools.islice(self.book.open.values(), self._slice)
        for record in list(itertools.takewhile(lambda each: self._over(each, now), first)):
            self._slice -= 1
            self.expired += 1
            if self.expiry.loss is None:
                self._close(record, b"", "expired")
            else:
                full = self.algorithm.feedback == "full"
                charged = self.expiry.loss  # the federation's, and no secret
                if self._responses is not None:
                    charged = self._responses.expected(charged)
                loss = np.full(len(self.arms) if full else 1, charged)
                self._learn(record, loss, "expired")
        oldest = next(iter(self.book.open.values()), None)
        return oldest is not None and self._over(oldest, now)

    def distribution(self, t: int | None = None) -> Vector:
        """What the next choice is drawn from, `[K]`."""
        self._hear()
        t = self.rounds + 1 if t is None else t
        return np.asarray(self.algorithm.distribution(self._state, np.int64(t)), np.float64)

    def drawn_from(self, ticket: str) -> Vector:
        """What an open ticket's arm was drawn from, `[K]`."""
        return np.frombuffer(self.book.open[ticket].p)

    @property
    def recommended(self) -> str:
        """The arm that it would most likely play now."""
        return self.arms[int(self.distribution().argmax())]

    def tickets(self, now: float) -> list[OpenTicket]:
        """The choices that wait for their loss, the oldest first."""
        return [
            OpenTicket(
                record.id,
                self.arms[record.arm],
                float(np.frombuffer(record.p)[record.arm]),
                now - record.issued,
            )
            for record in self.book.open.values()
        ]

    @property
    def open_tickets(self) -> int:
        """How many choices wait for their loss."""
        return len(self.book.open)

    # Gossip

    @property
    def gossips(self) -> bool:
        """Whether averages may move: not while first rounds overwrite what was received."""
        if not self._gossips:
            first = self.algorithm.rounds_before_gossip(len(self.arms))
            waiting = any(record.round <= first for record in self.book.open.values())
            self._gossips = self.rounds >= first and not waiting
        return self._gossips

    def reports(self) -> list[tuple[str, bytes]]:
        """What is sent every gossip period."""
        if not self.form.values or not self.gossips:
            return []
        found = self.ledger.reports()
        self._unanswered = {neighbour for neighbour, _ in found}
        return _encoded(found)

    def repeats(self) -> list[tuple[str, bytes]]:
        """What is sent between two periods: reports, as of now, to those who did not answer."""
        if not self._unanswered:
            return []
        return _encoded([each for each in self.ledger.reports() if each[0] in self._unanswered])

    def receive(
        self, sender: str, payload: bytes, *, exchange: bool = True
    ) -> list[tuple[str, bytes]]:
        """Take in a message; what is sent in answer. See `Ledger.receive`.

        Raises:
            RefusedError: if it is not believed.
        """
        message = self.form.decode(payload)
        if not self.gossips:
            return []
        answer = self.ledger.receive(sender, message, exchange=exchange)
        self._unanswered.discard(sender)
        return [] if answer is None else [(sender, encode(answer))]

    def objection(self, neighbour: str) -> list[tuple[str, bytes]]:
        """What tells a neighbour whose report was refused that the files of both disagree."""
        if not self.ledger.edges[neighbour].owner:
            return []
        return _encoded([(neighbour, self.ledger.state(neighbour))])

    def leave(self) -> None:
        """Undo what had flowed between this agent and its neighbours, and exchange no more."""
        self.ledger.leave({neighbour: self._incarnation() for neighbour in self.ledger.edges})

    def goodbyes(self) -> list[tuple[str, bytes]]:
        """What is sent to the neighbours who have not shown that they know."""
        return _encoded(self.ledger.goodbyes())

    def adopt(self, agents: int, neighbours: Mapping[str, float], algorithm: AnyAlgorithm) -> None:
        """Have these neighbours from now on: some may be new, some gone, some weighed anew.

        The algorithm is the same, but may have been told of another network.
        """
        self.algorithm = algorithm
        largest = agents * algorithm.largest_estimate(len(self.arms), MOST_ROUNDS)
        self.ledger.reach = min(largest, LARGEST)
        for gone in self.ledger.edges.keys() - neighbours.keys():
            self.ledger.disconnect(gone)
        for neighbour, weight in neighbours.items():
            self.ledger.connect(neighbour, weight, self._incarnation())
        if hasattr(self._state, "agents"):
            fresh = self.algorithm.init(len(self.arms), agents, dtype=np.float64)
            self._state = self._state._replace(agents=fresh.agents)

    def _newest(self) -> int:
        """Return the bound on incarnations; see `Ledger`."""
        return self._incarnation() + AHEAD

    @property
    def disagreement(self) -> float:
        """The largest difference between its averages and those last heard from a neighbour."""
        return max((self.distance(name) or 0.0 for name in self.ledger.edges), default=0.0)

    def distance(self, neighbour: str) -> float | None:
        """The same, of one neighbour; None if it was never heard from."""
        heard = self.ledger.edges[neighbour].heard
        if heard is None:
            return None
        ours = self.ledger.values
        return max((float(np.abs(ours[k] - heard[k]).max()) for k in self.form.averages), default=0)

    # Keeping

    def changes(self) -> Changes:
        """What has changed since this was last called."""
        state = self._state_record() if self._learnt or self.ledger.took_in else None
        edges = {
            neighbour: _edge_record(edge) if (edge := self.ledger.edges.get(neighbour)) else None
            for neighbour in self.ledger.changed
        }
        self._learnt = self.ledger.took_in = False
        self._slice = SLICE
        self.ledger.changed = set()
        return Changes(state, edges, *self.book.changes())

    # What the above is made of

    def _over(self, record: TicketRecord, now: float) -> bool:
        """Return whether the time of a ticket is over."""
        return self.expiry.after is not None and now - record.issued >= self.expiry.after

    def _absent(self, allowed: Iterable[str] | None) -> tuple[int, ...]:
        """The numbers of the arms that cannot be played now."""
        if allowed is None:
            return ()
        if isinstance(allowed, str):
            raise TypeError(f"allowed is a list of arms, as in allowed=[{allowed!r}]")
        allowed = set(allowed)
        for arm in allowed:
            if arm not in self._number:
                meant = did_you_mean(arm, self.arms)
                raise ChoiceError(f"no arm {arm!r}{meant} The arms are {', '.join(self.arms)}")
        if not allowed:
            raise ChoiceError("allowed names no arm; leave it out to allow all")
        absent = tuple(i for arm, i in self._number.items() if arm not in allowed)
        if absent and not self.algorithm.sleeps:
            raise ChoiceError(
                f"{type(self.algorithm).__name__} plays all arms or none: it does not say what an "
                "absent arm is charged. Exp3, FedExp3 and FedHedge do"
            )
        return absent

    def _played(self, baseline: str, absent: tuple[int, ...]) -> int:
        """The number of the baseline, which must be there."""
        self._absent([baseline])  # an arm, of an algorithm that can do without the others
        played = self._number[baseline]
        if played in absent:
            raise ChoiceError(
                f"the baseline {baseline!r} is played in every round, and is not allowed in this "
                "one: allow it, or choose without a baseline"
            )
        return played

    def _beside(self, played: int, absent: tuple[int, ...]) -> tuple[int, ...]:
        """What is absent where one arm is played for sure.

        Its loss says nothing of the others'. Charged what it lost, as any absent arm is, they keep
        their shares; left at 0 they would look better with every round that nobody played them.
        Where the losses of all arms are told, all that are there are learnt from.
        """
        if self.algorithm.feedback == "full":
            return absent
        return tuple(i for i in range(len(self.arms)) if i != played)

    def _again(self, event: str, absent: tuple[int, ...], played: int | None) -> Ticket:
        """The ticket of an event that was chosen for before."""
        ticket = self.book.events[event]
        record = self.book.open.get(ticket) or self.book.closed[ticket]
        if played is not None:
            absent = self._beside(played, absent)
        if (record.absent, record.would >= 0) != (absent, played is not None):
            raise ConflictingChoiceError(
                f"event {event!r} was chosen for before, among other arms (ticket {ticket!r}, arm "
                f"{self.arms[record.arm]!r}); take another name for another choice"
            )
        return self._ticket(record)

    def _ticket(self, record: TicketRecord) -> Ticket:
        """What the application gets."""
        p = np.frombuffer(record.p)
        return Ticket(
            record.id,
            self.arms[record.arm],
            float(p[record.arm if record.status == "open" else 0]),
            record.event or None,
            self.arms[record.would] if record.would >= 0 else None,
        )

    def _losses(self, record: TicketRecord, loss: Any) -> Vector:
        """The losses of an observation, checked: one, or one for each arm."""
        if self.algorithm.feedback == "full":
            return losses_of_all(loss, self.arms, record.absent)
        return np.array([checked_loss(loss, self.arms[record.arm])])

    def _check_again(self, ticket: str, loss: Any) -> None:
        """An observation of a ticket that is not open: in order only if it is the same again."""
        record = self.book.closed_ticket(ticket)
        if record.status == "expired":
            raise _expired(ticket)
        losses = self._losses(record, loss)
        if not record.feedback:  # it was not kept: whatever comes is taken for the same
            return
        before = np.frombuffer(record.feedback).tolist()
        # A reward of 0.8 and a loss of 0.2 are the same, and so is a number of fewer digits.
        if not np.allclose(losses, before, rtol=0, atol=SAME):
            raise ConflictingObservationError(
                f"ticket {ticket!r} was observed before, with loss "
                f"{before[0] if len(before) == 1 else before}, and not {loss!r}; the first counts"
            )

    def _learn(self, record: TicketRecord, feedback: Vector, status: Status) -> None:
        """One `update`, with the p and the round of the ticket."""
        self._hear()
        full = self.algorithm.feedback == "full"
        p = np.frombuffer(record.p)

        def after(received: Values) -> Any:
            """Return the state after this round, had these values been received."""
            state = self.algorithm.update(
                self._state,
                received,
                np.int64(record.arm),
                feedback if full else feedback[0],
                p,
                np.int64(record.round),
            )
            if not record.absent:
                return state
            absent = np.zeros(len(self.arms), bool)
            absent[list(record.absent)] = True
            loss = p @ feedback if full else feedback[0]
            return self.algorithm.charge_absent(state, absent, loss)

        state = after(self.ledger.values)
        sent = self.algorithm.message(state)
        if self.gossips:
            # Next to huge estimates of a neighbour, floats cannot resolve a loss. So the agent's
            # own part is computed without them: `check_suitable` has shown that it does not
            # depend on them.
            nothing = {name: np.zeros(size) for name, size in self.form.averages.items()}
            alone = after(self.ledger.values | nothing)
            self.ledger.add(self.algorithm.message(alone), sent)
        else:
            self.ledger.put(sent)
        self._state = state
        self._learnt = True
        self._close(record, b"" if self._responses else feedback.tobytes(), status)

    def _hear(self) -> None:
        """Let the algorithm know what has come from neighbours since."""
        if self._heard is not self.ledger.values:
            self._heard = self.ledger.values
            self._state = self.algorithm.hear(self._state, self._heard)

    def _close(self, record: TicketRecord, feedback: bytes, status: Status) -> None:
        self.book.close(record, feedback, status, self.observed + self.expired)
        self._learnt = True

    def _restore(self, saved: Saved) -> None:
        edges = {
            neighbour: fresh_edge(
                self.form, 0.0, owns(self.name, neighbour), kept.incarnation
            )._replace(other=kept.other, sequence=kept.sequence, flow=_vectors(kept.flow))
            for neighbour, kept in saved.edges.items()
        }
        if saved.state is None:
            self.ledger.restore(self.ledger.inputs, self.ledger.maxima, edges)
            return
        state = saved.state
        self.rounds, self.observed, self.expired = state.rounds, state.observed, state.expired
        fields = {
            name: np.frombuffer(field.content, field.dtype).reshape(field.shape)
            for name, field in state.fields.items()
        }
        self._state = self._state._replace(**fields)
        self.ledger.restore(_vectors(state.inputs), _vectors(state.maxima), edges)

    def _state_record(self) -> StateRecord:
        arrays = map(np.asarray, self._state)
        fields = {
            name: ArrayRecord(array.dtype.str, array.shape, array.tobytes())
            for name, array in zip(self._state._fields, arrays, strict=True)
        }
        inputs, maxima = packed(self.ledger.inputs), packed(self.ledger.maxima)
        return StateRecord(
            self.rounds, self.observed, self.expired, fields, inputs, maxima, self.losses.record()
        )


def message_format(algorithm: AnyAlgorithm, state: Any, arms: tuple[str, ...]) -> Format:
    """What messages look like where this algorithm is played on these arms."""
    sent = algorithm.message(state)
    sizes: dict[str, dict[str, int]] = {"average": {}, "maximum": {}}
    for name, leaf in algorithm.leaves.items():
        sizes[leaf.combine][name] = len(sent[name])
    averages, maxima = sizes["average"], sizes["maximum"]
    game = game_hash(type(algorithm).__name__, averages | maxima, arms)
    return Format(game, averages, maxima)


def _expired(ticket: str) -> ExpiredTicketError:
    return ExpiredTicketError(
        f"ticket {ticket!r} has expired: its loss arrived too late and is not counted"
    )


def _edge_record(edge: Edge) -> EdgeRecord:
    return EdgeRecord(edge.incarnation, edge.other, edge.sequence, packed(edge.flow))


def _vectors(content: Mapping[str, bytes]) -> dict[str, Vector]:
    return {name: np.frombuffer(value, "<f8") for name, value in content.items()}


def _encoded(messages: Sequence[tuple[str, Message]]) -> list[tuple[str, bytes]]:
    return [(to, encode(message)) for to, message in messages]
