"""Losses that are linear in the arms, which are vectors: many arms, few dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.common.streams import LOSSES, as_uniforms, round_key, words

from .base import Check, Seeded, Sized, check_sizes

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False, repr=False)
class Linear(Sized, Seeded):
    """ℓ_t^v(k) = ⟨a_k, θ_t^v⟩, with parameters that differ between agents and change."""

    vectors: Array
    """a_k = (1, x_k), `[K, d]`, with ‖x_k‖ <= 1."""
    common: Array
    """The share of μ in θ, in [0, 1]."""
    mean: Array
    """μ, what all agents have in common in all rounds, `[d - 1]`, ‖μ‖ = 1."""
    own: Array
    """h^v, how each agent differs in all rounds, `[N, d - 1]`, ‖h^v‖ <= 1, summing to 0."""
    drift: Array
    """g, along which all agents move to and fro, `[d - 1]`, ‖g‖ = 1."""
    period: Array
    """Rounds of one to and fro."""
    seed: Array

    @property
    def check(self) -> Check:
        """Never: ‖x‖ <= 1 and ‖w‖ <= 1 keep 1/2 + ⟨x, w⟩/2 in [0, 1]."""
        return "never"

    @property
    def actions(self) -> Array:  # type: ignore[override]
        """a_k, `[K, d]`."""
        return self.vectors

    def parameters(self, t: Array) -> Array:
        """Return θ_t^v = (1/2, w_t^v / 2), `[N, d]`."""
        import jax.numpy as jnp

        features = self.mean.shape[0]
        drawn = as_uniforms(words(round_key(LOSSES, self.seed, t), (self.agents, features)))
        noise = (2 * drawn - 1) / math.sqrt(features)  # of length 1 at most
        swing = jnp.sin(2 * jnp.pi * t / self.period) * self.drift
        others = self.own / 2 + swing / 4 + noise / 4
        w = self.common * self.mean + (1 - self.common) * others
        half = jnp.full((self.agents, 1), 0.5, w.dtype)
        return jnp.concatenate([half, w / 2], axis=1)

    def losses(self, t: Array) -> Array:
        """Return ℓ_t^v(k) = ⟨a_k, θ_t^v⟩, `[N, K]`."""
        import jax.numpy as jnp

        exact = jnp.matmul(self.parameters(t), jnp.asarray(self.vectors).T, precision="highest")
        return jnp.clip(exact, 0.0, 1.0)  # rounding alone could leave [0, 1]


def linear(
    agents: int,
    arms: int,
    horizon: int,
    *,
    dimension: int | None = None,
    features: Any = None,
    common: float = 0.4,
    period: float = 100.0,
    seed: int = 0,
) -> Linear:
    """Make losses that are linear in the arms: ℓ_t^v(k) = ⟨a_k, θ_t^v⟩ with a_k and θ_t^v in R^d.

    a_k = (1, x_k) and θ_t^v = (1/2, w_t^v / 2), so that ℓ_t^v(k) = 1/2 + ⟨x_k, w_t^v⟩ / 2 is in
    [0, 1] and linear, the constant coordinate counting as one of the d. With c = `common`,

    w_t^v = c μ + (1 - c) (h^v / 2 + g sin(2π t / period) / 4 + ε_t^v / 4):

    a direction μ that all agents share, one of each agent's own with Σ_v h^v = 0, one that all
    move along to and fro, and noise, uniform in a cube inside the unit ball. Over all agents and
    whole periods the best arm has the smallest ⟨x_k, μ⟩; for a single agent it may be another.

    Args:
        agents: N.
        arms: K.
        horizon: T.
        dimension: d, the constant coordinate included; 5 by default, or what `features` say.
        features: x_k, `[K, d - 1]`, divided by the longest of them; by default drawn uniformly on
            the unit sphere. The first arms are then the same for every K.
        common: c, in [0, 1].
        period: rounds of one to and fro.
        seed: the adversary's own seed.

    Example:
        >>> problem = linear(agents=4, arms=1000, horizon=100, dimension=5)
        >>> problem.actions.shape, np.asarray(problem.losses(1)).shape
        ((1000, 5), (4, 1000))
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    checks.unit_interval(common, "common")
    checks.within(period, "period", "(0, inf)")
    # Separate streams: μ, h and g do not depend on K.
    for_arms, for_losses = (np.random.default_rng([checks.seed32(seed), i]) for i in range(2))
    if features is None:
        d = 5 if dimension is None else dimension
        d = checks.whole(d, "dimension", least=2, most=checks.INT32)
        checks.fits(8 * (agents + arms) * d, f"{agents + arms:,} vectors of dimension {d:,}")
        size = d - 1
        x = _unit(for_arms.normal(size=(arms, size)))
    else:
        x = _features(features, arms, dimension)
    size = x.shape[1]
    mean, drift = _unit(for_losses.normal(size=(2, size)))
    own = for_losses.normal(size=(agents, size))
    own -= own.mean(axis=0)
    longest = np.linalg.norm(own, axis=1).max()
    own = own / longest if agents > 1 else 0 * own
    return Linear(
        agents,
        arms,
        horizon,
        np.column_stack([np.ones(arms), x]).astype(np.float32),
        np.float32(common),
        mean.astype(np.float32),
        own.astype(np.float32),
        drift.astype(np.float32),
        np.float32(period),
        np.uint32(seed),
    )


def _unit(x: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(x, axis=1, keepdims=True)
    return x / lengths


def _features(features: Any, arms: int, dimension: int | None) -> Floats:
    """Return given features, scaled to the unit ball."""
    x = np.asarray(features, np.float64)
    if x.ndim != 2 or x.shape[0] != arms or x.shape[1] == 0:
        raise ValueError(f"features has shape {x.shape}; expected (arms, d - 1) = ({arms}, d - 1)")
    if dimension is not None and dimension != x.shape[1] + 1:
        raise ValueError(
            f"dimension is {dimension}, but the features with a constant make "
            f"{x.shape[1] + 1}; leave dimension out"
        )
    if not np.isfinite(x).all():
        arm, column = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(f"features must be finite, but at arm {arm} feature {column} is not")
    longest = float(np.linalg.norm(x, axis=1).max())
    if longest == 0:
        raise ValueError("features are all 0, so all arms are the same; give others")
    return x / longest
