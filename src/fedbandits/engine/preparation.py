"""Preparation: simulations become a group that can be played, on the machine that plays it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common import checks, interrupts
from fedbandits.common.backend import playing_on, refuse_fork
from fedbandits.problems.base import Problem, check_losses
from fedbandits.results.record import Record, check_runs
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import DType, Simulation

from . import pytrees
from .checks.contract import check_contract
from .checks.purity import check_adaptive, check_called, check_traced
from .chunk_sizes import chunking
from .compile_cache import keep_compiled_programs
from .devices import Spread, one_per_core, spread
from .executors.choice import Over
from .executors.program import Carry
from .group import Group, stacked
from .mixing.mixer import mixer
from .stages.losses import first_memory
from .stages.pending_messages import first_state, own_state
from .stages.stages import Stages


def precision(dtype: DType) -> AbstractContextManager[Any]:
    """Return a scope in which JAX computes in `dtype`; the global flag is never touched.

    Everything that plays enters this scope first, so JAX gets its settings here: those that it
    takes only before it starts have an effect in the first simulation of a process.
    """
    refuse_fork()
    one_per_core()
    keep_compiled_programs()
    scope: AbstractContextManager[Any] = jax.enable_x64(dtype == "float64")
    return scope


def prepare(
    simulations: Sequence[Simulation], options: Options | None = None, draws: int = 1
) -> Group:
    """Return a group that is ready to be played; call this inside `precision`.

    Args:
        simulations: one simulation, or several that differ in numbers of their algorithms alone.
        options: how they are played.
        draws: the number of draws of which these are one; the snapshots of all draws must fit.
    """
    options, first = options or Options(), simulations[0]
    problem, runs = first.problem, first.runs
    snapshots = [options.snapshots(each, draws) for each in simulations]
    where = _placement(first, options)
    with interrupts.calm(), playing_on(where.platform):  # from here on JAX traces
        pytrees.register(problem)
        memory = first_memory(problem, runs, first.dtype)
        _check_problem(problem, memory)
        algorithms = [each.ready for each in simulations]
        for algorithm in algorithms:
            pytrees.register(algorithm)
        stages = _stages(first, where)
        excess = np.zeros(problem.agents, first.dtype)
        carries = []
        for algorithm in algorithms:
            state = _first_state(first, algorithm, stages)
            sent = check_contract(algorithm, stages, state, problem, runs)
            carries.append(Carry(state, excess, memory))
    over: Over | None = "algorithms" if len(simulations) > 1 else None
    return Group(
        simulations=tuple(simulations),
        over=over,
        algorithm=algorithms[0] if over is None else stacked(algorithms),
        problem=problem,
        stages=stages,
        carry=carries[0] if over is None else stacked(carries),
        seed=np.uint32(first.seed),
        where=where,
        records=tuple(_record(each) for each in simulations),
        snapshots=tuple(each for each in snapshots if each is not None),
        sent=sent,
        executor=options.executor,
    )


def prepare_draws(simulations: Sequence[Simulation]) -> Group:
    """Return a group of simulations that differ in seeds and arrays of their losses alone.

    The first is checked by tracing; the others then need no tracing.
    """
    if any(each.algorithm is not simulations[0].algorithm for each in simulations):
        raise ValueError("the simulations have different algorithms; play them with `play`")
    first = prepare(simulations[:1])
    problems = [each.problem for each in simulations]
    check_runs(first.first.runs * len(simulations), problems[0])
    kind: Any = jax.tree.structure(problems[0])
    for problem in problems[1:]:
        if kind != jax.tree.structure(problem):
            raise ValueError(
                f"{problem!r} differs from {problems[0]!r} in more than seeds and arrays"
            )
    if any(problem.check == "before" or not problem.traced for problem in problems):
        raise ValueError(f"only losses that JAX makes can be batched, not {problems[0]!r}")
    actions: list[Any] = [problem.actions for problem in problems]
    if actions[0] is not None and any(not np.array_equal(actions[0], each) for each in actions):
        raise ValueError(
            "the draws have different actions, but an algorithm receives its actions only once; "
            "simulate them one by one"
        )
    draws, simulation = len(simulations), first.first
    carry = jax.tree.map(lambda x: np.broadcast_to(x, (draws, *np.shape(x))), first.carry)
    memories = [first_memory(problem, simulation.runs, simulation.dtype) for problem in problems]
    return Group(
        simulations=tuple(simulations),
        over="draws",
        algorithm=first.algorithm,
        problem=stacked(problems),
        stages=first.stages,
        carry=carry._replace(memory=stacked(memories)),
        seed=np.array([each.seed for each in simulations], np.uint32),
        where=first.where,
        records=(),
        snapshots=(),
        sent=first.sent,
    )


def _placement(simulation: Simulation, options: Options) -> Spread:
    """Return where the arrays lie; reject states that this machine cannot hold."""
    problem, runs = simulation.problem, simulation.runs
    size = np.dtype(simulation.dtype).itemsize * problem.arms * problem.agents * runs
    checks.fits(size, f"the state of {problem.agents:,} agents in {runs:,} runs")
    return spread(options.devices, runs, problem.agents)


def _stages(simulation: Simulation, where: Spread) -> Stages:
    mix = mixer(simulation.gossip, simulation.ready, simulation.dtype, where.mesh.size)
    stages = Stages(mix, simulation.conditions)
    pytrees.register(stages)
    return stages


def _first_state(simulation: Simulation, algorithm: AnyAlgorithm, stages: Stages) -> Any:
    problem = simulation.problem
    batch = (simulation.runs, problem.agents)
    sizes = (problem.arms, problem.agents, batch, simulation.dtype)
    state = first_state(algorithm, stages.mixer, *sizes)
    for condition in simulation.conditions:
        condition.check_messages(algorithm.message(own_state(state)))
    return state


def _record(simulation: Simulation) -> Record:
    problem = simulation.problem
    return Record(
        problem.horizon,
        simulation.runs,
        problem.agents,
        problem.arms,
        own_losses=problem.adaptive,
        dtype=simulation.dtype,
    )


def _check_problem(problem: Problem, memory: Any) -> None:
    """Check what can be known of the losses before the first round."""
    if problem.adaptive:
        check_adaptive(problem, memory)
    elif problem.traced:
        check_traced(problem)
    elif problem.check == "during":  # computed losses; stored ones are read and checked below
        check_called(problem)
    if problem.check == "before":
        step = chunking(problem, 1).rounds
        for first in range(1, problem.horizon + 1, step):
            interrupts.stop_if_requested()
            losses = problem.block(first, min(first + step - 1, problem.horizon))
            check_losses(losses, first, problem)
