"""An agent's view of its neighbours: the times of their messages, and the rejected ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.protocol.ledger import AgentLedger
from fedbandits.live.protocol.messages import RejectedMessageError
from fedbandits.live.transport.interface import Transport

from .status import Neighbour

_log = limited_logger("fedbandits.live")

STRANGERS = "strangers"
"""The name under which rejected messages of senders that are not neighbours are counted."""

STALE = "a message that was repeated, or late"


class NeighbourMonitor:
    """Times of accepted messages and counts of rejected messages, by neighbour.

    Args:
        name: the name of the agent.

    Example:
        >>> monitor = NeighbourMonitor("north")
        >>> monitor.rejected("mallory", RejectedMessageError("a stranger", "message"), ["south"])
        >>> monitor.rejections["strangers"]
        Counter({'message': 1})
    """

    def __init__(self, name: str) -> None:
        self.rejections: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._name = name
        self._times: dict[str, float] = {}
        self._last_rejections: dict[str, RejectedMessageError] = {}

    def restart(self) -> None:
        """Forget the times of messages at a restart of the agent; counts continue."""
        self._times.clear()

    def accepted(self, sender: str, now: float) -> None:
        """Record an accepted message. It shows that both ends have the same file."""
        self._times[sender] = now
        if sender in self._last_rejections and self._last_rejections[sender].reason == "file":
            del self._last_rejections[sender]

    def rejected(
        self, sender: str, error: RejectedMessageError, neighbours: Collection[str]
    ) -> None:
        """Count a rejected message, and log a neighbour with another file of the federation."""
        known = sender if sender in neighbours else STRANGERS
        self.rejections[known][error.reason] += 1
        self._last_rejections[known] = error
        if error.reason == "file":
            cause = f"{self._name}: the file of {known}"
            _log.warning("%s: %s", self._name, error, extra={"cause": cause})

    def neighbours(
        self, ledger: AgentLedger, transport: Transport | None, now: float
    ) -> dict[str, Neighbour]:
        """Return the status of each neighbour."""
        obstacle = getattr(transport, "obstacle", lambda _: None)
        neighbours = {}
        for name, edge in ledger.edges.items():
            reasons = self.rejections[name] + Counter(stale=ledger.stale[name])
            last = self._last_rejections.get(name)
            neighbours[name] = Neighbour(
                edge.weight,
                now - self._times[name] if name in self._times else None,
                edge.neighbour_left,
                reasons.total(),
                dict(reasons),
                str(last) if last else STALE if reasons else None,
                ledger.distance(name),
                obstacle(name),
            )
        return neighbours
