"""The learning part of an agent: its algorithm, the state, and the averages that it exchanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .edge import EdgeState, owns
from .ledger import AgentLedger
from .messages import LARGEST, MessageFormat, Values, Vector, packed, unpacked
from .records import ArrayRecord, SavedAgent, TicketRecord
from .suitability import check_suitable

if TYPE_CHECKING:
    from fedbandits.live.federation.federation import Part

MOST_ROUNDS = 2.0**40
"""The largest number of rounds of one agent: more than 3,000 a second for ten years."""


class Learner:
    """The algorithm of one agent and its state.

    Args:
        part: the agent's part of the federation.
        largest_incarnation: see `AgentLedger`.
    """

    def __init__(self, part: Part, largest_incarnation: Callable[[], int]) -> None:
        kept_shares = check_suitable(part.algorithm, len(part.arms), part.agents)
        self.algorithm = part.algorithm
        self.arms = part.arms
        self.state: Any = self.algorithm.init(len(part.arms), part.agents, dtype=np.float64)
        form = MessageFormat.of(self.algorithm, self.state, part.arms)
        self.ledger = AgentLedger(
            part.name, form, part.limit, kept_shares, largest_incarnation=largest_incarnation
        )
        self._received: Values = {}

    @property
    def full_information(self) -> bool:
        """True if the algorithm learns from the losses of all arms."""
        return self.algorithm.feedback == "full"

    def distribution(self, t: int) -> Vector:
        """Return the distribution of the choice of round t, `[K]`."""
        self._update_received()
        return np.asarray(self.algorithm.distribution(self.state, np.int64(t)), np.float64)

    def learn(self, record: TicketRecord, feedback: Vector, *, gossips: bool) -> None:
        """Update the state once, with the distribution and the round of a ticket.

        Args:
            record: the ticket.
            feedback: the loss of the arm played, or the losses of all arms.
            gossips: whether averages may move already.
        """
        self._update_received()
        state = self._updated(record, feedback, self.ledger.values)
        sent = self.algorithm.message(state)
        if gossips:
            # Floats cannot resolve a loss next to huge estimates of a neighbour. The agent's own
            # contribution is therefore computed without them: `check_suitable` has verified that
            # it does not depend on them.
            nothing = {name: np.zeros(size) for name, size in self.ledger.form.averages.items()}
            alone = self._updated(record, feedback, self.ledger.values | nothing)
            self.ledger.add(self.algorithm.message(alone), sent)
        else:
            self.ledger.set_values(sent)
        self.state = state

    def adopt(self, part: Part) -> None:
        """Continue with the same algorithm in a federation that has changed."""
        self.algorithm = part.algorithm
        largest = part.agents * self.algorithm.largest_estimate(len(self.arms), MOST_ROUNDS)
        self.ledger.largest_estimate = min(largest, LARGEST)
        self.ledger.limit = part.limit
        if hasattr(self.state, "agents"):
            fresh = self.algorithm.init(len(self.arms), part.agents, dtype=np.float64)
            self.state = self.state._replace(agents=fresh.agents)

    def restore(self, saved: SavedAgent) -> None:
        """Continue from a journal."""
        inputs, maxima = self.ledger.inputs, self.ledger.maxima
        if saved.state is not None:
            inputs, maxima = unpacked(saved.state.inputs), unpacked(saved.state.maxima)
            self.state = self.state._replace(
                **{
                    name: np.frombuffer(field.content, field.dtype).reshape(field.shape)
                    for name, field in saved.state.fields.items()
                }
            )
        edges = {
            neighbour: EdgeState.restored(record, owns(self.ledger.name, neighbour))
            for neighbour, record in saved.edges.items()
        }
        self.ledger.restore(inputs, maxima, edges)

    def records(self) -> tuple[dict[str, ArrayRecord], dict[str, bytes], dict[str, bytes]]:
        """Return the state, the inputs and the maxima for the journal."""
        arrays = map(np.asarray, self.state)
        fields = {
            name: ArrayRecord(array.dtype.str, array.shape, array.tobytes())
            for name, array in zip(self.state._fields, arrays, strict=True)
        }
        return fields, packed(self.ledger.inputs), packed(self.ledger.maxima)

    def _update_received(self) -> None:
        """Pass the latest values of the neighbours to the algorithm."""
        if self._received is not self.ledger.values:
            self._received = self.ledger.values
            self.state = self.algorithm.hear(self.state, self._received)

    def _updated(self, record: TicketRecord, feedback: Vector, received: Values) -> Any:
        """Return the state after the round of a ticket, if these values were received."""
        loss: Any = feedback if self.full_information else feedback[0]
        p = np.frombuffer(record.p)
        state = self.algorithm.update(
            self.state, received, np.int64(record.arm), loss, p, np.int64(record.round)
        )
        if not record.absent:
            return state
        absent = np.zeros(len(self.arms), bool)
        absent[list(record.absent)] = True
        incurred = p @ feedback if self.full_information else loss
        return self.algorithm.charge_absent(state, absent, incurred)
