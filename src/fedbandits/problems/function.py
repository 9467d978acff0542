"""Losses from a function of the round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common.describe import Fresh, array_hash

from .base import Sized, check_shape, check_sizes, static

_SAMPLED = 64
"""A function is known by a hash of its losses in this many rounds."""


@dataclass(frozen=True, eq=False, repr=False)
class TracedFunction(Sized):
    """A JAX-traceable function of the round."""

    function: Fresh = field(metadata=static)
    constant: bool = field(default=False, metadata=static)  # type: ignore[misc]

    def losses(self, t: Array) -> Array:
        """Return `function(t)`, `[N, K]`."""
        # A traceable function may treat t as an array, also where it is not traced.
        losses = self.function(np.int32(t) if self.traced and isinstance(t, int) else t)
        check_shape(np.shape(losses), self)
        return losses

    def describe(self) -> dict[str, Any]:
        """Return sizes, the function's name, and a hash of its losses in some rounds.

        For checkpoints the hash distinguishes functions of one name, unless they differ only in
        other rounds.
        """
        count = min(self.horizon, _SAMPLED)
        rounds = [1 + i * (self.horizon - 1) // max(count - 1, 1) for i in range(count)]
        sampled = np.stack([np.asarray(self.losses(t), np.float64) for t in rounds])
        return super().describe() | {"name": "from_function", "sha256": array_hash(sampled)}


@dataclass(frozen=True, eq=False, repr=False)
class HostFunction(TracedFunction):
    """A plain Python function of the round, called on the host."""

    traced: ClassVar[bool] = False


def from_function(
    function: Callable[[Array], Any],
    *,
    agents: int,
    arms: int,
    horizon: int,
    host: bool = False,
    constant: bool = False,
) -> TracedFunction:
    """Compute losses by `function(t)` for t = 1, ..., T, an array `[N, K]` in [0, 1].

    It must be a pure function of the round: the adversary is oblivious, and a run that is resumed
    asks for the same round again. After changing what the function depends on, make a new problem.

    JAX calls the function once and keeps what it did with t. Random numbers from outside JAX would
    be the same in all rounds: `fb.simulate` calls it twice to see whether it gives the same again,
    and refuses it if not, or if it does not use t at all. (What a function that you compiled with
    `jax.jit` yourself has kept cannot be seen.) A function on the host is asked for round 1 twice,
    and rejected if the answers differ, or if rounds 1, 2, T/2 and T are equal.

    Args:
        function: JAX-traceable (t is then a traced integer), or plain Python with `host=True`.
        agents: N.
        arms: K.
        horizon: T.
        host: call the function in Python, once per round. Slower, but NumPy will do.
        constant: the losses are meant to be the same in every round, or in most.

    Example:
        >>> import jax.numpy as jnp
        >>> wave = lambda t: (1 + jnp.sin(t / 50 + jnp.arange(12.0))).reshape(4, 3) / 2
        >>> from_function(wave, agents=4, arms=3, horizon=1000).losses(1).shape
        (4, 3)
        >>> import jax
        >>> draw = lambda t: jax.random.uniform(jax.random.fold_in(jax.random.key(0), t), (4, 3))
        >>> bool((draw(1) == draw(2)).any())
        False
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    if not callable(function):
        raise TypeError(f"function must be callable as function(t), not {function!r}")
    if not isinstance(constant, bool):
        raise TypeError(f"constant must be True or False, not {constant!r}")
    kind = HostFunction if host else TracedFunction
    return kind(agents, arms, horizon, Fresh(function), constant)
