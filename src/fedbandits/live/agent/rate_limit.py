"""How often neighbours exchange, and how often one may be made to."""

from __future__ import annotations

import math

REPEATS = 1
"""How often within a period a report is repeated to a neighbour that does not answer. So where
messages are lost there are almost as many exchanges as where none is."""

EXCHANGES = 2 * (1 + REPEATS)
"""Exchanges that one neighbour can have in a gossip period; an honest one asks for half of them."""

BURST = 4.0
"""Messages of one neighbour that may each move the flow in one instant."""


class Pace:
    """Grants each neighbour twice the exchanges that an honest one would ask for, and no more.

    Without it a neighbour that lies could have any number in an instant, and move by a multiple
    what one exchange may move.

    Args:
        period: seconds between two exchanges over an edge; all are granted if it is infinite.

    Example:
        >>> pace = Pace(1.0)
        >>> sum(pace.grants("eve", 0.0) for _ in range(1000))
        4
    """

    def __init__(self, period: float) -> None:
        self._rate = EXCHANGES / period
        self._left: dict[str, tuple[float, float]] = {}

    def grants(self, neighbour: str, now: float) -> bool:
        """Whether a message of a neighbour may move the flow now."""
        if self._rate == 0:
            return True
        left, since = self._left.get(neighbour, (BURST, -math.inf))
        left = min(left + (now - since) * self._rate, BURST)
        granted = left >= 1
        self._left[neighbour] = (left - granted, now)
        return granted
