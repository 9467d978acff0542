"""Checks an algorithm against the contract before a run: by shapes, and by its first play."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.engine.stages.pending_messages import own_state
from fedbandits.engine.stages.round import draw_uniforms, play_round
from fedbandits.engine.stages.stages import Stages
from fedbandits.problems.base import Problem

from .tracing_errors import FAULTS, explanation

# Traced once for each kind of algorithm and size, not with every simulation.
_distribution = jax.jit(lambda algorithm, state, t: algorithm.distribution(state, t))
_message = jax.jit(lambda algorithm, state: algorithm.message(state))
_round = jax.jit(play_round)
_uniforms = jax.jit(
    lambda algorithm, stages, t, *sizes: draw_uniforms(algorithm, stages, t, t, *sizes),
    static_argnums=(3, 4),
)

_ARM = 4
"""Bytes of an arm's number, where it and one value are all of a leaf that is sent."""


def check_contract(
    algorithm: AnyAlgorithm, stages: Stages, state: Any, problem: Problem, runs: int
) -> dict[str, int]:
    """Refuse an algorithm whose shapes, names or types are not those of the contract.

    Returns:
        the bytes of each leaf of one agent's message.
    """
    try:
        return _checked(algorithm, stages, state, problem, runs)
    except FAULTS as error:
        name = type(algorithm).__name__
        explained = explanation(error, name)
        if explained is not None:
            raise explained from error
        error.add_note(
            f"{name} must be traceable by JAX: take array functions from "
            "p.__array_namespace__(), do not branch on array values or write into arrays, and mark "
            'fields that are not numbers with field(metadata={"static": True})'
        )
        raise


def _checked(
    algorithm: AnyAlgorithm, stages: Stages, state: Any, problem: Problem, runs: int
) -> dict[str, int]:
    name = type(algorithm).__name__
    batch = (runs, problem.agents)
    full = (problem.arms, *batch)
    t = jax.ShapeDtypeStruct((), np.int32)
    inner = own_state(state)
    p = _distribution.eval_shape(algorithm, inner, t)
    if p.shape != full:
        raise ValueError(
            f"{name}.distribution gives shape {p.shape}; expected [K, *batch] = {full}"
        )
    _check_first_distribution(algorithm, problem, p.dtype)
    message = _message.eval_shape(algorithm, inner)
    if set(message) != set(algorithm.leaves):
        raise ValueError(
            f"{name}.message sends {sorted(message)}, but its leaves declare "
            f"{sorted(algorithm.leaves)}"
        )
    for leaf, value in message.items():
        if value.shape[1:] != batch:
            raise ValueError(
                f"{name}.message[{leaf!r}] has shape {value.shape}; expected [M, *batch] with "
                f"batch {batch}"
            )
    dtype = p.dtype
    shape = full if problem.adaptive else (problem.arms, problem.agents)
    losses = jax.ShapeDtypeStruct(shape, dtype)
    uniforms = _uniforms.eval_shape(algorithm, stages, t, batch, dtype)
    after, _ = _round.eval_shape(algorithm, stages, state, losses, uniforms, t)
    before = jax.eval_shape(lambda s: s, state)
    old, new = _leaves(before), _leaves(after)
    if old.keys() != new.keys():
        raise ValueError(f"{name}.update gives {after}; expected a state like {before}")
    for leaf in old:
        if old[leaf] != new[leaf]:
            raise ValueError(
                f"{name}.update changes state{leaf} from {old[leaf]} to {new[leaf]}; a state "
                "keeps its shapes and types"
            )
    return {
        leaf: (1 if algorithm.leaves[leaf].one_hot else value.shape[0]) * value.dtype.itemsize
        + (_ARM if algorithm.leaves[leaf].one_hot else 0)
        for leaf, value in message.items()
    }


def _check_first_distribution(algorithm: AnyAlgorithm, problem: Problem, dtype: Any) -> None:
    """The one thing looked at by value: what a single agent plays from in round 1."""
    state = algorithm.init(problem.arms, problem.agents, (), dtype)
    try:
        with np.errstate(all="ignore"):  # the distribution itself is looked at
            p = np.asarray(algorithm.distribution(state, np.int32(1)))  # as a live agent does
    except Exception:  # it may be written for JAX's arrays alone: compiled then, which takes longer
        p = np.asarray(_distribution(algorithm, state, np.int32(1)))
    if not ((p >= 0).all() and abs(p.sum() - 1) < 1e-3):  # NaN fails too
        raise ValueError(
            f"{type(algorithm).__name__}.distribution is no distribution in round 1: it sums to "
            f"{p.sum():g} over the arms, with smallest value {p.min():g}"
        )


def _leaves(state: Any) -> dict[str, str]:
    """Shape and type of each leaf by its place, for example `{".z": "float32[20, 10, 36]"}`."""
    return {
        jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}"
        for path, leaf in jax.tree.leaves_with_path(state)
    }
