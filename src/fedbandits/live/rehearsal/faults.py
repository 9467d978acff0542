"""What goes wrong in a rehearsal: with messages, with agents and with their clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fedbandits.common.checks import did_you_mean

from .memory import Links, Partition


class Away(NamedTuple):
    """Rounds in which an agent is down: it crashes, and comes back later.

    Attributes:
        member: its name.
        start: the first round that it does not play.
        end: the round in which it plays again; with `start` alike it is down for a moment.
        disk_lost: whether it comes back knowing nothing.
    """

    member: str
    start: int
    end: int
    disk_lost: bool = False


class ClockJump(NamedTuple):
    """A wall clock that is set anew.

    Attributes:
        member: whose.
        at: the second.
        by: so many seconds later, or earlier where negative.
    """

    member: str
    at: float
    by: float


@dataclass(frozen=True)
class Faults:
    """What goes wrong while a federation is rehearsed; a round takes a second.

    Args:
        loss: the share of messages that is lost.
        delay: rounds, uniform between these; of every message anew, so that some overtake others.
        repeat: the share of messages that arrives twice.
        one_way: the share lost from a sender to a receiver, where that is not `loss`.
        partitions: who is cut off when.
        away: who is down when, and whether its disk is lost.
        clock_jumps: of the agents' wall clocks.

    Example:
        >>> Faults(loss=0.3, delay=(0, 0.3), away=[Away("shop3", 100, 200)]).away[0].end
        200
    """

    loss: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)
    repeat: float = 0.0
    one_way: Mapping[tuple[str, str], float] = field(default_factory=dict)
    partitions: Sequence[Partition] = ()
    away: Sequence[Away] = ()
    clock_jumps: Sequence[ClockJump] = ()

    def __post_init__(self) -> None:
        _ = self.links  # which are checked
        for name in ("partitions", "away", "clock_jumps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def links(self) -> Links:
        """What becomes of messages."""
        return Links(self.loss, self.delay, self.repeat, self.one_way, tuple(self.partitions))

    def __bool__(self) -> bool:
        return self != Faults()

    def check(self, members: Sequence[str], horizon: int) -> None:
        """Refuse faults of agents that are not there, and rounds that nobody plays."""
        named: list[tuple[str, object]] = [
            (name, "one_way") for pair in self.one_way for name in pair
        ]
        named += [(name, cut) for cut in self.partitions for name in cut.members]
        named += [(away.member, away) for away in self.away]
        named += [(jump.member, jump) for jump in self.clock_jumps]
        for name, fault in named:
            if name not in members:
                meant = did_you_mean(name, members)
                raise ValueError(f"{fault}: no member {name!r}{meant} There are {[*members]}")
        away = np.zeros((len(members), horizon + 2), np.int64)
        for gone in self.away:
            if not 1 <= gone.start <= min(gone.end, horizon):
                raise ValueError(f"{gone}: rounds are 1 to {horizon}, and it ends after its start")
            away[members.index(gone.member), gone.start : max(gone.end, gone.start + 1)] += 1
        if away.max(initial=0) > 1:
            member, t = (int(i) for i in np.argwhere(away > 1)[0])
            raise ValueError(f"{members[member]} goes away in round {t}, when it is away")
        playing = (away == 0)[:, 1 : horizon + 1].any(axis=0)
        if not playing.all():
            raise ValueError(f"everyone is away in round {int(playing.argmin()) + 1}")

    def describe(self) -> dict[str, Any]:
        """What differs from no faults, as plain data."""
        found: dict[str, Any] = {}
        if self.loss:
            found["loss"] = float(self.loss)
        if self.delay != (0.0, 0.0):
            found["delay"] = [float(end) for end in self.delay]
        if self.repeat:
            found["repeat"] = float(self.repeat)
        if self.one_way:
            found["one_way"] = {f"{u} to {v}": float(q) for (u, v), q in self.one_way.items()}
        if self.partitions:
            found["partitions"] = [
                {"start": cut.start, "end": cut.end, "members": sorted(cut.members)}
                for cut in self.partitions
            ]
        for name in ("away", "clock_jumps"):
            if faults := getattr(self, name):
                found[name] = [fault._asdict() for fault in faults]
        return found
