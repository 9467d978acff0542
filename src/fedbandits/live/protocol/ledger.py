"""Averages over neighbours that lose, delay, repeat and reorder: one ledger per edge, one owner.

For every average leaf an agent v holds I_v, the sum of all it ever put in itself, and for each
neighbour u one flow f_vu, what has flowed out to u on balance. Its value is z_v = I_v - Σ_u f_vu,
and f_vu = -f_uv when nothing is under way, so Σ_v z_v = Σ_v I_v whatever is lost.

Of each edge one end is the owner. The other reports its z to it; the owner moves the flow by
w (z_owner - z_other) if the report says that its latest flow was applied, and answers with the flow
as it is. So one exchange is under way on an edge, and nothing is counted twice. An edge on which
everyone exchanges once with the values of the round's start is the product with W.

The incarnation of an edge is a number of either end, kept with the flow. An end that comes back
without its disk, leaves, or is taken out and put back has a newer one; both ends start anew (flow
0, sequence 0) when they see it. What had flowed to the one that is gone is thereby back.

Where the algorithm forgets, I_v also has taken from it what v has forgotten of what flowed to it:
undone, a flow of years would bury the estimates of today. There an edge that starts anew leaves z
as it is: each end takes its flow into I, and what came from who is gone is forgotten like all else.

No clock, no socket, no thread: messages in, messages out.

Reference:
    Jesus, Baquero and Almeida, Fault-tolerant aggregation by flow updating, 2009; Gansterer,
    Niederbrucker, Straková and Schulze Grotthoff, Scalable and fault tolerant orthogonalization
    based on randomized distributed data aggregation, 2013.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from .messages import (
    CLOSE,
    LARGEST,
    VERSION,
    Flow,
    Format,
    Message,
    RefusedError,
    Report,
    Terms,
    Values,
    Vector,
    packed,
)

AHEAD_YEARS = 100
AHEAD = AHEAD_YEARS * 365 * 86_400 * 1000 << 19
"""The most that a neighbour's clock may be ahead, in years and in incarnations. `Agent` builds an
incarnation from milliseconds and 19 random bits. A clock that was reset shows 1970; then all other
clocks are ahead of it."""

NEWEST = 2**62
"""The default bound on incarnations, for ledgers without a clock."""


def owns(name: str, neighbour: str) -> bool:
    """Whether the first of two neighbours owns their edge: a coin that both compute.

    Example:
        >>> owns("shop1", "shop2") != owns("shop2", "shop1")
        True
    """
    first, second = sorted((name, neighbour))
    even = zlib.crc32(f"{first}\\n{second}".encode()) % 2 == 0
    return name == (first if even else second)


class Edge(NamedTuple):
    """One end's half of an edge.

    Attributes:
        weight: w = W_uv.
        owner: whether this end moves the flow.
        incarnation: of this end.
        other: of the neighbour's end; 0 if it was never heard of.
        sequence: of the flow, as moved or as applied last.
        flow: f_vu, by average leaf.
        heard: the neighbour's values when it last sent any; None before.
        left: whether the neighbour has said that it leaves.
    """

    weight: float
    owner: bool
    incarnation: int
    other: int
    sequence: int
    flow: Values
    heard: Values | None = None
    left: bool = False


class Ledger:
    """What one agent has put in and exchanged.

    Args:
        name: of the agent.
        form: what messages look like.
        limit: the most that a difference of values counts in an exchange. It bounds what a
            neighbour that lies can move, by w · limit an exchange, and keeps the mean.
        kept: the share of each entry that a round of the algorithm leaves, by average leaf; 1 where
            nothing is said.
        reach: the largest estimate of an honest agent. Larger estimates are clipped to it.
        newest: returns a bound on incarnations, which grows with the clock. A message that claims a
            later one is rejected, so that no claim can block the edge for ever.
    """

    def __init__(
        self,
        name: str,
        form: Format,
        limit: float = math.inf,
        kept: Mapping[str, Vector] | None = None,
        reach: float = LARGEST,
        newest: Callable[[], int] = lambda: NEWEST,
    ) -> None:
        self.name = name
        self.form = form
        self.limit = limit
        self.reach = reach
        self._newest = newest
        self._forgotten = {leaf: 1 - x for leaf, x in (kept or {}).items() if (x < 1).any()}
        self.inputs: dict[str, Vector] = {k: np.zeros(n) for k, n in form.averages.items()}
        self.maxima: dict[str, Vector] = {
            k: np.zeros(n) for k, n in form.values.items() if k not in form.averages
        }
        self.edges: dict[str, Edge] = {}
        self.changed: set[str] = set()
        """Neighbours whose edges are not as the journal has them; whoever saves empties it."""
        self.took_in = False
        """Whether a flow became an input since the journal had the inputs; as above."""
        self.values: dict[str, Vector] = {}
        """z, and the maxima; another object whenever they change."""
        self.untold: set[str] = set()
        """Neighbours who may not know yet that the agent leaves."""
        self.stale: Counter[str] = Counter()
        """Messages of each neighbour that were repeated or late, and did nothing."""
        self._leaving = False
        self._held: dict[str, Vector] | None = None
        self._settle()

    def connect(self, neighbour: str, weight: float, incarnation: int) -> None:
        """Add a neighbour, or change the weight of its edge.

        An edge that no neighbour would accept starts again: its flow is too large for a message, or
        an incarnation is one that no clock gives. Journals of earlier versions may hold such edges.
        """
        if neighbour in self.edges:
            edge = self.edges[neighbour] = self.edges[neighbour]._replace(weight=weight)
            newest = self._newest()
            if max(edge.incarnation, edge.other) > newest:  # a lie that was believed
                self._take_in(edge)
                self._put(neighbour, fresh_edge(self.form, weight, edge.owner, incarnation))
            elif any(not (np.abs(flow) <= LARGEST).all() for flow in edge.flow.values()):
                self._restart(neighbour, max(incarnation, edge.incarnation + 1))
        else:
            self._put(
                neighbour, fresh_edge(self.form, weight, owns(self.name, neighbour), incarnation)
            )
            self.edges = _in_order(self.edges)

    def restore(self, inputs: Values, maxima: Values, edges: Mapping[str, Edge]) -> None:
        """What a journal has kept; `connect` gives the edges their weights."""
        self.inputs = dict(inputs)
        self.maxima = dict(maxima)
        self.edges = _in_order(edges)
        self._settle()

    def disconnect(self, neighbour: str) -> None:
        """A neighbour is taken out: what had flowed to it is back, where nothing is forgotten."""
        self._take_in(self.edges.pop(neighbour))
        self.changed.add(neighbour)
        self._settle()

    def put(self, values: Values) -> None:
        """Make the agent's values these: what averages exceed theirs by is its own input."""
        for name, before in self.inputs.items():
            self.inputs[name] = before + (values[name] - self.values[name])
        for name, before in self.maxima.items():
            self.maxima[name] = np.maximum(before, values[name])
        self._settle()

    def add(self, own: Values, values: Values) -> None:
        """Add the contribution of a round.

        Args:
            own: what the agent added to each average, whatever it had received.
            values: the agent's values now, for the maxima.
        """
        for name, before in self.inputs.items():
            self.inputs[name] = before + own[name]
        for name, share in self._forgotten.items():
            self.inputs[name] = self.inputs[name] - share * self.values[name]
        for name, most in self.maxima.items():
            self.maxima[name] = np.maximum(most, values[name])
        self._settle()

    def hold(self) -> None:
        """Exchange the values of this moment until `release`, as a round in common does."""
        self._held = dict(self.values)

    def release(self) -> None:
        """Exchange the values of the moment again."""
        self._held = None

    def shown(self) -> Values:
        """Return the values that neighbours see: the present ones, or the values held."""
        return self.values if self._held is None else self._held

    def leave(self, incarnations: Mapping[str, int]) -> None:
        """Start every edge anew with a newer incarnation, and exchange nothing any more."""
        self.untold = set(self.edges)
        self._leaving = True
        for neighbour, incarnation in incarnations.items():
            self._restart(neighbour, max(incarnation, self.edges[neighbour].incarnation + 1))

    def goodbyes(self) -> list[tuple[str, Message]]:
        """What is sent to those who have not shown that they know."""
        return [(neighbour, self.state(neighbour)) for neighbour in sorted(self.untold)]

    def reports(self) -> list[tuple[str, Message]]:
        """What is sent every gossip period: a report to the owner of each edge."""
        if self._leaving:
            return []
        return [(u, self.state(u)) for u, edge in self.edges.items() if not edge.owner]

    def receive(self, sender: str, message: Message, *, exchange: bool = True) -> Message | None:
        """Take in a message from a neighbour; the answer to it, if there is one.

        Args:
            sender: who sent it, proven.
            message: what it says.
            exchange: whether the flow may move now. If not, a report is only answered, and a flow
                is left for later: the owner sends it again until a report says it was applied.

        Raises:
            RefusedError: if nothing of it was believed.
        """
        edge = self.edges.get(sender)
        if edge is None:
            raise RefusedError(f"{sender!r} is no neighbour of {self.name!r}", "stranger")
        if isinstance(message, Report) != edge.owner:
            raise RefusedError(
                f"a {type(message).__name__.lower()} over an edge that runs the other way"
            )
        # A goodbye undoes what has flowed, whatever the edge's weight.
        if not (message.leaving or self._leaving):
            self._check_terms(sender, message.terms)
        self._check_incarnations(edge, message)
        values = self.form.values_of(message)
        flow = self.form.flow_of(message) if isinstance(message, Flow) else {}
        same = self._same_ledger(sender, message)
        if self._leaving:
            self.untold -= {sender} if same else set()
            return None
        edge = self.edges[sender]
        if same and self._contradicts(edge, message, flow):
            # One end has an older disk than it had, or other settings, or lies.
            self._restart(sender, edge.incarnation + 1)
            raise RefusedError(
                f"flow {message.sequence} of {sender!r} cannot follow on flow {edge.sequence}; "
                "both ends start this edge anew",
                "ledger",
            )
        if not same:
            return self.state(sender) if edge.owner else None
        if message.sequence < edge.sequence - edge.owner:
            # Of what the owner moved the other end may not have the last, and never less.
            self.stale[sender] += 1
            return self.state(sender) if edge.owner else None
        # What was heard is not kept on disk: it changes nothing but the disagreement.
        edge = self.edges[sender] = edge._replace(heard=values, left=message.leaving)
        self._take_maxima(values)
        if isinstance(message, Flow):
            if exchange and message.sequence > edge.sequence:
                self._apply(sender, edge, message.sequence, flow)
            # Who leaves waits to see that this is known.
            return self.state(sender) if message.leaving else None
        if exchange and message.sequence == edge.sequence and not message.leaving:
            self._exchange(sender, edge, values)
        return self.state(sender)

    def _check_terms(self, sender: str, theirs: Terms) -> None:
        """Refuse who has another file; flows stay, and go on once both have the same."""
        ours = self._terms(sender)
        if not ours.agree(theirs):
            named = [
                f"{name} {_number(theirs_)} there and {_number(ours_)} here"
                for name, theirs_, ours_ in zip(ours._fields, theirs, ours, strict=True)
                if theirs_ != ours_
            ]
            raise RefusedError(
                f"{sender} has another file of the federation: {', '.join(named)}; give both the "
                "same file, and restart the agent that had the older",
                "file",
            )

    def _check_incarnations(self, edge: Edge, message: Message) -> None:
        """Reject incarnations beyond every plausible clock; honest ends could never exceed them."""
        claims = ((message.incarnation, edge.other), (message.other, edge.incarnation))
        for claimed, known in claims:
            if claimed > known and claimed > self._newest():
                raise RefusedError(
                    f"incarnation {claimed} is more than {AHEAD_YEARS} years ahead of the clock "
                    "here; check the clocks of both machines",
                    "ledger",
                )

    def _terms(self, neighbour: str) -> Terms:
        return Terms(self.edges[neighbour].weight, self.limit)

    def _same_ledger(self, sender: str, message: Message) -> bool:
        """Whether both ends mean the same ledger, after an end that lags behind has caught up."""
        edge = self.edges[sender]
        if message.incarnation < edge.other:
            self.stale[sender] += 1  # from before the neighbour started anew
            return False
        if message.other > edge.incarnation:
            # This end was here before, under a higher number: its disk and its clock are lost.
            self._restart(sender, message.other + 1)
            return False
        if message.incarnation > edge.other:
            fresh = fresh_edge(self.form, edge.weight, edge.owner, edge.incarnation)
            self._take_in(edge)
            self._put(sender, fresh._replace(other=message.incarnation))
        # A neighbour that never heard of this end has a flow of 0 and no sequence.
        if message.other in (0, self.edges[sender].incarnation):
            return True
        self.stale[sender] += 1  # from before this end started anew
        return False

    def _exchange(self, sender: str, edge: Edge, values: Values) -> None:
        """The owner moves the flow: f ← f + w (z_owner - z_other)."""
        ours = self.shown()
        moved = {}
        for name in self.form.averages:
            here, there = (np.clip(z[name], -self.reach, self.reach) for z in (ours, values))
            difference = np.clip(here - there, -self.limit, self.limit)
            flow = edge.flow[name] + edge.weight * difference
            # A flow at the bound moves no further away from 0; the neighbour takes all up to it.
            moved[name] = np.clip(flow, -LARGEST, LARGEST)
        self._put(sender, edge._replace(flow=moved, sequence=edge.sequence + 1))

    def _contradicts(self, edge: Edge, message: Message, flow: Values) -> bool:
        """Whether a message cannot be from the other end of this ledger.

        An end reports no flow that the owner has not moved yet. Where differences are clipped, one
        exchange, and no more than one is ever under way, moves at most the weight of the limit;
        beside it there is the rounding of large sums.
        """
        ahead = message.sequence - edge.sequence
        if isinstance(message, Report):
            return ahead > 0
        if self.limit == math.inf or ahead <= 0:
            return False
        most = edge.weight * self.limit * (1 + CLOSE)
        return ahead > 1 or any(
            (np.abs(value + edge.flow[name]) > most + 4 * np.spacing(np.abs(value))).any()
            for name, value in flow.items()
        )

    def _apply(self, sender: str, edge: Edge, sequence: int, flow: Values) -> None:
        """The other end takes the owner's flow: f ← -f."""
        self._put(sender, edge._replace(flow={k: -v for k, v in flow.items()}, sequence=sequence))

    def _take_maxima(self, values: Values) -> None:
        """Not marked as a change: a maximum that a crash forgets is heard again."""
        if self.maxima:
            self.maxima = {k: np.maximum(before, values[k]) for k, before in self.maxima.items()}
            self.values = self.values | self.maxima

    def _restart(self, neighbour: str, incarnation: int) -> None:
        edge = self.edges[neighbour]
        fresh = fresh_edge(self.form, edge.weight, edge.owner, incarnation)
        self._take_in(edge)
        self._put(neighbour, fresh._replace(other=edge.other))

    def _take_in(self, edge: Edge) -> None:
        """Keep z without the flow of an edge that ends, where the algorithm forgets."""
        for name, share in self._forgotten.items():
            self.inputs[name] = self.inputs[name] - np.where(share > 0, edge.flow[name], 0.0)
            self.took_in = True

    def _put(self, neighbour: str, edge: Edge) -> None:
        self.edges[neighbour] = edge
        self.changed.add(neighbour)
        self._settle()

    def _settle(self) -> None:
        """Sum z = I - Σ f anew: no error adds up from exchange to exchange."""
        values = {}
        for name, put_in in self.inputs.items():
            z = put_in
            for edge in self.edges.values():
                z = z - edge.flow[name]
            values[name] = z
        self.values = values | self.maxima

    def state(self, neighbour: str) -> Message:
        """What is sent to a neighbour now: the flow as it is from the owner, a report to it."""
        edge = self.edges[neighbour]
        ours = packed({k: np.clip(value, -LARGEST, LARGEST) for k, value in self.shown().items()})
        terms = self._terms(neighbour)
        numbers = (VERSION, self.form.game, edge.incarnation, edge.other, edge.sequence, terms)
        if edge.owner:
            return Flow(*numbers, packed(edge.flow), ours, self._leaving)
        return Report(*numbers, ours, self._leaving)


def _number(value: float) -> str:
    return "none" if value == math.inf else f"{value:.6g}"


def _in_order(edges: Mapping[str, Edge]) -> dict[str, Edge]:
    """By name: flows are summed in the same order, to the last digit, also after a restart."""
    return {name: edges[name] for name in sorted(edges)}


def fresh_edge(form: Format, weight: float, owner: bool, incarnation: int) -> Edge:
    """An edge over which nothing has flowed."""
    flow = {name: np.zeros(size) for name, size in form.averages.items()}
    return Edge(weight, owner, incarnation, 0, 0, flow)
