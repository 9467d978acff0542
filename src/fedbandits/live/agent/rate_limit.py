"""The number of exchanges in a gossip period, and a limit for each neighbour."""

from __future__ import annotations

import math

REPEATS = 1
"""Number of repeated reports in a period to a neighbour that does not answer.

With repeats, a federation that loses messages makes almost as many exchanges as one that does not.
"""

EXCHANGES = 2 * (1 + REPEATS)
"""Exchanges of one neighbour in a gossip period; an honest one requests half of them."""

BURST = 4.0
"""Messages of one neighbour that may each move the flow in one instant."""


class RateLimit:
    """A limit on exchanges: twice the number that an honest neighbour requests.

    Without it a lying neighbour could cause any number of exchanges in an instant.

    Args:
        period: seconds between two exchanges over an edge; infinite for no limit.

    Example:
        >>> limit = RateLimit(1.0)
        >>> sum(limit.allows("eve", 0.0) for _ in range(1000))
        4
    """

    def __init__(self, period: float) -> None:
        self._rate = EXCHANGES / period
        self._tokens: dict[str, tuple[float, float]] = {}

    def allows(self, neighbour: str, now: float) -> bool:
        """Return whether a message of a neighbour may move the flow now."""
        if self._rate == 0:
            return True
        tokens, since = self._tokens.get(neighbour, (BURST, -math.inf))
        tokens = min(tokens + (now - since) * self._rate, BURST)
        allowed = tokens >= 1
        self._tokens[neighbour] = (tokens - allowed, now)
        return allowed
