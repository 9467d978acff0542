"""What an agent knows of its neighbours: when they were heard, and what was not believed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.protocol.member import Member
from fedbandits.live.protocol.messages import RefusedError
from fedbandits.live.transport.interface import Transport

from .status import Neighbour

_log = limited_logger("fedbandits.live")

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
        self._why: dict[str, RefusedError] = {}

    def begin(self) -> None:
        """Nobody has been heard since the start; refusals are counted on."""
        self._at.clear()

    def heard(self, sender: str, now: float) -> None:
        """Record that a message was believed; both ends then have the same file."""
        self._at[sender] = now
        if sender in self._why and self._why[sender].reason == "file":
            del self._why[sender]

    def refused(self, sender: str, error: RefusedError, neighbours: Collection[str]) -> None:
        """Count a refused message, and log a neighbour that has another file of the federation."""
        known = sender if sender in neighbours else STRANGERS
        self.refusals[known][error.reason] += 1
        self._why[known] = error
        if error.reason == "file":
            cause = f"{self._name}: the file of {known}"
            _log.warning("%s: %s", self._name, error, extra={"cause": cause})

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
                str(self._why[name]) if name in self._why else STALE if reasons else None,
                member.distance(name),
                obstacle(name),
            )
            for name, edge in member.ledger.edges.items()
            for reasons in [self.refusals[name] + Counter(stale=member.ledger.stale[name])]
        }
