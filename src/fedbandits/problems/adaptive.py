"""Adaptive adversaries: losses that depend on the arms played before, separately in each run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common.describe import Fresh, array_hash

from .base import Check, Inside, Problem, Sized, check_shape, check_sizes, static

_PLAYED = 64
"""Functions are known by a hash of the losses of this many rounds, arms being played in turn."""


class Adaptive(Problem):
    """Losses in [0, 1] that depend on the round and on the arms that all agents played before it.

    A subclass is a frozen dataclass like any problem. It defines one run by `memory`,
    `losses_given` and `watch`, with array functions of `jax.numpy`. Every run has its own memory.
    ℓ_t may depend on arms up to round t - 1, and never on arms of round t.

    The regret of a run is against the losses of that run, Σ_t ⟨p_t, ℓ̄_t⟩ - min_i Σ_t ℓ̄_t(i). It
    compares with a fixed arm on the same losses. Had that arm been played, the adversary might have
    chosen other losses; policy regret counts this, and this regret does not. The paper's theorems
    are about losses fixed in advance and do not apply.

    Example:
        >>> from dataclasses import dataclass, field
        >>> import jax.numpy as jnp
        >>> @dataclass(frozen=True, eq=False, repr=False)
        ... class Spiteful(Adaptive):
        ...     '''An agent's last arm costs it 1, every other arm nothing.'''
        ...     agents: int = field(metadata={"static": True})
        ...     arms: int = field(metadata={"static": True})
        ...     horizon: int = field(metadata={"static": True})
        ...     def memory(self):
        ...         return jnp.zeros((self.agents, self.arms))
        ...     def losses_given(self, t, memory):
        ...         return memory
        ...     def watch(self, memory, action, t):
        ...         return (action[:, None] == jnp.arange(self.arms)).astype(memory.dtype)
        >>> import fedbandits as fb
        >>> result = fb.simulate(Spiteful(2, 3, 20), fb.Exp3(), runs=4)
        >>> result.dataset["arm_loss"].dims
        ('run', 'time', 'arm')
    """

    adaptive: ClassVar[bool] = True

    @abstractmethod
    def memory(self) -> Any:
        """Return the memory before round 1 of a run: arrays, or a tuple or dict of them."""

    @abstractmethod
    def losses_given(self, t: Array, memory: Any) -> Array:
        """Return ℓ_t^v(i), the losses of round t of a run with this memory: `[N, K]`."""

    @abstractmethod
    def watch(self, memory: Any, action: Array, t: Array) -> Any:
        """Return the memory after round t, in which these arms were played, `[N]`.

        Of the shapes and types that `memory` has.
        """

    def losses(self, t: Array) -> NoReturn:
        """Raise an error: there are no losses before arms are played."""
        raise TypeError(
            f"{self.title} has no losses at round {t} that arms do not decide: every run has its "
            "own. fb.simulate plays it; losses_given(t, memory) are those of a run"
        )

    def block(self, first: int, last: int) -> NoReturn:  # noqa: ARG002
        """Raise an error: there are no losses before arms are played."""
        self.losses(first)

    def in_run(self, run: int, t: int, v: int, i: int) -> str:
        """Return the name of the loss of a run, round, agent and arm, for errors."""
        return f"in run {run} {self.cell(t, v, i)}"


@dataclass(frozen=True, eq=False, repr=False)
class Watching(Inside, Adaptive):
    """Losses fixed in advance and changed by the arms played: the base of the adversaries here.

    The inner problem has the losses of an oblivious adversary.
    """

    @property
    def check(self) -> Check:
        """Never, where the losses inside need none: what is made of them stays in [0, 1]."""
        return "never" if self.problem.check == "never" else "during"

    def describe(self) -> dict[str, Any]:
        """Return the description, with that of the inner problem."""
        return super().describe() | {"problem": self.problem.describe()}


def check_inside(problem: Any, name: str) -> tuple[int, int, int, Problem]:
    """Return the first fields of a `Watching`; reject problems that JAX cannot trace."""
    if not isinstance(problem, Problem):
        raise TypeError(
            f"{name} takes the losses of an oblivious adversary, a problem such as "
            f"fb.problems.bernoulli(...), not {problem!r}"
        )
    if problem.adaptive:
        raise ValueError(
            f"{problem.title} watches already; write an fb.problems.Adaptive that does both"
        )
    if not problem.traced:
        raise ValueError(
            f"the losses of {problem.title} are stored or made on the host, and {name} needs "
            "those of every round within JAX: take a problem that JAX makes, such as "
            "fb.problems.bernoulli or fb.problems.from_function"
        )
    return problem.agents, problem.arms, problem.horizon, problem


def raised(losses: Array, by: Array) -> Array:
    """Return losses raised by a share of their distance to 1: ℓ + (1 - ℓ) · by.

    Example:
        >>> import numpy as np
        >>> raised(np.array([0.0, 0.5, 0.5]), np.array([1.0, 1.0, 0.0]))
        array([1. , 1. , 0.5])
    """
    return losses + (1 - losses) * by


@dataclass(frozen=True, eq=False, repr=False)
class AdaptiveFunctions(Sized, Adaptive):
    """Two functions of the user's, and what is remembered before round 1."""

    function: Fresh = field(metadata=static)
    watcher: Fresh = field(metadata=static)
    start: Any

    def memory(self) -> Any:
        """Return the given memory."""
        return self.start

    def losses_given(self, t: Array, memory: Any) -> Array:
        """Return `function(t, memory)`, `[N, K]`."""
        losses = self.function(t, memory)
        check_shape(np.shape(losses), self)
        return losses

    def watch(self, memory: Any, action: Array, t: Array) -> Any:
        """Return `watch(memory, action, t)`."""
        return self.watcher(memory, action, t)

    def describe(self) -> dict[str, Any]:
        """Return sizes, the functions' names, and a hash of the losses if arms are played in turn.

        For checkpoints the hash distinguishes functions of one name, unless they differ only after
        its rounds or for other arms.
        """
        import jax
        import jax.numpy as jnp

        agents = jnp.arange(self.agents, dtype="int32")

        def step(memory: Any, t: Array) -> tuple[Any, Array]:
            seen = self.watch(memory, (agents + t) % self.arms, t)
            return like(seen, memory), self.losses_given(t, memory)

        rounds = jnp.arange(1, min(self.horizon, _PLAYED) + 1, dtype="int32")
        start = jax.tree.map(jnp.asarray, self.start)
        sampled = np.asarray(jax.jit(lambda: jax.lax.scan(step, start, rounds)[1])(), np.float64)
        return super().describe() | {"name": "adaptive", "sha256": array_hash(sampled)}


def like(memory: Any, before: Any) -> Any:
    """Return a memory in the types of the previous one."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), memory, before)


def adaptive(
    function: Callable[[Array, Any], Any],
    watch: Callable[[Any, Array, Array], Any],
    memory: Any,
    *,
    agents: int,
    arms: int,
    horizon: int,
) -> AdaptiveFunctions:
    """Make an adaptive adversary from two functions that JAX can trace.

    In round t of a run the losses are `function(t, memory)`, an array `[N, K]` in [0, 1]. Then all
    agents play, and the memory becomes `watch(memory, action, t)`, where `action` is the arms
    played, `[N]`, counted from 0. Every run has its own memory. See `Adaptive` for the definition
    of regret, and for a class in place of functions.

    Args:
        function: the losses of round t, given the memory.
        watch: the memory after round t; with the shapes and types of `memory`.
        memory: the memory before round 1: an array, or a tuple or dict of arrays.
        agents: N.
        arms: K.
        horizon: T.

    Example:
        >>> import jax.numpy as jnp
        >>> import fedbandits as fb
        >>> last = lambda memory, action, t: action
        >>> dear = lambda t, memory: (memory[:, None] == jnp.arange(3)) * 1.0
        >>> start = jnp.full(2, -1)  # no arm yet
        >>> problem = fb.problems.adaptive(dear, last, start, agents=2, arms=3, horizon=20)
        >>> fb.simulate(problem, fb.Exp3(), runs=4).dataset["regret"].shape
        (4, 20)
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    for name, value, call in (
        ("function", function, "function(t, memory)"),
        ("watch", watch, "watch(memory, action, t)"),
    ):
        if not callable(value):
            raise TypeError(f"{name} must be callable as {call}, not {value!r}")
    return AdaptiveFunctions(agents, arms, horizon, Fresh(function), Fresh(watch), memory)
