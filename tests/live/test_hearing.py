"""An agent reports refused messages of its neighbours, and forgets reasons that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fedbandits.live.agent.neighbours import Hearing
from fedbandits.live.protocol.messages import RefusedError


def test_another_file_is_no_longer_reported_once_both_ends_have_the_same() -> None:
    hearing = Hearing("north")
    for reason in ("file", "numbers"):
        hearing.refused("south", RefusedError(f"because of {reason}", reason), ["south"])
        assert reported(hearing) == f"because of {reason}"
    hearing.heard("south", 1.0)
    assert reported(hearing) == "because of numbers"
    hearing.refused("south", RefusedError("because of file", "file"), ["south"])
    hearing.heard("south", 2.0)
    assert reported(hearing) == "a message that was repeated, or late"
    assert hearing.refusals["south"] == {"file": 2, "numbers": 1}


def reported(hearing: Hearing) -> str | None:
    edge = SimpleNamespace(weight=0.5, left=False)
    ledger = SimpleNamespace(edges={"south": edge}, stale={"south": 0})
    member: Any = SimpleNamespace(ledger=ledger, distance=lambda neighbour: 0.0)
    return hearing.neighbours(member, None, 3.0)["south"].last_refusal
