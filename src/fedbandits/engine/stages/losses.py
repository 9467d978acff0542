"""The losses stage: drawn by the program, given with the chunk, or adaptive with a memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.problems.adaptive import Adaptive, like
from fedbandits.problems.base import Problem
from fedbandits.results.record import Invalid


class RoundLosses(NamedTuple):
    """The losses of a round.

    Attributes:
        values: `[K, N]`; of an adaptive problem `[K, R, N]`.
        mean: the mean over recorded agents, ℓ̄_t(i), `[K]` or `[K, R]`.
        valid: whether all losses are in [0, 1]; always true where they are not checked.
        invalid: the first one that is not, of a checked adaptive problem.
    """

    values: Array
    mean: Array
    valid: Array
    invalid: Invalid | None = None


@dataclass(frozen=True)
class Losses:
    """Losses that the program draws from a problem; base class of the other losses stages.

    Attributes:
        source: the problem.
        checked: whether losses outside [0, 1] are looked for.
        recorded: returns the part of an array that belongs to recorded agents.
    """

    source: Any
    checked: bool
    recorded: Callable[[Array], Array]

    def ahead(self, times: Array, given: Array | None, dtype: Any) -> RoundLosses | None:  # noqa: ARG002
        """Return the losses of several rounds at once, or None if that is impossible."""
        return jax.vmap(lambda t: self.of(t, dtype, None))(times)

    def of(self, t: Array, dtype: Any, memory: Any) -> RoundLosses:  # noqa: ARG002
        """Return the losses of round t."""
        raw = jnp.asarray(self.source.losses(t)).T
        if self.source.binary and not self.checked:  # a byte each, where losses are kept at all
            raw = raw > 0
        # The barrier keeps XLA from making the losses again wherever they are needed.
        return self._checked(jax.lax.optimization_barrier(raw), dtype)

    def after(self, memory: Any, action: Array, t: Array) -> Any:  # noqa: ARG002
        """Return the problem's memory after these arms were played, `[R, N]`."""
        return memory

    def _checked(self, raw: Array, dtype: Any) -> RoundLosses:
        """Return losses with their mean, and whether they are in [0, 1]."""
        values = raw.astype(dtype)
        valid = ((raw >= 0) & (raw <= 1)).all() if self.checked else jnp.array(True)
        # Adaptive losses cannot be recomputed later.
        invalid = _first_invalid(raw) if self.checked and raw.ndim == 3 else None
        return RoundLosses(values, self.recorded(values).mean(axis=-1), valid, invalid)


@dataclass(frozen=True)
class GivenLosses(Losses):
    """Losses that come with the chunk, from a file or from a function on the host."""

    def ahead(self, times: Array, given: Array | None, dtype: Any) -> RoundLosses:  # noqa: ARG002
        """Return the losses of several rounds, `[C, K, N]`, as they are given."""
        return jax.vmap(lambda raw: self._checked(raw, dtype))(given)


@dataclass(frozen=True)
class AdaptiveLosses(Losses):
    """Losses that depend on the arms played before, in each run on its own."""

    def ahead(self, times: Array, given: Array | None, dtype: Any) -> None:
        """Return None: the arms of earlier rounds must be known first."""

    def of(self, t: Array, dtype: Any, memory: Any) -> RoundLosses:
        """Return the losses of round t, `[K, R, N]`."""
        raw = losses_given(self.source, t, memory)
        return self._checked(jax.lax.optimization_barrier(raw), dtype)

    def after(self, memory: Any, action: Array, t: Array) -> Any:
        """Return the memory of each run after its arms were played."""
        return watched(self.source, memory, action, t)


def losses_stage(
    source: Problem | Array, *, checked: bool, recorded: Callable[[Array], Array]
) -> Losses:
    """Return the stage for a problem, or for losses that are given with the chunk."""
    kind = GivenLosses
    if isinstance(source, Problem):
        kind = AdaptiveLosses if source.adaptive else Losses  # type: ignore[assignment]
    return kind(source, checked, recorded)


def _first_invalid(losses: Array) -> Invalid:
    """Return the first loss outside [0, 1] by run, agent and arm, of losses `[K, R, N]`."""
    in_order = jnp.moveaxis(losses, 0, 2).reshape(-1)
    place = (~((in_order >= 0) & (in_order <= 1))).argmax().astype("int32")  # NaN fails both
    return Invalid(place, in_order[place])


def first_memory(problem: Problem, runs: int, dtype: DTypeLike) -> Any:
    """Return the memory of each run before round 1, `[R, ...]`; None if there is none."""
    if not problem.adaptive:
        return None

    def of_all_runs(x: Any) -> np.ndarray[Any, Any]:
        array = np.asarray(x)
        kind = dtype if np.issubdtype(array.dtype, np.floating) else array.dtype
        return np.broadcast_to(array.astype(kind), (runs, *array.shape))

    return jax.tree.map(of_all_runs, _adaptive(problem).memory())


def losses_given(problem: Problem, t: Array, memory: Any) -> Array:
    """Return the losses of round t, in each run given its memory: `[K, R, N]`."""
    # Run by run, so that no run can use the memory of another.
    each = jax.vmap(_adaptive(problem).losses_given, in_axes=(None, 0))(t, memory)
    return jnp.moveaxis(each, 2, 0)


def watched(problem: Problem, memory: Any, action: Array, t: Array) -> Any:
    """Return the memory of each run after round t, in which these arms were played, `[R, N]`."""
    each = jax.vmap(_adaptive(problem).watch, in_axes=(0, 0, None))(memory, action, t)
    return like(each, memory)


def _adaptive(problem: Any) -> Adaptive:
    adaptive: Adaptive = problem
    return adaptive
