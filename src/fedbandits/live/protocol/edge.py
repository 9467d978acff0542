"""One agent's end of an edge: its weight, its incarnations and the flow over it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .messages import (
    WEIGHT_TOLERANCE,
    Message,
    MessageFormat,
    ReportMessage,
    Values,
    packed,
    unpacked,
)
from .records import EdgeRecord


def owns(name: str, neighbour: str) -> bool:
    """Return whether the first of two neighbours owns their edge, by a hash of both names.

    Example:
        >>> owns("shop1", "shop2") != owns("shop2", "shop1")
        True
    """
    first, second = sorted((name, neighbour))
    even = zlib.crc32(f"{first}\\n{second}".encode()) % 2 == 0
    return name == (first if even else second)


class EdgeState(NamedTuple):
    """The state of one end of an edge.

    Attributes:
        weight: w = W_uv.
        owner: Whether this end moves the flow.
        incarnation: The incarnation of this end.
        neighbour_incarnation: The incarnation of the other end; 0 before its first message.
        sequence: The number of the flow that this end moved or applied last.
        flow: f_vu, by average leaf.
        neighbour_values: The last values that the neighbour sent; None before the first.
        neighbour_left: Whether the neighbour announced that it leaves.
    """

    weight: float
    owner: bool
    incarnation: int
    neighbour_incarnation: int
    sequence: int
    flow: Values
    neighbour_values: Values | None = None
    neighbour_left: bool = False

    @classmethod
    def new(cls, form: MessageFormat, weight: float, owner: bool, incarnation: int) -> EdgeState:
        """Return the state of an edge without any flow."""
        flow = {name: np.zeros(size) for name, size in form.averages.items()}
        return cls(weight, owner, incarnation, 0, 0, flow)

    @classmethod
    def restored(cls, record: EdgeRecord, owner: bool) -> EdgeState:
        """Return the state of an edge from the journal; `AgentLedger.connect` sets its weight."""
        flow = unpacked(record.flow)
        return cls(0.0, owner, record.incarnation, record.other, record.sequence, flow)

    def record(self) -> EdgeRecord:
        """Return the record for the journal."""
        flow = packed(self.flow)
        return EdgeRecord(self.incarnation, self.neighbour_incarnation, self.sequence, flow)

    def restarted(self, incarnation: int, neighbour_incarnation: int) -> EdgeState:
        """Return the state with these incarnations, without any flow."""
        flow = {name: np.zeros_like(value) for name, value in self.flow.items()}
        return EdgeState(self.weight, self.owner, incarnation, neighbour_incarnation, 0, flow)

    def contradicts(self, message: Message, flow: Mapping[str, np.ndarray], limit: float) -> bool:
        """Return whether a message cannot come from the other end of this edge.

        The other end never reports a flow that the owner has not moved. With a limit, one exchange
        moves at most the weight times the limit, and at most one exchange is pending. Sums of large
        numbers add rounding errors.

        Args:
            message: from the other end, about the same incarnations.
            flow: the flow in the message; empty for a report.
            limit: the largest difference that counts in an exchange.
        """
        ahead = message.sequence - self.sequence
        if isinstance(message, ReportMessage):
            return ahead > 0
        if limit == math.inf or ahead <= 0:
            return False
        most = self.weight * limit * (1 + WEIGHT_TOLERANCE)
        return ahead > 1 or any(
            (np.abs(value + self.flow[name]) > most + 4 * np.spacing(np.abs(value))).any()
            for name, value in flow.items()
        )
