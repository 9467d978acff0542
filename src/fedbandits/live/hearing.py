"""What an agent knows of its neighbours: when they were heard, and what was not believed."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection

from .member import Member
from .messages import RefusedError
from .status import Neighbour
from .transport import Transport

_log = logging.getLogger("fedbandits.live")

STRANGERS = "strangers"
"""Under this name refusals of senders who are no neighbours are counted."""

STALE = "a message that was repeated, or late"


class Hearing:
    """Who was heard when, and whose messages were refused, how often and why.

    Args:
        name: of the agent.

    Example:
        >>> hearing = Hearing("north")
        >>> hearing.refused("mallory", RefusedError("no neighbour", "message"), ["south"])
        >>> hearing.refusals["strangers"]
        Counter({'message': 1})
    """

    def __init__(self, name: str) -> None:
        self.refusals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._name = name
        self._at: dict[str, float] = {}
        self._why: dict[str, str] = {}
        self._other_file: set[str] = set()

    def begin(self) -> None:
        """Nobody has been heard since the start; refusals are counted on."""
        self._at.clear()

    def heard(self, sender: str, now: float) -> None:
        """A message was believed."""
        self._other_file.discard(sender)
        self._at[sender] = now

    def refused(self, sender: str, error: RefusedError, neighbours: Collection[str]) -> None:
        """A message was not; another file of the federation is logged once, until both agree."""
        known = sender if sender in neighbours else STRANGERS
        self.refusals[known][error.reason] += 1
        self._why[known] = str(error)
        if error.reason == "file" and known not in self._other_file:
            self._other_file.add(known)
            _log.warning("%s: %s", self._name, error)

    def neighbours(
        self, member: Member, transport: Transport | None, now: float
    ) -> dict[str, Neighbour]:
        """Who is there, and who has been silent for how long."""
        obstacle = getattr(transport, "obstacle", lambda _: None)
        return {
            name: Neighbour(
                edge.weight,
                now - self._at[name] if name in self._at else None,
                edge.left,
                reasons.total(),
                dict(reasons),
                self._why.get(name, STALE if reasons else None),
                member.distance(name),
                obstacle(name),
            )
            for name, edge in member.ledger.edges.items()
            for reasons in [self.refusals[name] + Counter(stale=member.ledger.stale[name])]
        }
