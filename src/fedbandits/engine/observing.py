"""Every round of a small simulation, for people: a labelled dataset."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem
from fedbandits.results.trajectory import MESSAGE, Trajectory

from . import trajectory as rounds
from .preparation import DType, setting_of
from .stages.liars import Liars


def trajectory(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip,
    runs: int = 1,
    seed: int = 0,
    *,
    dtype: DType = "float64",
    privacy: RandomisedResponse | None = None,
    liars: Liars | None = None,
) -> Trajectory:
    """Every round of a small simulation in full: arms, distributions and messages.

    Args:
        problem: the losses.
        algorithm: what each agent does.
        gossip: the network and its matrix.
        runs: R.
        seed: of the agents' randomness, which is that of `simulate` with this seed.
        dtype: `float64` by default, so that messages hold all their digits.
        privacy: as in `simulate`; the losses of the dataset are the true ones.
        liars: as in `simulate`; the messages of the dataset are those told.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.bernoulli([0.2, 0.8], horizon=10, agents=3)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(3))
        >>> dict(fb.trajectory(problem, fb.FedExp3(), gossip).dataset.message_z.sizes)
        {'time': 10, 'run': 1, 'agent': 3, 'z': 2}
    """
    import xarray as xr

    found = rounds.trajectory(
        problem,
        algorithm,
        gossip,
        runs=runs,
        seed=seed,
        dtype=dtype,
        privacy=privacy,
        liars=liars,
    )
    each = ("time", "run", "agent")
    losses = np.broadcast_to(found.losses, found.distribution.shape)
    incurred = np.take_along_axis(losses, found.action[..., None].astype(np.int64), -1)[..., 0]
    variables: dict[str, Any] = {
        "action": (each, found.action.astype(np.int64)),
        "loss": (each, incurred.astype(np.float64)),
        "distribution": ((*each, "arm"), found.distribution),
    }
    for name, sent in found.messages.items():
        variables[MESSAGE + name] = ((*each, name), sent)
    ready = algorithm.set_up(setting_of(problem, gossip))
    time = np.arange(1, problem.horizon + 1)
    return Trajectory(xr.Dataset(variables, {"time": time}), ready, gossip)
