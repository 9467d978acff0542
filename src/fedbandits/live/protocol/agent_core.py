"""An agent without disk, clock, network or thread: what it learns, chooses and sends.

The caller writes `changes()` to disk before it returns a ticket, acknowledges an observation or
sends a message that came after them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.arrays import sample
from fedbandits.common.checks import did_you_mean

from .learner import Learner
from .ledger import AHEAD
from .loss_sums import LossSums
from .messages import Message, Vector, encode
from .noisy_bits import NoisyBits
from .observations import (
    ConflictingObservationError,
    ExpiredTicketError,
    ObservationError,
    losses_of_all,
)
from .records import Changes, SavedAgent, StateRecord, TicketRecord, TicketStatus
from .tickets import (
    EVENT_LENGTH,
    ChoiceError,
    ConflictingChoiceError,
    OpenTicket,
    Ticket,
    TicketBook,
    keyed_uniform,
)

if TYPE_CHECKING:
    from fedbandits.live.federation.federation import Part

LOSS_TOLERANCE = 1e-6
"""The difference up to which two losses count as the same observation."""

EXPIRY_BATCH = 200
"""Number of tickets that may expire in one commit. More would block the event loop too long."""


class AgentCore:
    """One agent of a federation, without I/O.

    Args:
        part: the agent's part of the federation.
        saved: the content of the journal.
        new_incarnation: returns a number for an edge that starts, larger than all before if
            possible.
        uniforms: returns the number in [0, 1) that draws the arm of round t; by default a keyed
            hash of t.
        now: seconds since 1970; no ticket of the journal is younger.
        id_prefix: the beginning of ticket ids; by default the journal's life.
        noisy_bits: the bits to learn from; None to learn from losses.
    """

    def __init__(
        self,
        part: Part,
        saved: SavedAgent,
        new_incarnation: Callable[[], int],
        *,
        uniforms: Callable[[int], float] | None = None,
        now: float = math.inf,
        id_prefix: str | None = None,
        noisy_bits: NoisyBits | None = None,
    ) -> None:
        self.name = part.name
        self.arms = part.arms
        self.learner = Learner(part, lambda: new_incarnation() + AHEAD)
        self.ledger = self.learner.ledger
        self.book = TicketBook(part.name, saved.tickets, now)
        self.losses = LossSums(len(part.arms), saved.state.losses if saved.state else None)
        self.rounds = self.observed = self.expired = 0
        if saved.state is not None:
            self.rounds, self.observed = saved.state.rounds, saved.state.observed
            self.expired = saved.state.expired
        self._noisy_bits = noisy_bits
        self._id_prefix = saved.life if id_prefix is None else id_prefix
        self._arm_numbers = {arm: i for i, arm in enumerate(part.arms)}
        self._uniform = uniforms or (lambda t: keyed_uniform(saved.seed, t))
        self._new_incarnation = new_incarnation
        self._gossips = False
        self._unanswered: set[str] = set()
        self._state_changed = False
        self._may_expire = EXPIRY_BATCH
        self.learner.restore(saved)
        self.adopt(part)

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
            event: the application's name for the choice. A repeated one returns the same ticket,
                while that is open and for the next `REMEMBERED` that are closed.
            baseline: the arm to play instead of the drawn one, which the ticket also names. For an
                algorithm that learns from the arm played, all other arms are then absent.
        """
        absent = self._absent(allowed)
        played = None if baseline is None else self._baseline_number(baseline, absent)
        self.expire(now)
        if event is not None:
            if not 1 <= len(event) <= EVENT_LENGTH:
                raise ChoiceError(f"an event has 1 to {EVENT_LENGTH} letters, not {len(event)}")
            if event in self.book.events:
                return self._repeated(event, absent, played)
        t = self.rounds + 1
        p = self.distribution(t)
        if absent:
            present = np.ones(len(self.arms))
            present[list(absent)] = 0.0
            p = p * present if (p * present).any() else present  # all shares may be zero
            p = p / p.sum()
        arm = int(sample(p, np.float64(self._uniform(t))))
        self.rounds = t
        would = -1
        if played is not None:
            would, arm, absent = arm, played, self._absent_with_baseline(played, absent)
            p = np.zeros(len(self.arms))
            p[arm] = 1.0
        record = TicketRecord(
            f"{self._id_prefix}-{t}",
            t,
            arm,
            p.tobytes(),
            now,
            absent=tuple(absent),
            event=event or "",
            would=would,
        )
        self.book.add(record)
        self._state_changed = True
        return self._ticket(record)

    def observe(self, ticket: str, loss: Any, now: float, *, reward: bool = False) -> None:
        """Learn from the loss of a choice. The same observation again has no effect.

        Args:
            ticket: the id of the ticket.
            loss: the loss of the arm played, in [0, 1]. With full information the losses of all
                arms, by name or in order; of the arms allowed then, by name.
            now: seconds since 1970.
            reward: whether the application observed a reward.
        """
        self.expire(now)
        record = self.book.open.get(ticket)
        if record is None:
            self._check_repeated(ticket, loss)
            return
        if self.expiry.over(record, now):  # a later batch closes it
            raise _expired(ticket)
        losses = self._losses(record, loss)
        if self._noisy_bits is not None:  # the loss itself is not used or saved
            losses = np.array([self._noisy_bits.bit(losses.item())])
        self.observed += 1
        by_arm = {record.arm: losses[0]}
        if self.learner.full_information:
            by_arm = {i: loss for i, loss in enumerate(losses) if i not in record.absent}
        self.losses.add(record.arm, by_arm, now, reward=reward)
        self._learn(record, losses, "observed")

    def expire(self, now: float) -> bool:
        """Close at most `EXPIRY_BATCH` expired tickets, the oldest first.

        Returns:
            Whether more tickets have expired.
        """
        if self.expiry.after is None:
            return False
        first = itertools.islice(self.book.open.values(), self._may_expire)
        for record in list(itertools.takewhile(lambda each: self.expiry.over(each, now), first)):
            self._may_expire -= 1
            self.expired += 1
            charged = self.expiry.loss  # a setting of the federation, so not secret
            if charged is None:
                self._close(record, b"", "expired")
                continue
            if self._noisy_bits is not None:
                charged = self._noisy_bits.expected(charged)
            size = len(self.arms) if self.learner.full_information else 1
            self._learn(record, np.full(size, charged), "expired")
        oldest = next(iter(self.book.open.values()), None)
        return oldest is not None and self.expiry.over(oldest, now)

    def distribution(self, t: int | None = None) -> Vector:
        """Return the distribution of round t, by default of the next choice, `[K]`."""
        return self.learner.distribution(self.rounds + 1 if t is None else t)

    @property
    def recommended(self) -> str:
        """The arm with the largest probability."""
        return self.arms[int(self.distribution().argmax())]

    @property
    def open_tickets(self) -> int:
        """Number of choices that wait for their loss."""
        return len(self.book.open)

    def tickets(self, now: float) -> list[OpenTicket]:
        """Return the choices that wait for their loss, the oldest first."""
        return [OpenTicket.of(record, self.arms, now) for record in self.book.open.values()]

    @property
    def gossips(self) -> bool:
        """False in first rounds that overwrite received values, while no average may move."""
        if not self._gossips:
            first = self.learner.algorithm.rounds_before_gossip(len(self.arms))
            waiting = any(record.round <= first for record in self.book.open.values())
            self._gossips = self.rounds >= first and not waiting
        return self._gossips

    def reports(self) -> list[tuple[str, bytes]]:
        """Return the messages of a gossip period."""
        if not self.ledger.form.values or not self.gossips:
            return []
        reports = self.ledger.reports()
        self._unanswered = {neighbour for neighbour, _ in reports}
        return _encoded(reports)

    def repeats(self) -> list[tuple[str, bytes]]:
        """Return new reports to the neighbours that have not answered the last ones."""
        if not self._unanswered:
            return []
        return _encoded([each for each in self.ledger.reports() if each[0] in self._unanswered])

    def receive(
        self, sender: str, payload: bytes, *, exchange: bool = True
    ) -> list[tuple[str, bytes]]:
        """Process a message and return the answers; see `AgentLedger.receive`.

        Raises:
            RejectedMessageError: if the message is rejected.
        """
        message = self.ledger.form.decode(payload)
        if not self.gossips:
            return []
        answer = self.ledger.receive(sender, message, exchange=exchange)
        self._unanswered.discard(sender)
        return [] if answer is None else [(sender, encode(answer))]

    def own_terms(self, neighbour: str) -> list[tuple[str, bytes]]:
        """Return the answer to a report with other terms, which shows the neighbour our terms."""
        if not self.ledger.edges[neighbour].owner:
            return []
        return _encoded([(neighbour, self.ledger.message_to(neighbour))])

    def leave(self) -> None:
        """Return all flow between this agent and its neighbours, and stop exchanging."""
        self.ledger.leave({neighbour: self._new_incarnation() for neighbour in self.ledger.edges})

    def goodbyes(self) -> list[tuple[str, bytes]]:
        """Return the messages to neighbours that have not confirmed that this agent leaves."""
        return _encoded(self.ledger.goodbyes())

    def adopt(self, part: Part) -> None:
        """Continue with the neighbours, weights and settings of a changed federation.

        The algorithm is the same, but may be set up for another network.
        """
        self.expiry = part.expiry
        self.learner.adopt(part)
        for former in self.ledger.edges.keys() - part.neighbours.keys():
            self.ledger.disconnect(former)
        for neighbour, weight in part.neighbours.items():
            self.ledger.connect(neighbour, weight, self._new_incarnation())

    def changes(self) -> Changes:
        """Return the changes since the last call."""
        state = self.state_record() if self._state_changed or self.ledger.inputs_changed else None
        edges = {
            neighbour: edge.record() if (edge := self.ledger.edges.get(neighbour)) else None
            for neighbour in self.ledger.changed_edges
        }
        self._state_changed = self.ledger.inputs_changed = False
        self._may_expire = EXPIRY_BATCH
        self.ledger.changed_edges = set()
        return Changes(state, edges, *self.book.changes())

    def state_record(self) -> StateRecord:
        """Return the record of the current state."""
        counts = self.rounds, self.observed, self.expired
        return StateRecord(*counts, *self.learner.records(), self.losses.record())

    def _absent(self, allowed: Iterable[str] | None) -> tuple[int, ...]:
        """Return the numbers of the arms that cannot be played now."""
        if allowed is None:
            return ()
        if isinstance(allowed, str):
            raise TypeError(f"allowed is a list of arms, as in allowed=[{allowed!r}]")
        allowed = set(allowed)
        for arm in allowed:
            if arm not in self._arm_numbers:
                meant = did_you_mean(arm, self.arms)
                raise ChoiceError(f"no arm {arm!r}{meant} The arms are {', '.join(self.arms)}")
        if not allowed:
            raise ChoiceError("allowed names no arm; leave it out to allow all")
        absent = tuple(i for arm, i in self._arm_numbers.items() if arm not in allowed)
        if absent and not self.learner.algorithm.sleeps:
            raise ChoiceError(
                f"{type(self.learner.algorithm).__name__} plays all arms or none: it does not "
                "define the loss of an absent arm. Exp3, FedExp3 and FedHedge do"
            )
        return absent

    def _baseline_number(self, baseline: str, absent: tuple[int, ...]) -> int:
        """Return the number of the baseline; reject one that is not allowed."""
        self._absent([baseline])  # reject unknown arms, and algorithms without absent arms
        played = self._arm_numbers[baseline]
        if played in absent:
            raise ChoiceError(
                f"the baseline {baseline!r} is played in every round, but is not allowed in this "
                "one: allow it, or choose without a baseline"
            )
        return played

    def _absent_with_baseline(self, played: int, absent: tuple[int, ...]) -> tuple[int, ...]:
        """Return the absent arms of a round in which one arm is played for certain.

        Its loss says nothing about the other arms. Charged the same loss, as absent arms are, they
        keep their shares; with a loss of 0 they would improve in every round. With full
        information, all allowed arms are learned from.
        """
        if self.learner.full_information:
            return absent
        return tuple(i for i in range(len(self.arms)) if i != played)

    def _repeated(self, event: str, absent: tuple[int, ...], played: int | None) -> Ticket:
        """Return the ticket of an earlier choice for the same event."""
        ticket = self.book.events[event]
        record = self.book.open.get(ticket) or self.book.closed[ticket]
        if played is not None:
            absent = self._absent_with_baseline(played, absent)
        if (record.absent, record.would >= 0) != (absent, played is not None):
            raise ConflictingChoiceError(
                f"event {event!r} was chosen for before, among other arms (ticket {ticket!r}, arm "
                f"{self.arms[record.arm]!r}); take another name for another choice"
            )
        return self._ticket(record)

    def _ticket(self, record: TicketRecord) -> Ticket:
        p = np.frombuffer(record.p)
        return Ticket(
            record.id,
            self.arms[record.arm],
            float(p[record.arm if record.status == "open" else 0]),
            record.event or None,
            self.arms[record.would] if record.would >= 0 else None,
        )

    def _losses(self, record: TicketRecord, loss: Any) -> Vector:
        """Return the losses of an observation: one, or one for each arm."""
        if self.learner.full_information:
            return losses_of_all(loss, self.arms, record.absent)
        if isinstance(loss, Mapping) or np.ndim(loss):
            raise ObservationError(
                "this algorithm learns from the loss of the arm played: give one number, not "
                f"{loss!r}"
            )
        return np.array([float(loss)])

    def _check_repeated(self, ticket: str, loss: Any) -> None:
        """Reject an observation of a closed ticket unless it repeats the first one."""
        record = self.book.closed_ticket(ticket)
        if record.status == "expired":
            raise _expired(ticket)
        losses = self._losses(record, loss)
        if not record.feedback:  # with noisy bits nothing is known about the first loss
            return
        before = np.frombuffer(record.feedback).tolist()
        # A reward of 0.8 and a loss of 0.2 are the same up to rounding.
        if not np.allclose(losses, before, rtol=0, atol=LOSS_TOLERANCE):
            raise ConflictingObservationError(
                f"ticket {ticket!r} was observed before, with loss "
                f"{before[0] if len(before) == 1 else before}, and not {loss!r}; the first counts"
            )

    def _learn(self, record: TicketRecord, feedback: Vector, status: TicketStatus) -> None:
        self.learner.learn(record, feedback, gossips=self.gossips)
        self._close(record, b"" if self._noisy_bits else feedback.tobytes(), status)

    def _close(self, record: TicketRecord, feedback: bytes, status: TicketStatus) -> None:
        self.book.close(record, feedback, status, self.observed + self.expired)
        self._state_changed = True


def _expired(ticket: str) -> ExpiredTicketError:
    return ExpiredTicketError(
        f"ticket {ticket!r} has expired: its loss arrived too late and is not counted"
    )


def _encoded(messages: Sequence[tuple[str, Message]]) -> list[tuple[str, bytes]]:
    return [(to, encode(message)) for to, message in messages]
