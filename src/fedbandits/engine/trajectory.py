"""Trajectories: every round of a small simulation, played by the engine's own round."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem, check_losses
from fedbandits.results.trajectory import Trajectory
from fedbandits.simulation.liars import Attacks
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import DType, Simulation, conditions_of

from .executors.program import Carry
from .preparation import precision, prepare
from .recording.recorder import reject_nan
from .stages.losses import losses_given, watched
from .stages.pending_messages import own_state
from .stages.round import RoundUniforms, draw_uniforms, play_round
from .stages.stages import Stages


def trajectory(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None = None,
    runs: int = 1,
    seed: int = 0,
    *,
    dtype: DType = "float64",
    privacy: RandomisedResponse | None = None,
    liars: Attacks | None = None,
) -> Trajectory:
    """Play a small simulation and keep every round: arms, distributions and messages.

    Args:
        problem: the losses.
        algorithm: the behaviour of each agent.
        gossip: the network and its matrix.
        runs: R.
        seed: the seed of the agents' randomness, which is that of `simulate` with this seed.
        dtype: `float64` by default, so that messages hold all their digits.
        privacy: as in `simulate`; the losses of the trajectory are the true ones.
        liars: as in `simulate`; the messages of the trajectory include the lies.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.bernoulli([0.2, 0.8], horizon=10, agents=3)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(3))
        >>> dict(fb.trajectory(problem, fb.FedExp3(), gossip).dataset.message_z.sizes)
        {'time': 10, 'run': 1, 'agent': 3, 'z': 2}
    """
    conditions = conditions_of(privacy, liars)
    return trajectory_of(
        Simulation(problem, algorithm, gossip, runs, seed, dtype, conditions=conditions)
    )


def trajectory_of(simulation: Simulation) -> Trajectory:
    """Play a simulation on one device and keep every round."""
    problem, runs, horizon = simulation.problem, simulation.runs, simulation.problem.horizon
    with precision(simulation.dtype):
        group = prepare([simulation], Options(devices=1))
        given: Any = problem
        if not problem.adaptive:
            block = problem.block(1, horizon)
            if problem.check == "during":
                check_losses(block, 1, problem)
            given = block.astype(simulation.dtype)
        kept = _play(
            group.algorithm,
            group.stages,
            group.carry,
            given,
            group.seed,
            runs=runs,
            horizon=horizon,
        )
        p, action, messages, losses, uniforms = jax.tree.map(np.asarray, kept)
    losses = losses.reshape(horizon, problem.arms, -1, problem.agents)
    if problem.adaptive and problem.check == "during":
        _check_adaptive(problem, losses)
    reject_nan(simulation.algorithm, 1, p.reshape(horizon, -1))
    shape = (horizon, runs, problem.agents, problem.arms)
    return Trajectory(
        np.moveaxis(p, 1, -1),
        action,
        {name: np.moveaxis(leaf, 1, -1) for name, leaf in messages.items()},
        uniforms,
        np.broadcast_to(np.moveaxis(losses, 1, -1), shape),
        group.algorithm,
        simulation.gossip,
    )


def _check_adaptive(problem: Any, losses: np.ndarray[Any, Any]) -> None:
    """Reject adaptive losses outside [0, 1], `[T, K, R, N]`."""
    for t, i, run, v in np.argwhere(~((losses >= 0) & (losses <= 1)))[:1]:  # NaN fails both
        cell = problem.in_run(int(run), int(t) + 1, int(v), int(i))
        wrong = problem.out_of_range(float(losses[t, i, run, v]))
        raise ValueError(f"{problem.title}: {cell} is {wrong}")


def play_given(
    algorithm: AnyAlgorithm,
    stages: Stages,
    state: Any,
    losses: Array,
    uniforms: RoundUniforms,
) -> Any:
    """Rounds 1, ..., T with these losses `[T, N, K]` and uniforms `[T, ...]`, to be compiled.

    Returns:
        distributions `[T, K, R, N]`, actions `[T, R, N]` and messages `[T, M, R, N]` by leaf.
    """
    *kept, _ = play_rounds(algorithm, stages, Carry(state, None), losses, uniforms)
    return tuple(kept)


def play_rounds(
    algorithm: AnyAlgorithm,
    stages: Stages,
    start: Carry,
    losses: Problem | Array,
    uniforms: RoundUniforms,
) -> Any:
    """`play_given`, with losses `[T, K, N]`, or `[T, K, R, N]` of a problem that watches."""
    times = jnp.arange(1, uniforms.action.shape[0] + 1, dtype="int32")
    tables = None if isinstance(losses, Problem) else losses

    def step(
        before: tuple[Any, Any], now: tuple[Array, Array | None, RoundUniforms]
    ) -> tuple[Any, Any]:
        (state, memory), (t, table, drawn) = before, now
        if table is None:
            values = losses_given(losses, t, memory).astype(drawn.action.dtype)
        else:
            values = table.T
        after, play = play_round(algorithm, stages, state, values, drawn, t)
        if memory is not None:
            memory = watched(losses, memory, play.action, t)
        sent = {
            name: stages.outgoing(algorithm.leaves[name], leaf, t)
            for name, leaf in algorithm.message(own_state(state)).items()
        }
        return (after, memory), (play.p, play.action, sent, values)

    return jax.lax.scan(step, (start.state, start.memory), (times, tables, uniforms))[1]


def _scan(
    algorithm: AnyAlgorithm,
    stages: Stages,
    start: Carry,
    losses: Problem | Array,
    seed: Array,
    *,
    runs: int,
    horizon: int,
) -> Any:
    times = jnp.arange(1, horizon + 1, dtype="int32")
    (agents,), dtype = start.excess.shape, start.excess.dtype
    uniforms = jax.vmap(lambda t: draw_uniforms(algorithm, stages, seed, t, (runs, agents), dtype))(
        times
    )
    return *play_rounds(algorithm, stages, start, losses, uniforms), uniforms


_play = jax.jit(_scan, static_argnames=("runs", "horizon"))
