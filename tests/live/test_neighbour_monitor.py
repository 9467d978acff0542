"""The monitor of neighbours drops the reason of a rejection once it no longer applies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fedbandits.live.agent.neighbour_monitor import NeighbourMonitor
from fedbandits.live.protocol.messages import RejectedMessageError


def test_another_file_is_no_longer_reported_once_both_ends_have_the_same() -> None:
    monitor = NeighbourMonitor("north")
    for reason in ("file", "numbers"):
        monitor.rejected("south", RejectedMessageError(f"because of {reason}", reason), ["south"])
        assert reported(monitor) == f"because of {reason}"
    monitor.accepted("south", 1.0)
    assert reported(monitor) == "because of numbers"
    monitor.rejected("south", RejectedMessageError("because of file", "file"), ["south"])
    monitor.accepted("south", 2.0)
    assert reported(monitor) == "a message that was repeated, or late"
    assert monitor.rejections["south"] == {"file": 2, "numbers": 1}


def reported(monitor: NeighbourMonitor) -> str | None:
    edge = SimpleNamespace(weight=0.5, neighbour_left=False)
    ledger: Any = SimpleNamespace(edges={"south": edge}, stale={"south": 0}, distance=lambda _: 0.0)
    return monitor.neighbours(ledger, None, 3.0)["south"].last_refusal
