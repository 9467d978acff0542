"""The average over all agents, kept with neighbours although links lose and repeat messages.

For every average leaf an agent v holds its inputs I_v, the sum of all its contributions, and for
each neighbour u a flow f_vu, the total that has flowed out to u. The value of the leaf at v is
z_v = I_v - Σ_u f_vu. Without pending messages f_vu = -f_uv, so Σ_v z_v = Σ_v I_v, even if messages
were lost.

One end of each edge is its owner. The other end reports its z to the owner. If the report shows
that the latest flow was applied, the owner moves the flow by w (z_owner - z_other). In any case it
answers with the current flow. At most one exchange is therefore pending on an edge, and nothing is
counted twice. If every edge makes one exchange of the values at the start of a round, the result is
the product with W.

Each end of an edge has an incarnation, a number stored with the flow. An end gets a larger one when
it loses its disk, leaves, or is removed and added again. Both ends then restart the edge with flow
0 and sequence 0, so that the flow to the former end is back with its neighbour.

If the algorithm forgets, v also subtracts from I_v the forgotten part of the flows. Returning a
flow of years would then overwrite recent estimates. A restart of such an edge therefore leaves z
unchanged: each end moves its flow into I, and contributions of a removed agent fade like others.

This module has no clock, socket or thread: messages in, messages out.

Reference:
    Jesus, Baquero and Almeida, Fault-tolerant aggregation by flow updating, 2009; Gansterer,
    Niederbrucker, Straková and Schulze Grotthoff, Scalable and fault tolerant orthogonalization
    based on randomized distributed data aggregation, 2013.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from .edge import EdgeState, owns
from .messages import (
    LARGEST,
    VERSION,
    EdgeTerms,
    FlowMessage,
    Message,
    MessageFormat,
    RejectedMessageError,
    ReportMessage,
    Values,
    Vector,
    packed,
)

AHEAD_YEARS = 100
AHEAD = AHEAD_YEARS * 365 * 86_400 * 1000 << 19
"""The largest accepted lead of a neighbour's clock, in years and in incarnations.

`Agent` builds an incarnation from milliseconds and 19 random bits. A reset clock shows 1970, and
all other clocks are then ahead of it.
"""

LARGEST_INCARNATION = 2**62
"""The default bound on incarnations, for ledgers without a clock."""


class AgentLedger:
    """The inputs of one agent and its edges to all neighbours.

    Args:
        name: the name of the agent.
        form: the format of the messages.
        limit: the largest difference of values that counts in an exchange. It bounds the change
            that a lying neighbour can cause in one exchange by w · limit, and preserves the mean.
        kept_shares: the share of each entry that remains after a round of the algorithm, by average
            leaf; 1 by default.
        largest_estimate: the largest estimate of an honest agent. Larger ones are clipped to it.
        largest_incarnation: returns a bound on incarnations, which grows with the clock. Messages
            with a larger one are rejected, so that no lie can block an edge forever.
    """

    def __init__(
        self,
        name: str,
        form: MessageFormat,
        limit: float = math.inf,
        kept_shares: Mapping[str, Vector] | None = None,
        largest_estimate: float = LARGEST,
        largest_incarnation: Callable[[], int] = lambda: LARGEST_INCARNATION,
    ) -> None:
        self.name = name
        self.form = form
        self.limit = limit
        self.largest_estimate = largest_estimate
        self._largest_incarnation = largest_incarnation
        self._forgotten = {k: 1 - x for k, x in (kept_shares or {}).items() if (x < 1).any()}
        self.inputs: dict[str, Vector] = {k: np.zeros(n) for k, n in form.averages.items()}
        self.maxima: dict[str, Vector] = {
            k: np.zeros(n) for k, n in form.values.items() if k not in form.averages
        }
        self.edges: dict[str, EdgeState] = {}
        self.changed_edges: set[str] = set()
        """Neighbours whose edges differ from the journal. The caller that saves clears it."""
        self.inputs_changed = False
        """True if flows became inputs since the last save. The caller that saves clears it."""
        self.values: dict[str, Vector] = {}
        """z and the maxima; a new object after every change."""
        self.unaware: set[str] = set()
        """Neighbours that have not confirmed that this agent leaves."""
        self.stale: Counter[str] = Counter()
        """Number of repeated or late messages, by neighbour."""
        self._leaving = False
        self._held_values: dict[str, Vector] | None = None
        self._update_values()

    def connect(self, neighbour: str, weight: float, incarnation: int) -> None:
        """Add a neighbour, or change the weight of its edge.

        Restart edges that the neighbour would reject. Journals of earlier versions may hold flows
        beyond the bound of messages, and incarnations beyond every clock.
        """
        if neighbour not in self.edges:
            owner = owns(self.name, neighbour)
            self._set_edge(neighbour, EdgeState.new(self.form, weight, owner, incarnation))
            self.edges = _sorted(self.edges)
            return
        edge = self.edges[neighbour] = self.edges[neighbour]._replace(weight=weight)
        if max(edge.incarnation, edge.neighbour_incarnation) > self._largest_incarnation():
            self._restart(neighbour, incarnation, 0)
        elif any(not (np.abs(flow) <= LARGEST).all() for flow in edge.flow.values()):
            self._restart(neighbour, max(incarnation, edge.incarnation + 1))

    def restore(self, inputs: Values, maxima: Values, edges: Mapping[str, EdgeState]) -> None:
        """Set the state from a journal; `connect` then sets the weights of the edges."""
        self.inputs = dict(inputs)
        self.maxima = dict(maxima)
        self.edges = _sorted(edges)
        self._update_values()

    def disconnect(self, neighbour: str) -> None:
        """Remove a neighbour and take back what flowed to it."""
        self._keep_forgetting_values(self.edges.pop(neighbour))
        self.changed_edges.add(neighbour)
        self.unaware.discard(neighbour)
        self._update_values()

    def set_values(self, values: Values) -> None:
        """Set the agent's values, and count the differences as its own inputs."""
        for name, before in self.inputs.items():
            self.inputs[name] = before + (values[name] - self.values[name])
        self._raise_maxima(values)

    def add(self, own: Values, values: Values) -> None:
        """Add the contribution of a round.

        Args:
            own: what the agent added to each average, whatever it had received.
            values: the agent's current values, for the maxima.
        """
        for name, before in self.inputs.items():
            self.inputs[name] = before + own[name]
        for name, share in self._forgotten.items():
            self.inputs[name] = self.inputs[name] - share * self.values[name]
        self._raise_maxima(values)

    def hold(self) -> None:
        """Exchange the present values until `release`, as a common round does."""
        self._held_values = dict(self.values)

    def release(self) -> None:
        """Exchange current values again."""
        self._held_values = None

    def outgoing_values(self) -> Values:
        """Return the values that neighbours receive: the present or the held ones."""
        return self.values if self._held_values is None else self._held_values

    def leave(self, incarnations: Mapping[str, int]) -> None:
        """Restart every edge with a larger incarnation, and stop all exchanges."""
        self.unaware = set(self.edges)
        self._leaving = True
        for neighbour, incarnation in incarnations.items():
            self._restart(neighbour, max(incarnation, self.edges[neighbour].incarnation + 1))

    def goodbyes(self) -> list[tuple[str, Message]]:
        """Return the messages to neighbours that have not confirmed that this agent leaves."""
        return [(neighbour, self.message_to(neighbour)) for neighbour in sorted(self.unaware)]

    @property
    def disagreement(self) -> float:
        """The largest difference between this agent's averages and those of a neighbour."""
        return max((self.distance(name) or 0.0 for name in self.edges), default=0.0)

    def distance(self, neighbour: str) -> float | None:
        """Return the difference to the values that a neighbour sent last; None without any."""
        theirs = self.edges[neighbour].neighbour_values
        if theirs is None:
            return None
        ours, leaves = self.values, self.form.averages
        return max((float(np.abs(ours[k] - theirs[k]).max()) for k in leaves), default=0)

    def reports(self) -> list[tuple[str, Message]]:
        """Return the messages of a gossip period: a report to the owner of each edge."""
        if self._leaving:
            return []
        return [(u, self.message_to(u)) for u, edge in self.edges.items() if not edge.owner]

    def message_to(self, neighbour: str) -> Message:
        """Return the current message to a neighbour: a flow from the owner, a report to it."""
        edge = self.edges[neighbour]
        values = self.outgoing_values().items()
        ours = packed({k: np.clip(value, -LARGEST, LARGEST) for k, value in values})
        numbers = (
            VERSION,
            self.form.game,
            edge.incarnation,
            edge.neighbour_incarnation,
            edge.sequence,
            EdgeTerms(edge.weight, self.limit),
        )
        if edge.owner:
            return FlowMessage(*numbers, packed(edge.flow), ours, self._leaving)
        return ReportMessage(*numbers, ours, self._leaving)

    def receive(self, sender: str, message: Message, *, exchange: bool = True) -> Message | None:
        """Process a message from a neighbour, and return the answer if there is one.

        Args:
            sender: the authenticated name of the sender.
            message: the message.
            exchange: whether the flow may move now. If not, a report is only answered, and a flow
                is not applied: the owner repeats it until a report confirms it.

        Raises:
            RejectedMessageError: if the message is rejected as a whole.
        """
        edge = self.edges.get(sender)
        if edge is None:
            raise RejectedMessageError(
                f"{sender!r} is not a neighbour of {self.name!r}", "stranger"
            )
        if isinstance(message, ReportMessage) != edge.owner:
            kind = "report" if isinstance(message, ReportMessage) else "flow"
            raise RejectedMessageError(f"a {kind} over an edge that runs the other way")
        # A goodbye returns all flow, whatever the terms of the edge.
        if not (message.leaving or self._leaving):
            self._check_terms(sender, message.terms)
        self._check_incarnations(edge, message)
        values = self.form.values_of(message)
        flow = self.form.flow_of(message) if isinstance(message, FlowMessage) else {}
        same = self._same_incarnations(sender, message)
        if self._leaving:
            self.unaware -= {sender} if same else set()
            return None
        edge = self.edges[sender]
        if same and edge.contradicts(message, flow, self.limit):
            # One end has an older disk or other settings, or it lies.
            self._restart(sender, edge.incarnation + 1)
            raise RejectedMessageError(
                f"flow {message.sequence} of {sender!r} cannot follow on flow {edge.sequence}; "
                "both ends restart this edge",
                "ledger",
            )
        if not same:
            return self.message_to(sender) if edge.owner else None
        if message.sequence < edge.sequence - edge.owner:
            # The other end may lack the last flow that the owner moved, but never more.
            self.stale[sender] += 1
            return self.message_to(sender) if edge.owner else None
        # Received values are not saved, because they change nothing but the disagreement.
        edge = self.edges[sender] = edge._replace(
            neighbour_values=values, neighbour_left=message.leaving
        )
        self._update_maxima(values)
        if isinstance(message, FlowMessage):
            if exchange and message.sequence > edge.sequence:
                negated = {name: -value for name, value in flow.items()}
                self._set_edge(sender, edge._replace(flow=negated, sequence=message.sequence))
            # A neighbour that leaves waits for this confirmation.
            return self.message_to(sender) if message.leaving else None
        if exchange and message.sequence == edge.sequence and not message.leaving:
            self._move_flow(sender, edge, values)
        return self.message_to(sender)

    def _check_terms(self, sender: str, theirs: EdgeTerms) -> None:
        """Reject neighbours with another file. Flows stay, and continue once the files agree."""
        ours = EdgeTerms(self.edges[sender].weight, self.limit)
        if not ours.agree(theirs):
            differences = [
                f"{name} {_number(their)} there and {_number(our)} here"
                for name, their, our in zip(ours._fields, theirs, ours, strict=True)
                if their != our
            ]
            raise RejectedMessageError(
                f"{sender} has another file of the federation: {', '.join(differences)}; give both "
                "the same file, and restart the agent that had the older one",
                "file",
            )

    def _check_incarnations(self, edge: EdgeState, message: Message) -> None:
        """Reject new incarnations beyond every plausible clock. Honest ends never send them."""
        claims = (
            (message.sender_incarnation, edge.neighbour_incarnation),
            (message.receiver_incarnation, edge.incarnation),
        )
        for claimed, known in claims:
            if claimed > known and claimed > self._largest_incarnation():
                raise RejectedMessageError(
                    f"incarnation {claimed} is more than {AHEAD_YEARS} years ahead of the clock "
                    "here; check the clocks of both machines",
                    "ledger",
                )

    def _same_incarnations(self, sender: str, message: Message) -> bool:
        """Return whether both ends mean the same incarnations, after updating this end."""
        edge = self.edges[sender]
        if message.sender_incarnation < edge.neighbour_incarnation:
            self.stale[sender] += 1  # sent before the neighbour restarted the edge
            return False
        if message.receiver_incarnation > edge.incarnation:
            # This end once had a larger incarnation, but its disk and its clock are lost.
            self._restart(sender, message.receiver_incarnation + 1)
            return False
        if message.sender_incarnation > edge.neighbour_incarnation:
            self._restart(sender, edge.incarnation, message.sender_incarnation)
        # A neighbour that never received a message from this end has flow 0 and sequence 0.
        if message.receiver_incarnation in (0, edge.incarnation):
            return True
        self.stale[sender] += 1  # sent before this end restarted the edge
        return False

    def _move_flow(self, sender: str, edge: EdgeState, values: Values) -> None:
        """Move the flow of an owned edge: f ← f + w (z_owner - z_other)."""
        ours = self.outgoing_values()
        moved = {}
        for name in self.form.averages:
            here, there = (
                np.clip(z[name], -self.largest_estimate, self.largest_estimate)
                for z in (ours, values)
            )
            difference = np.clip(here - there, -self.limit, self.limit)
            flow = edge.flow[name] + edge.weight * difference
            # The neighbour accepts all flows up to this bound.
            moved[name] = np.clip(flow, -LARGEST, LARGEST)
        self._set_edge(sender, edge._replace(flow=moved, sequence=edge.sequence + 1))

    def _update_maxima(self, values: Values) -> None:
        """Include received maxima. They are not saved: after a crash they are received again."""
        if self.maxima:
            self.maxima = {k: np.maximum(before, values[k]) for k, before in self.maxima.items()}
            self.values = self.values | self.maxima

    def _restart(
        self, neighbour: str, incarnation: int, neighbour_incarnation: int | None = None
    ) -> None:
        """Restart an edge with these incarnations, and take back what flowed over it."""
        edge = self.edges[neighbour]
        if neighbour_incarnation is None:
            neighbour_incarnation = edge.neighbour_incarnation
        self._keep_forgetting_values(edge)
        self._set_edge(neighbour, edge.restarted(incarnation, neighbour_incarnation))

    def _keep_forgetting_values(self, edge: EdgeState) -> None:
        """Move the flow of an ending edge into the inputs where the algorithm forgets."""
        for name, share in self._forgotten.items():
            self.inputs[name] = self.inputs[name] - np.where(share > 0, edge.flow[name], 0.0)
            self.inputs_changed = True

    def _raise_maxima(self, values: Values) -> None:
        for name, most in self.maxima.items():
            self.maxima[name] = np.maximum(most, values[name])
        self._update_values()

    def _set_edge(self, neighbour: str, edge: EdgeState) -> None:
        self.edges[neighbour] = edge
        self.changed_edges.add(neighbour)
        self._update_values()

    def _update_values(self) -> None:
        """Sum z = I - Σ f from scratch, so that rounding errors do not accumulate."""
        values = {}
        for name, own in self.inputs.items():
            z = own
            for edge in self.edges.values():
                z = z - edge.flow[name]
            values[name] = z
        self.values = values | self.maxima


def _number(value: float) -> str:
    return "none" if value == math.inf else f"{value:.6g}"


def _sorted(edges: Mapping[str, EdgeState]) -> dict[str, EdgeState]:
    """Sort edges by name, so that the last digit of a sum of flows survives a restart."""
    return {name: edges[name] for name in sorted(edges)}
