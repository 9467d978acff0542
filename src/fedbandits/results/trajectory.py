"""Every round of a small simulation: what was played, from what, and what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.algorithms.base import AnyAlgorithm
    from fedbandits.gossip.base import Gossip

MESSAGE = "message_"
"""What the variable of a leaf begins with."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What happened in every round, the truth that messages are held against.

    `dataset` holds

    - `action[time, run, agent]`: the arm played
    - `loss[time, run, agent]`: its true loss
    - `distribution[time, run, agent, arm]`: what it was drawn from
    - `message_NAME[time, run, agent, ...]`: what was sent at the start of the round, for each leaf

    `algorithm`, set up, and `gossip` are what was played: everybody knows them, an attacker too.
    """

    dataset: xr.Dataset
    algorithm: AnyAlgorithm
    gossip: Gossip

    @property
    def messages(self) -> dict[str, xr.DataArray]:
        """What was sent, by leaf."""
        return {name: self.dataset[MESSAGE + name] for name in self.algorithm.leaves}
