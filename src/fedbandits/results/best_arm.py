"""The best arm in hindsight, in numbers and in words."""

from __future__ import annotations

from typing import NamedTuple


class BestArm(NamedTuple):
    """The arm with the least loss in hindsight, averaged over all rounds and agents.

    Attributes:
        arm: its name, or its number where arms have no names.
        second: the next best.
        gap: by how much the mean loss of the second is larger; 0 if both are as good.
        agreement: the share of agents, in all runs, whose recommended arm it is.
    """

    arm: str | int
    second: str | int
    gap: float
    agreement: float

    @property
    def lead(self) -> str:
        """How far it is ahead, in words."""
        if self.gap == 0:
            return f"as good as {_called(self.second)}"
        return f"its mean loss {self.gap:.3g} below {_called(self.second)}'s"

    def __str__(self) -> str:
        return (
            f"{_called(self.arm)}, {self.lead}; recommended by {self.agreement:.0%} of agents and "
            "runs"
        )

    def __repr__(self) -> str:
        return f"BestArm({self})"


def _called(arm: str | int) -> str:
    return f"arm {arm}" if isinstance(arm, int) else arm
