"""What algorithms share that noise what they learned once per block, before anyone sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from fedbandits.arrays import Array

from .base import Algorithm, Leaf
from .tunable import BLOCK, EXPLORATION, LEARNING_RATE, Tunable

S = TypeVar("S")


class NoisedBlocks(Algorithm[S]):
    """Blocks of B rounds; at the end of each, what was gathered gets its noise and is learned.

    Attributes:
        block: B; None before `set_up` fills it in.
    """

    block: int | None

    leaves: ClassVar[Mapping[str, Leaf]] = {"z": Leaf(kind="estimate", combine="average")}
    noised: ClassVar[bool] = True
    tunable: ClassVar[Mapping[str, Tunable]] = {
        "learning_rate": LEARNING_RATE,
        "block": BLOCK,
        "exploration": EXPLORATION,
    }

    @property
    def rounds_before_learning(self) -> int:
        """One block."""
        return self.block or 0

    def message(self, state: Any) -> dict[str, Array]:
        """Only what has its noise leaves the agent."""
        return {"z": state.z}

    def noise_due(self, t: Array) -> Array:
        """At the end of a block."""
        if self.block is None:
            raise ValueError(self.not_set_up)
        return t % self.block == 0

    @property
    def not_set_up(self) -> str:
        """What is said of an algorithm that does not know its numbers yet."""
        return (
            f"{type(self).__name__} takes what was not given from the number of arms and agents: "
            "call set_up(fb.Setting(arms, agents, gossip)) first"
        )
