"""Losses must be a function of the round, not of the moment in which they are asked for.

JAX calls `losses(t)` once and keeps what it did with t. What the function draws or reads elsewhere
stays as it was then: one matrix for all rounds, and a regret that looks plausible. On the host it
would be other losses whenever they are asked for: a run that is resumed would not go on.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from fedbandits.problems.base import Problem, check_shape

# Each is traced once for each kind of problem and size, not with every simulation.
_losses = jax.jit(lambda problem, t: problem.losses(t))
_once_more = jax.jit(lambda problem, t: problem.losses(t))
_given = jax.jit(lambda problem, t, memory: problem.losses_given(t, memory))
_given_again = jax.jit(lambda problem, t, memory: problem.losses_given(t, memory))
_watch = jax.jit(lambda problem, memory, action, t: problem.watch(memory, action, t))

_REMEDY = (
    "Draw with jax.random.fold_in(key, t), or pass host=True to fb.problems.from_function, which "
    "then calls the function in every round (there np.random.default_rng((seed, t)) draws the "
    "same again when asked again)"
)


def check_traced(problem: Problem) -> None:
    """Refuse traced losses of another shape, or frozen when they were traced."""
    try:
        one, other = (
            f.trace(problem, jax.ShapeDtypeStruct((), np.int32)) for f in (_losses, _once_more)
        )
    except TypeError as error:  # among them JAX's own, of plain NumPy or Python on a traced t
        raise TypeError(
            f"{problem.title} cannot be traced by JAX: {str(error).partition(chr(10))[0]} For "
            "losses in plain Python or NumPy, pass host=True to fb.problems.from_function"
        ) from error
    _check_same(
        problem,
        one,
        other,
        f"{_REMEDY}. For one matrix in all rounds, make it first and let the function return it, "
        "with constant=True",
    )
    if problem.horizon > 1 and not problem.constant and not _uses_round(one.jaxpr.jaxpr):
        raise ValueError(
            f"{problem.title}: the losses do not depend on the round t: JAX calls the function "
            f"once, and what it gives would be the losses of all {problem.horizon} rounds. "
            f"{_REMEDY}. If they are meant to be constant, pass constant=True, or write "
            "`constant = True` in a class of your own"
        )


def check_adaptive(problem: Any, memory: Any) -> None:
    """Refuse a problem that watches but does not use what it saw, or keeps it otherwise each time.

    Args:
        problem: an `Adaptive`.
        memory: what it remembers of all runs before round 1, `[R, ...]`.
    """
    before = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], _dtype(x)), memory)
    if not jax.tree.leaves(before):
        raise ValueError(
            f"{problem.title}: memory is {before!r} and holds no array: what does it remember?"
        )
    t, action = (jax.ShapeDtypeStruct(shape, np.int32) for shape in ((), (problem.agents,)))
    try:
        one, other = (f.trace(problem, t, before) for f in (_given, _given_again))
        after = _watch.eval_shape(problem, before, action, t)
    except TypeError as error:
        raise TypeError(
            f"{problem.title} cannot be traced by JAX: {str(error).partition(chr(10))[0]} Take "
            "array functions from jax.numpy"
        ) from error
    _check_same(problem, one, other, "Draw with jax.random.fold_in(key, t)")
    _, used = dce_jaxpr(one.jaxpr.jaxpr, [True])
    if not any(used[-len(jax.tree.leaves(before)) :]):
        raise ValueError(
            f"{problem.title}: the losses do not depend on what is remembered; if they depend on "
            "the round alone, take fb.problems.from_function"
        )
    kinds: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"{problem.title}: watch gives {after}; expected, as in memory, {before}")
    for (path, new), old in zip(
        jax.tree.leaves_with_path(after), jax.tree.leaves(before), strict=True
    ):
        if new.shape != old.shape or not np.can_cast(new.dtype, old.dtype, "same_kind"):
            raise ValueError(
                f"{problem.title}: watch changes memory{jax.tree_util.keystr(path)} from "
                f"{old.dtype}{list(old.shape)} to {new.dtype}{list(new.shape)}; a memory keeps "
                "its shapes and types"
            )


def _check_same(problem: Any, one: Any, other: Any, remedy: str) -> None:
    """Refuse losses of another shape, or that two traces of one round give differently."""
    check_shape(one.out_info.shape, problem)
    if _constants(one.jaxpr) != _constants(other.jaxpr):
        raise ValueError(
            f"{problem.title}: the losses of one round differ when asked for again: they use "
            "random numbers, or something else that changes, from outside JAX, which would keep "
            f"those of one moment for all rounds. {remedy}"
        )


def _dtype(x: Any) -> Any:
    """As JAX has it: of 32 bits, outside the scope of 64."""
    return jax.dtypes.canonicalize_dtype(x.dtype)


def check_called(problem: Problem) -> None:
    """Refuse losses computed on the host that change from call to call, or never.

    Never: in the first, the second, the middle and the last round, asked for only as long as they
    are alike.
    """
    fix = "Draw with np.random.default_rng((seed, t)), which gives the same again when asked again"
    first = np.array(problem.losses(1))  # a copy: the function may write into its array again
    if first.dtype.kind in "OSUcmM":
        raise TypeError(
            f"{problem.title}: the losses of round 1 are of type {first.dtype}; expected numbers"
        )

    def alike(t: int) -> bool:
        return np.array_equal(first, np.asarray(problem.losses(t)), equal_nan=True)

    if not alike(1):
        raise ValueError(
            f"{problem.title}: the losses of round 1 differ when asked for again: they use random "
            "numbers, or something else, that change from call to call, and a run that is resumed "
            f"asks again. {fix}"
        )
    rounds = sorted({1, min(2, problem.horizon), max(1, problem.horizon // 2), problem.horizon})
    if len(rounds) > 1 and not problem.constant and all(alike(t) for t in rounds[1:]):
        raise ValueError(
            f"{problem.title}: the losses of rounds {', '.join(map(str, rounds))} are all the "
            f"same: do they depend on the round t? {fix}. If they are meant to be the same, or "
            "only happen to be in these rounds, pass constant=True, or write `constant = True` in "
            "a class of your own"
        )


def _uses_round(jaxpr: Any) -> bool:
    """Whether what comes out depends on the last input, t."""
    _, used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return bool(used[-1])


def _constants(jaxpr: Any) -> list[bytes]:
    """Every array and number that was there when a function was traced."""
    found = [_bytes(value) for value in getattr(jaxpr, "consts", ())]  # an open one has none
    for equation in jaxpr.eqns:
        found += [_bytes(x.val) for x in equation.invars if hasattr(x, "val")]  # a literal
        for inside in jax.tree.leaves(equation.params):
            if hasattr(inside, "eqns"):  # the body of a jit, a branch, a loop
                found += _constants(inside)
    return found


def _bytes(value: Any) -> bytes:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value).tobytes()
