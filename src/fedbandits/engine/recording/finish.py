"""The end of a game: what was recorded, what each agent would play next, what it all cost."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common.backend import playing_on
from fedbandits.engine.executors.tiled_round import agents_in_cache
from fedbandits.engine.preparation import Game
from fedbandits.engine.stages.pending_messages import own_state
from fedbandits.results.communication import communication

from .leading_arms import leading_in_tiles, leading_of_all

if TYPE_CHECKING:
    from fedbandits.results.result import Result


def finish(game: Game, state: Any, against: Literal["current", "final"]) -> Result:
    """The result, from a full record and the state after round T."""
    from fedbandits.results.building import RecordLabels, build_result

    problem, gossip = game.problem, game.gossip
    after, seed = np.int32(problem.horizon + 1), np.uint32(game.seed)
    platform = game.where.platform
    with playing_on(platform):
        told = game.algorithm, own_state(state), after, seed
        tile = agents_in_cache(problem.arms, game.where)
        if tile is None:
            found = _recommend(*told, platform=platform)
        else:
            found = _recommend_in_tiles(*told, (game.where.runs, problem.agents, tile))
    by_agent: list[np.ndarray[Any, Any]] = [game.record.agent_incurred, game.record.agent_expected]
    if game.snapshots is not None:
        by_agent.append(game.snapshots.excess)
    for totals in by_agent:
        totals[..., list(game.conditions.liars)] = np.nan  # a liar's regret is nobody's
    return build_result(
        game.record,
        np.asarray(found),
        game.config,
        communication(gossip, game.algorithm, game.sent),
        against,
        RecordLabels(
            problem.agent_names or (gossip and gossip.network.names) or None,
            problem.arm_names,
            problem.dates,
        ),
        gossip,
        game.snapshots,
    )


# Used once, so it is compiled without optimising: that took longer than many a game.
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
