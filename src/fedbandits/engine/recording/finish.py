"""The end of a simulation: its result, with recommended arms and the cost of communication."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.backend import playing_on
from fedbandits.engine.executors.tiled_round import agents_in_cache
from fedbandits.engine.group import Group
from fedbandits.engine.stages.pending_messages import own_state
from fedbandits.results.communication import communication
from fedbandits.simulation.simulation import Simulation

from .leading_arms import leading_in_tiles, leading_of_all

if TYPE_CHECKING:
    from fedbandits.results.result import Result


def finish(group: Group, place: int, state: Any) -> Result:
    """Return the result of one simulation of a group, from its full record.

    Args:
        group: the group that was played.
        place: the place of the simulation in it.
        state: the states of all its simulations after round T.
    """
    from fedbandits.simulation.building import build_result

    simulation, record = group.simulations[place], group.records[place]
    snapshots = group.snapshots[place] if group.snapshots else None
    recommended = _recommended(group, simulation, group.part(state, place))
    by_agent: list[np.ndarray[Any, Any]] = [record.agent_incurred, record.agent_expected]
    if snapshots is not None:
        by_agent.append(snapshots.excess)
    for totals in by_agent:
        totals[..., list(group.stages.excluded)] = np.nan  # they have no regret
    sent = communication(simulation.gossip, simulation.ready, group.sent)
    return build_result(simulation, record, recommended, sent, snapshots, group.describe())


def _recommended(group: Group, simulation: Simulation, state: Any) -> np.ndarray[Any, Any]:
    """Return the arm that each agent would most likely play next, `[R, N]`."""
    problem, where = simulation.problem, group.where
    after, seed = np.int32(problem.horizon + 1), np.uint32(simulation.seed)
    arguments = simulation.ready, own_state(state), after, seed
    with playing_on(where.platform):
        tile = agents_in_cache(problem.arms, where)
        if tile is None:
            return np.asarray(_recommend(*arguments, platform=where.platform))
        sizes = where.runs, problem.agents, tile
        return np.asarray(_recommend_in_tiles(*arguments, sizes))


# Used once, so it is compiled without optimising: optimising took longer than many simulations.
@functools.partial(
    jax.jit,
    static_argnames=("platform",),  # by which programs differ: see `common.backend`
    compiler_options={"xla_backend_optimization_level": 0},
)
def _recommend(
    algorithm: AnyAlgorithm,
    state: Any,
    t: Array,
    seed: Array,
    *,
    platform: str,  # noqa: ARG001
) -> Array:
    """The likeliest arm of round t for every run and agent, `[R, N]`; a random one of equals."""
    return leading_of_all(algorithm.distribution(state, t), t, seed)


_recommend_in_tiles = jax.jit(leading_in_tiles, static_argnums=4)
