"""The faults of a rehearsal: of messages, of agents and of their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedbandits.common.checks import did_you_mean

from .memory import Links


class Away(NamedTuple):
    """A crash of an agent and its return.

    Attributes:
        member: The name of the agent.
        start: The first round that it does not play.
        end: The round in which it plays again; if equal to `start`, it only restarts.
        disk_lost: Whether it comes back without its journal.
    """

    member: str
    start: int
    end: int
    disk_lost: bool = False


class ClockJump(NamedTuple):
    """A jump of an agent's wall clock.

    Attributes:
        member: The name of the agent.
        at: The second of the jump.
        by: The length of the jump in seconds; negative for a jump back.
    """

    member: str
    at: float
    by: float


@dataclass(frozen=True)
class Faults(Links):
    """The faults of a rehearsed federation. A round takes a second.

    Args:
        loss: the share of lost messages.
        delay: the range of delays in rounds. Each message has a random one, so that some overtake
            others.
        repeat: the share of messages that arrive twice.
        one_way: the share of lost messages from a sender to a receiver, if different from `loss`.
        partitions: splits of the network.
        away: crashes of agents.
        clock_jumps: jumps of wall clocks.

    Example:
        >>> Faults(loss=0.3, delay=(0, 0.3), away=[Away("shop3", 100, 200)]).away[0].end
        200
    """

    away: Sequence[Away] = ()
    clock_jumps: Sequence[ClockJump] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("partitions", "away", "clock_jumps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __bool__(self) -> bool:
        return self != Faults()

    def check(self, members: Sequence[str], horizon: int) -> None:
        """Reject faults of unknown agents, and rounds without any playing agent."""
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
        for absence in self.away:
            if not 1 <= absence.start <= min(absence.end, horizon):
                raise ValueError(
                    f"{absence}: rounds are 1 to {horizon}, and the end is not before the start"
                )
            away[
                members.index(absence.member), absence.start : max(absence.end, absence.start + 1)
            ] += 1
        if away.max(initial=0) > 1:
            member, t = (int(i) for i in np.argwhere(away > 1)[0])
            raise ValueError(f"{members[member]} goes away in round {t}, but is away already")
        playing = (away == 0)[:, 1 : horizon + 1].any(axis=0)
        if not playing.all():
            raise ValueError(f"everyone is away in round {int(playing.argmin()) + 1}")

    def describe(self) -> dict[str, Any]:
        """Return the faults that differ from the defaults, as plain data."""
        faults: dict[str, Any] = {}
        if self.loss:
            faults["loss"] = float(self.loss)
        if self.delay != (0.0, 0.0):
            faults["delay"] = [float(end) for end in self.delay]
        if self.repeat:
            faults["repeat"] = float(self.repeat)
        if self.one_way:
            faults["one_way"] = {f"{u} to {v}": float(q) for (u, v), q in self.one_way.items()}
        if self.partitions:
            faults["partitions"] = [
                {"start": cut.start, "end": cut.end, "members": sorted(cut.members)}
                for cut in self.partitions
            ]
        for name in ("away", "clock_jumps"):
            if given := getattr(self, name):
                faults[name] = [fault._asdict() for fault in given]
        return faults
