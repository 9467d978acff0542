"""A trajectory: every round of a small simulation, with what was played and what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.algorithms.base import AnyAlgorithm
    from fedbandits.gossip.base import Gossip

MESSAGE = "message_"
"""The beginning of the name of each leaf's variable."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Every one of T rounds of R runs, in the paper's order of axes.

    Attributes:
        distribution: p_t^v(i), `[T, R, N, K]`.
        action: a_t^v, `[T, R, N]`.
        messages: what each agent sent, lies included, by leaf, `[T, R, N, M]`.
        uniforms: the randomness: `[T, R, N]` for actions, and that of links, responses and noise.
        losses: ℓ_t^v(i), `[T, R, N, K]`; the same in all runs unless the problem is adaptive.
        algorithm: the algorithm that was played, set up.
        gossip: the network and its matrix.
    """

    distribution: np.ndarray[Any, Any]
    action: np.ndarray[Any, Any]
    messages: dict[str, np.ndarray[Any, Any]]
    uniforms: Any
    losses: np.ndarray[Any, Any]
    algorithm: AnyAlgorithm
    gossip: Gossip | None

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The trajectory with labels.

        - `action[time, run, agent]`: the arm played
        - `loss[time, run, agent]`: its true loss
        - `distribution[time, run, agent, arm]`: the distribution it was drawn from
        - `message_NAME[time, run, agent, ...]`: each leaf sent at the start of the round
        """
        import xarray as xr

        each = ("time", "run", "agent")
        action = self.action.astype(np.int64)
        incurred = np.take_along_axis(self.losses, action[..., None], -1)[..., 0]
        variables: dict[str, Any] = {
            "action": (each, action),
            "loss": (each, incurred.astype(np.float64)),
            "distribution": ((*each, "arm"), self.distribution),
        }
        for name, sent in self.messages.items():
            variables[MESSAGE + name] = ((*each, name), sent)
        return xr.Dataset(variables, {"time": np.arange(1, len(action) + 1)})
