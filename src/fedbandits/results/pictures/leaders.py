"""Who leads with which arm, and in which colour: what every picture of a network shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedbandits import networks
from fedbandits.results.plots import COLOURS

from .agents import one_of, snapshots_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedbandits.networks import Network
    from fedbandits.results.result import Result

OTHERS = "#999999"
"""Of the arms that have no colour of their own."""

_COLOURED = COLOURS[:6]
"""Black is left out: it is not seen in the dark."""


class Leaders(NamedTuple):
    """The leading arms of one run.

    Attributes:
        title: the algorithm and its network, in words.
        network: who talks to whom.
        rounds: of the snapshots, `[S]`.
        horizon: T.
        arm: of each agent, `[S, N]`.
        agent_names: what agents are called.
        arm_names: what arms are called; the best in hindsight has a star.
        coloured: arms that have a colour of their own, the best first.
        colours: of every arm, `[K]`.
        disagreement: of the agents, `[S]`.
    """

    title: str
    network: Network
    rounds: npt.NDArray[np.int64]
    horizon: int
    arm: npt.NDArray[Any]
    agent_names: list[str]
    arm_names: list[str]
    coloured: list[int]
    colours: list[str]
    disagreement: npt.NDArray[np.float32]

    def shares(self, snapshot: int) -> list[tuple[str, str, float]]:
        """Return name, colour and share of agents of each coloured arm, and of the others."""
        counts = np.bincount(self.arm[snapshot], minlength=len(self.arm_names)) / self.arm.shape[1]
        own = [(self.arm_names[i], self.colours[i], float(counts[i])) for i in self.coloured]
        if len(own) == len(self.arm_names):
            return own
        return [*own, ("others", OTHERS, 1 - sum(share for *_, share in own))]


def leaders(results: Mapping[str, Result]) -> Leaders:
    """Return the leaders of run 0, and of draw 0 if there are draws."""
    name, result = one_of(results, "network")
    data = snapshots_of(name, result, "network")
    which = "run 0"
    if "draw" in data.dims:
        data, which = data.isel(draw=0), "draw 0, run 0"
    data = data.isel(run=0)
    network = _network(result)
    names, best = data["arm"].to_numpy().tolist(), result.best_arm.arm
    arm = data["leading_arm"].to_numpy()
    led = np.bincount(arm.ravel(), minlength=len(names)).astype(float)
    led[names.index(best)] = np.inf
    most = np.argsort(-led, kind="stable")[: len(_COLOURED)]
    coloured = [int(i) for i in most if led[i] > 0]
    colours = [OTHERS] * len(names)
    for i, colour in zip(coloured, _COLOURED, strict=False):
        colours[i] = colour
    where = network.name if len(network.edges) else "no network"
    return Leaders(
        f"{name}, {where}, {which}",
        network,
        data["snapshot"].to_numpy(),
        int(data["time"][-1]),
        arm,
        [str(agent) for agent in data["agent"].to_numpy()],
        [f"arm {arm}{' ★' if arm == best else ''}" for arm in names],
        coloured,
        colours,
        data["disagreement"].to_numpy(),
    )


def _network(result: Result) -> Network:
    """Return the network; without one, agents stand in rows."""
    from fedbandits.results.bounds_table import network_of

    if result.gossip is None and result.config["network"] is None:
        alone = networks.square_grid(result.dataset.sizes["agent"])
        return dataclasses.replace(alone, edges=np.empty((0, 2), np.int64), closed_form=None)
    found = network_of(result)
    if found is None:
        raise ValueError(
            f"the result file names the network {result.config['network']['name']}, but does not "
            "hold it; give it its gossip, as in "
            'fb.Result(result.dataset, gossip).plot(kind="network")'
        )
    return found
