"""Bernoulli losses: with given means, only for activated agents, or with a switching best arm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedbandits.arrays import Array, materialised
from fedbandits.common import checks
from fedbandits.common.streams import (
    LOSSES,
    as_uniforms,
    check_count,
    round_key,
    two_words_at,
    words,
    words_at,
)

from .base import Check, RoundKey, Seeded, Sized, check_sizes, static

_COMPARED = 64


def _words(seed: Array, t: Array, shape: tuple[int, int]) -> Array:
    """Return the random words of round t, a function of (seed, round, row, column)."""
    return words(round_key(LOSSES, seed, t), shape)


def _coins(drawn: Array, means: Array) -> Array:
    """Return independent Bernoulli losses; means 0 and 1 are exact, since 0 < u < 1."""
    return (as_uniforms(drawn) < means).astype("float32")


def _smallest(drawn: Array, count: int) -> Array:
    """Return whether each word is among the `count` smallest, of equal ones the first: `[N]`."""
    import jax.numpy as jnp

    agents = drawn.shape[0]
    if agents > _COMPARED:
        return _up_to(drawn, jnp.arange(agents, dtype="int32"), *_last_of_smallest(drawn, count))
    # Everyone with everyone: few agents are counted faster than sorted.
    earlier = np.arange(agents)[:, None] < np.arange(agents)
    before = jnp.where(earlier, drawn[:, None] <= drawn, drawn[:, None] < drawn)
    return before.sum(axis=0, dtype="int32") < count


def _last_of_smallest(drawn: Array, count: int) -> tuple[Array, Array]:
    """Return the largest of the `count` smallest words, and its last place among them."""
    import jax.numpy as jnp

    # Words alone are sorted several times faster than words with their places.
    largest = jnp.sort(drawn)[count - 1]
    wanted = count - (drawn < largest).sum(dtype="int32")
    place = (jnp.cumsum(drawn == largest, dtype="int32") >= wanted).argmax()
    return largest, place.astype("int32")


def _up_to(word: Array, place: Array, largest: Array, last: Array) -> Array:
    """Return whether words at these places are among the smallest, given the last of those."""
    return (word < largest) | (word == largest) & (place <= last)


def paper_means(arms: int) -> np.ndarray[Any, Any]:
    """Return μ_i = (i - 1)/(K - 1) for i = 1, ..., K.

    Example:
        >>> paper_means(3)
        array([0. , 0.5, 1. ], dtype=float32)
    """
    return np.linspace(0, 1, arms, dtype=np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Coins(Sized, Seeded):
    """Losses that are 0 or 1, drawn by a seed."""

    binary = True

    @property
    def check(self) -> Check:
        """Never: a coin is in [0, 1]."""
        return "never"

    def coins(self, t: Array, means: Array) -> Array:
        """Return the coins of round t, independent, with these means: `[N, K]`."""
        return _coins(_words(self.seed, t, (self.agents, self.arms)), means)


@dataclass(frozen=True, eq=False, repr=False)
class Bernoulli(Coins):
    """Independent coins with a mean per agent and arm."""

    means: Array
    """`[N, K]`, or `[1, K]` where they are the same for every agent."""
    seed: Array

    pointwise = True

    def losses(self, t: Array) -> Array:
        """Return ℓ_t^v(i) ~ Bernoulli(means[v, i]), `[N, K]`."""
        import jax

        check_count((self.agents, self.half_of_arms))
        shape = (self.agents, self.arms)
        agent, arm = (jax.lax.broadcasted_iota("int32", shape, axis) for axis in range(2))
        return _coins(self._words(self.key_of(t), agent, arm), self.means)

    def key_of(self, t: Array) -> RoundKey:
        """Return the key of round t."""
        return round_key(LOSSES, self.seed, t)

    def loss_with(self, key: RoundKey, agent: Array, arm: Array) -> Array:
        """Return the same coins, number by number."""
        return _coins(self._words(key, agent, arm), self._mean(agent, arm))

    def two_losses_with(self, key: RoundKey, agent: Array, arm: Array) -> tuple[Array, Array]:
        """Return the same coins, with one hash for two of them."""
        first, second = two_words_at((key[0], key[1]), self._place(agent, arm))
        other = (arm + self.half_of_arms).clip(max=self.arms - 1)
        return _coins(first, self._mean(agent, arm)), _coins(second, self._mean(agent, other))

    def _place(self, agent: Array, arm: Array) -> Array:
        return agent.astype("uint32") * np.uint32(self.half_of_arms) + arm.astype("uint32")

    def _words(self, key: RoundKey, agent: Array, arm: Array) -> Array:
        """Return a word of each hash: the first word for the first half of the arms.

        Both are then had for the price of one, where all losses are only added up.
        """
        import jax.numpy as jnp

        later = arm >= self.half_of_arms
        place = self._place(agent, jnp.where(later, arm - self.half_of_arms, arm))
        first, second = two_words_at((key[0], key[1]), place)
        return jnp.where(later, second, first)

    def _mean(self, agent: Array, arm: Array) -> Array:
        return self.means[agent if self.means.shape[0] > 1 else 0, arm]


@dataclass(frozen=True, eq=False, repr=False)
class ActivatedBernoulli(Coins):
    """A new random subset of agents sees losses in every round."""

    active: int = field(metadata=static)
    means: Array
    """`[K]`"""
    seed: Array

    pointwise = True

    def losses(self, t: Array) -> Array:
        """Return ℓ_t^v(i) ~ Bernoulli(means[i]) for v in U_t, else 0: `[N, K]`."""
        import jax.numpy as jnp

        drawn = _words(self.seed, t, (self.agents, self.arms + 1))
        # Without replacement: the agents with the smallest of N random words.
        active = _smallest(materialised(drawn[:, 0]), self.active)
        return jnp.where(active[:, None], _coins(drawn[:, 1:], self.means), 0.0)

    def key_of(self, t: Array) -> RoundKey:
        """Return the key of round t, and the last of the agents that see losses."""
        import jax.numpy as jnp

        key = round_key(LOSSES, self.seed, t)
        drawn = words_at(key, self._place(jnp.arange(self.agents, dtype="int32")))
        return (*key, *_last_of_smallest(drawn, self.active))

    def loss_with(self, key: RoundKey, agent: Array, arm: Array) -> Array:
        """Return the same coins, number by number."""
        import jax.numpy as jnp

        first, second, largest, last = key
        place = self._place(agent)
        sees = _up_to(words_at((first, second), place), agent, largest, last)
        word = words_at((first, second), place + np.uint32(1) + arm.astype("uint32"))
        return jnp.where(sees, _coins(word, self.means[arm]), 0.0)

    def _place(self, agent: Array) -> Array:
        return agent.astype("uint32") * np.uint32(self.arms + 1)


@dataclass(frozen=True, eq=False, repr=False)
class Switching(Coins):
    """The best arm changes between equal parts of the horizon."""

    best_arms: Array
    """The best arm of each part, `[parts]`."""
    best: Array
    other: Array
    seed: Array

    pointwise = True

    def losses(self, t: Array) -> Array:
        """Return Bernoulli losses, of mean `best` for the part's best arm, else `other`."""
        import jax.numpy as jnp

        return self.coins(t, self._means(jnp.arange(self.arms), self._best_arm(t)))

    def key_of(self, t: Array) -> RoundKey:
        """Return the key of round t, and its best arm."""
        return (*round_key(LOSSES, self.seed, t), self._best_arm(t))

    def loss_with(self, key: RoundKey, agent: Array, arm: Array) -> Array:
        """Return the same coins, number by number."""
        first, second, best = key
        place = agent.astype("uint32") * np.uint32(self.arms) + arm.astype("uint32")
        return _coins(words_at((first, second), place), self._means(arm, best))

    def _means(self, arm: Array, best: Array) -> Array:
        import jax.numpy as jnp

        return jnp.where(arm == best, self.best, self.other)

    def _best_arm(self, t: Array) -> Array:
        import jax.numpy as jnp

        parts = self.best_arms.shape[0]
        # Equal parts; the first few are one round longer if T is not a multiple of them.
        length, extra = divmod(self.horizon, parts)
        wide = extra * (length + 1)
        part = jnp.where(
            t <= wide, (t - 1) // (length + 1), extra + (t - 1 - wide) // max(length, 1)
        )
        return jnp.asarray(self.best_arms)[part]


def activated_bernoulli(
    agents: int,
    arms: int,
    horizon: int,
    *,
    active: int | None = None,
    means: Any = None,
    seed: int = 0,
) -> ActivatedBernoulli:
    """Make the paper's synthetic problem: in each round a random half of the agents sees losses.

    For v in U_t, ℓ_t^v(i) ~ Bernoulli(μ_i) with μ_i = (i - 1)/(K - 1); for all others the loss is
    0. U_t is drawn without replacement.

    Args:
        agents: N.
        arms: K.
        horizon: T.
        active: agents activated in each round; N/2, rounded up, by default.
        means: μ, `[K]`; the paper's by default.
        seed: the adversary's own seed.

    Example:
        >>> problem = activated_bernoulli(agents=36, arms=20, horizon=3000, seed=0)
        >>> losses = np.asarray(problem.losses(1))
        >>> losses.shape, int((losses.sum(axis=1) > 0).sum())
        ((36, 20), 18)
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    active = (agents + 1) // 2 if active is None else _subset_size(active, agents)
    return ActivatedBernoulli(
        agents, arms, horizon, active, _means(means, arms), np.uint32(checks.seed32(seed))
    )


def fixed_activation(
    agents: int,
    arms: int,
    horizon: int,
    *,
    active: int | list[int] | None = None,
    means: Any = None,
    seed: int = 0,
) -> Bernoulli:
    """Make Bernoulli losses for a fixed subset of the agents; all others always see 0.

    Args:
        agents: N.
        arms: K.
        horizon: T.
        active: the agents that see losses, or how many of them (drawn by the seed); half of them,
            rounded up, by default.
        means: μ, `[K]`; μ_i = (i - 1)/(K - 1) by default.
        seed: the adversary's own seed.

    Example:
        >>> problem = fixed_activation(agents=4, arms=3, horizon=10, active=[1, 2])
        >>> problem.means
        array([[0. , 0. , 0. ],
               [0. , 0.5, 1. ],
               [0. , 0.5, 1. ],
               [0. , 0. , 0. ]], dtype=float32)
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    mask = np.zeros((agents, 1), np.float32)
    if isinstance(active, list | tuple | np.ndarray):
        members = np.array([checks.whole(v, "an agent in active", least=0) for v in active], int)
        if members.size == 0:
            raise ValueError("active is empty; at least one agent must see losses")
        if members.max() >= agents:
            raise ValueError(
                f"active names agent {members.max()}; the agents are 0 to {agents - 1}"
            )
    else:
        size = (agents + 1) // 2 if active is None else _subset_size(active, agents)
        members = np.random.default_rng(checks.seed32(seed)).permutation(agents)[:size]
    mask[members] = 1
    return bernoulli(mask * _means(means, arms), horizon, seed=seed)


def bernoulli(means: Any, horizon: int, *, agents: int | None = None, seed: int = 0) -> Bernoulli:
    """Make independent Bernoulli losses with given means.

    Args:
        means: mean losses per agent and arm, `[N, K]`; or `[K]`, the same for all `agents`.
        horizon: T.
        agents: N, where `means` is `[K]`.
        seed: the adversary's own seed.

    Example:
        >>> problem = bernoulli([[0.2, 0.8], [0.9, 0.1]], horizon=100)
        >>> problem.agents, problem.arms
        (2, 2)
    """
    given = checks.real_array(means, "means")
    table = checks.unit_interval(given, "means", ("agent", "arm") if given.ndim == 2 else ("arm",))
    if table.ndim == 1 and agents is not None:
        table = table[None]
    elif agents is not None and table.shape[0] != agents:
        raise ValueError(f"means has {table.shape[0]} rows, but agents is {agents}")
    if table.ndim != 2:
        raise ValueError(
            f"means has shape {table.shape}; expected (agents, arms), or (arms,) with agents=N"
        )
    rows = table.shape[0] if agents is None else agents
    agents, arms, horizon = check_sizes(rows, table.shape[1], horizon)
    return Bernoulli(
        agents, arms, horizon, table.astype(np.float32), np.uint32(checks.seed32(seed))
    )


def switching(
    agents: int,
    arms: int,
    horizon: int,
    *,
    parts: int = 4,
    best: float = 0.25,
    other: float = 0.5,
    seed: int = 0,
) -> Switching:
    """Change the best arm: the horizon has `parts` equal parts, each with another best arm.

    Losses are Bernoulli, of mean `best` for the best arm of the part and `other` for the rest, the
    same for every agent.

    Example:
        >>> problem = switching(agents=3, arms=5, horizon=100, parts=4)
        >>> len(set(problem.best_arms.tolist()))
        4
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    parts = checks.whole(parts, "parts", least=1)
    if parts > horizon:
        raise ValueError(f"parts must be at most the horizon {horizon}, not {parts}")
    checks.fits(12 * parts, f"the best arms of {parts:,} parts")
    for name, mean in (("best", best), ("other", other)):
        checks.unit_interval(mean, name)
    order = np.random.default_rng(checks.seed32(seed)).permutation(arms)
    return Switching(
        agents,
        arms,
        horizon,
        np.resize(order, parts).astype(np.int32),
        np.float32(best),
        np.float32(other),
        np.uint32(seed),
    )


def _subset_size(active: Any, agents: int) -> int:
    size = checks.whole(active, "active", least=1)
    if size > agents:
        raise ValueError(f"active must be at most the number of agents {agents}, not {size}")
    return size


def _means(means: Any, arms: int) -> np.ndarray[Any, Any]:
    if means is None:
        return paper_means(arms)
    values = checks.unit_interval(means, "means", ("arm",))
    if values.shape != (arms,):
        raise ValueError(f"means has shape {values.shape}; expected (arms,) = ({arms},)")
    return values.astype(np.float32)
