"""A round of many agents on a CPU, tile after tile: each reads and writes its part of memory once.

XLA passes about ten times over the state of a round played at once, which no core's cache holds
from some 10,000 agents on. A tile fits: its random numbers, losses and distributions never leave
the cache. Tiles are written in place, in the order of the agents; what the next tile needs of the
one before, the old estimates of the agents within reach, is handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, expectation
from fedbandits.common import streams
from fedbandits.common.backend import on_cpu
from fedbandits.engine.devices import Spread
from fedbandits.engine.stages.pending_messages import relay
from fedbandits.engine.stages.round import arm_type, block_uniforms, play_block
from fedbandits.engine.stages.stages import Stages
from fedbandits.problems.base import Problem, RoundKey

LEAST = 2**15
"""Agents, of all runs together, from which on a round in tiles is worth a larger program."""
NARROWEST = 256
"""Agents of a tile: of many runs of few agents, tiles of one or two would take longer."""
CELLS = 2**18
"""Arms of agents of runs in a tile: half of them in each of two cores' caches."""
MOST = 2**14
"""Agents in a tile: with more, XLA goes over few arms in a slower way. `_counts` takes 2¹⁵ - 1."""
FEWEST = 8
"""Tiles of a round: the last one takes what is left, and must not be most of it."""
STRANDS = 4
"""Hashes side by side in a step of a loop: the steps of one wait for each other, and a core looks
ahead only so far. Measured with AVX-512 and a million agents: one takes twice as long as four."""

Hear: TypeAlias = Callable[[Any, Array, int], dict[str, Array]]
"""The combined messages of a tile: of its window, its first agent and how many they are."""


def agents_in_cache(arms: int, where: Spread, simulations: int = 1) -> int | None:
    """Return the number of agents of a tile; None where all agents are better played at once.

    Args:
        arms: K.
        where: the placement of the state on devices.
        simulations: how many are played together.
    """
    runs, agents = where.runs, where.agents
    large = runs * agents >= LEAST and max(runs, arms) * agents <= 2**32
    if not (on_cpu() and large and where.mesh.shape["agents"] == 1):
        return None
    cells = arms * simulations * runs // where.mesh.shape["runs"]  # of an agent
    most = min(MOST, CELLS // cells, agents // FEWEST)
    most -= most % 2  # measured: over an odd number of agents XLA takes almost twice as long
    if most < NARROWEST:
        return None
    return next((n for n in range(most, most // 2, -2) if agents % n == 0), most)


class Played(NamedTuple):
    """What came of a round, for all N agents or for the n of a tile.

    Attributes:
        state: after it.
        action: the arms played, `[R, N]` or `[R, n]`.
        expected: expected losses ⟨p_t, ℓ̄_t⟩, alike.
    """

    state: Any
    action: Array
    expected: Array


class PointwiseLosses(NamedTuple):
    """The losses of a round, drawn where they are needed.

    Attributes:
        problem: a pointwise one.
        key: of the round.
        mean: ℓ̄_t(i), `[K]`.
    """

    problem: Problem
    key: RoundKey
    mean: Array


def losses_of_round(problem: Problem, t: Array, tile: int, dtype: Any) -> PointwiseLosses:
    """The losses of round t. Its key is made once: it may take a look at all agents."""
    key = problem.key_of(t)
    return PointwiseLosses(problem, key, _mean_losses(problem, key, tile, dtype))


def _mean_losses(problem: Problem, key: RoundKey, tile: int, dtype: Any) -> Array:
    """ℓ̄_t(i), `[K]`, of a problem whose losses can be had one by one; none is kept."""
    half = problem.half_of_arms
    some = STRANDS * -(-tile // STRANDS)  # a tile, made a little longer
    assert some < 2**15 or not problem.binary  # `_counts` would be wrong

    def added(total: Array, first: Array, agents: int) -> Array:
        strands = 1 if agents % STRANDS else STRANDS
        shape = (half, agents // strands)
        agent = first + jax.lax.broadcasted_iota("int32", shape, 1)
        arm = jax.lax.broadcasted_iota("int32", shape, 0)
        each = [problem.two_losses_with(key, agent + i * shape[1], arm) for i in range(strands)]
        return total + (_counts if problem.binary else _sums)(each).astype(dtype)

    whole, rest = divmod(problem.agents, some)
    total = jax.lax.fori_loop(
        0, whole, lambda i, total: added(total, i * some, some), jnp.zeros((2, half), dtype)
    )
    if rest:
        total = added(total, jnp.int32(whole * some), rest)
    return total.reshape(-1)[: problem.arms] / problem.agents


def _sums(each: Sequence[tuple[Array, Array]]) -> Array:
    return jnp.stack([sum(losses).sum(axis=1) for losses in zip(*each, strict=True)])


def _counts(each: Sequence[tuple[Array, Array]]) -> Array:
    """The sums of zeros and ones, in the two halves of one number: for two XLA would hash twice."""
    counts = sum(one.astype("int32") + (other.astype("int32") << 16) for one, other in each)
    counts = counts.sum(axis=1)
    return jnp.stack([counts & 0xFFFF, counts >> 16])


def round_in_tiles(
    algorithm: AnyAlgorithm,
    stages: Stages,
    losses: PointwiseLosses,
    state: Any,
    seed: Array,
    t: Array,
    sizes: tuple[int, int],
) -> Played:
    """Round t of all agents: the same as at once, but for the order of sums.

    Args:
        algorithm: what each agent does.
        stages: how messages are combined.
        losses: of the round.
        state: before the round.
        seed: of the actions.
        t: the round.
        sizes: R, and how many agents make a tile, as `agents_in_cache` returns it.
    """
    (runs, tile), (problem, _, mean), agents = sizes, losses, losses.problem.agents
    fates = stages.mixer.draw(seed, t, runs, mean.dtype)
    hear, reach = _hearing(algorithm, stages, state, fates, t, tile)
    tiles = _Tiles(algorithm, losses, seed, t, hear, reach, runs, agents)
    nothing = Played(
        state,
        jnp.zeros((runs, agents), arm_type(problem.arms)),
        jnp.zeros((runs, agents), mean.dtype),
    )
    after, window, begin, read = nothing, tiles.nobody(state), 0, 0
    # The last tile takes what is left: beyond all others are as many agents again, and their reach.
    looped = (agents - reach) // tile - 1
    if looped > 0:
        start = after, tiles.widened(state, window, 0, tile + reach)
        after, window = jax.lax.fori_loop(
            0, looped, lambda i, carried: tiles.step(carried, i * tile, tile), start
        )
        begin, read = looped * tile, (looped + 1) * tile + reach
    window = tiles.widened(after.state, window, read, agents - read, last=True)
    return tiles.written(after, tiles.played(after.state, window, begin, agents - begin), begin)


def _hearing(
    algorithm: AnyAlgorithm, stages: Stages, state: Any, fates: Any, t: Array, tile: int
) -> tuple[Hear, int]:
    """How a tile has its messages, and how far off in the numbering it must see others for that."""
    averages: Any = stages.mixer.averages
    if not algorithm.leaves:
        return lambda *_: {}, 0
    if all(leaf.combine == "average" for leaf in algorithm.leaves.values()):
        reach: int | None = getattr(averages, "reach", None)
        # Farther off than a tile, most of what is read would be read for neighbours.
        if reach is not None and reach <= tile:
            return (
                lambda window, first, _: {
                    name: averages.average_within(message, first)
                    for name, message in algorithm.message(window).items()
                }
            ), reach
        if hasattr(averages, "prepared"):
            everyone = {name: averages.prepared(x) for name, x in algorithm.message(state).items()}
            return (
                lambda window, first, _: {
                    name: averages.average_of(everyone[name], own, first)
                    for name, own in algorithm.message(window).items()
                }
            ), 0
    received, _ = relay(algorithm, stages, state, fates, t)
    return (
        lambda _, first, size: {
            name: jax.lax.dynamic_slice_in_dim(x, first, size, axis=-1)
            for name, x in received.items()
        }
    ), 0


class _Tiles(NamedTuple):
    """What all tiles of a round share."""

    algorithm: AnyAlgorithm
    losses: PointwiseLosses
    seed: Array
    t: Array
    hear: Hear
    reach: int
    runs: int
    agents: int

    def step(self, carried: tuple[Played, Any], first: Array, size: int) -> tuple[Played, Any]:
        """A tile, and the window of the next one, which is as large.

        That one is read when the tile is written: XLA need not keep a copy of the whole state.
        """
        before, window = carried
        after = self.written(before, self.played(before.state, window, first, size), first)
        kept = self._cut(after.state, window, size, None)
        return after, self.widened(after.state, kept, first + size + self.reach, size)

    def played(self, state: Any, window: Any, first: Array | int, size: int) -> Played:
        """What comes of the tile of so many agents from `first` on.

        Args:
            state: of all agents; only its shapes are looked at.
            window: the old state of these agents, and of `reach` more on either side.
            first: the first agent.
            size: how many agents.
        """
        (problem, losses, mean), sizes = self.losses, (self.runs, size)
        # What is heard from anywhere is heard before: XLA would copy all there is to hear.
        before = None if self.reach else self.hear(window, first, size)

        def play() -> Played:
            received = self.hear(window, first, size) if before is None else before
            key, dtype = streams.round_key(streams.ACTIONS, self.seed, self.t), mean.dtype
            agent = first + jax.lax.broadcasted_iota("int32", sizes, 1)
            after, done = play_block(
                self.algorithm,
                self._cut(state, window, self.reach, self.reach + size),
                block_uniforms(key, first, sizes, self.agents, dtype),
                self.t,
                see=lambda _, arm: problem.loss_with(losses, agent, arm).astype(dtype),
                hear=lambda: received,
            )
            return Played(after, done.action, expectation(done.p, mean))

        played: Played = _apart(play, self.t)
        return played

    def written(self, before: Played, found: Played, first: Array | int) -> Played:
        """What came of the tiles before and of the one whose first agent is `first`."""

        def put(old: Array, new: Array) -> Array:
            if not self._each(old):
                return new
            return jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), first, axis=-1)

        after: Played = jax.tree.map(put, before, found)
        return after

    def nobody(self, state: Any) -> Any:
        """Leaves `[..., reach]`, where there are no agents."""
        return jax.tree.map(
            lambda x: jnp.zeros((*x.shape[:-1], self.reach), x.dtype) if self._each(x) else x, state
        )

    def widened(
        self, state: Any, window: Any, first: Array | int, size: int, *, last: bool = False
    ) -> Any:
        """A window and so many more agents from `first` on; beyond the `last` there is nobody."""

        def wider(x: Array, wide: Array) -> Array:
            if not self._each(x):
                return wide
            read = jax.lax.dynamic_slice_in_dim(x, first, size, axis=-1)
            nobody = [jnp.zeros((*x.shape[:-1], self.reach), x.dtype)] if last else []
            return jnp.concatenate([wide, read, *nobody], axis=-1)

        return jax.tree.map(wider, state, window)

    def _cut(self, state: Any, window: Any, first: int, end: int | None) -> Any:
        """Some of the agents of a window."""
        return jax.tree.map(
            lambda x, wide: wide[..., first:end] if self._each(x) else wide, state, window
        )

    def _each(self, x: Array) -> bool:
        """Whether x is of every agent, `[..., R, N]`, and not of all of them together."""
        return tuple(x.shape[-2:]) == (self.runs, self.agents)


def _apart(make: Callable[[], Any], t: Array) -> Any:
    """What `make` gives, by a program of its own: not fused with what is done with it.

    XLA writes part of an array by one core, which would also do the work that is fused with that.
    It drops barriers (`arrays.materialised`), but fuses nothing with what stands on a condition.
    This one holds in every round t, which XLA cannot know.
    """
    like = jax.eval_shape(make)
    return jax.lax.cond(t > 0, make, lambda: jax.tree.map(jnp.zeros_like, like))
