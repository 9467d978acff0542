"""One round of every agent of every run, and a compiled chunk of rounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, expectation, sample, taken
from fedbandits.common import streams
from fedbandits.common.backend import on_cpu
from fedbandits.engine.devices import Spread
from fedbandits.engine.recording.summing_up import Plays, sum_up
from fedbandits.engine.stages.adaptive_losses import losses_given, watched
from fedbandits.engine.stages.conditions import Conditions
from fedbandits.engine.stages.pending_messages import moved_on, own_state, relay
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves, Invalid

from . import kernel_round as fused_round
from .tile_round import arm_type
from .tiled_round import losses_of_round, round_in_tiles

_traces = 0


def compilations() -> int:
    """How many chunk programs have been compiled so far in this process."""
    return _traces


class RoundUniforms(NamedTuple):
    """The randomness of one round.

    Attributes:
        action: uniforms from which arms are drawn, `[R, N]`.
        links: what happens to the links, as their form draws it; None where nothing does.
        response: uniforms by which losses are blurred, `[R, N]`; None where they are not.
        noise: the key of what an algorithm with noise of its own adds; None for others.
    """

    action: Array
    links: Any = None
    response: Array | None = None
    noise: streams.Key | None = None


class Play(NamedTuple):
    """What happened in one round.

    Attributes:
        p: distributions, `[K, R, N]`.
        action: the arms played, `[R, N]`.
    """

    p: Array
    action: Array


class Carry(NamedTuple):
    """What one chunk hands to the next.

    Attributes:
        state: the algorithm's state.
        excess: run-averaged expected loss of each agent so far, less its mean over agents, `[N]`.
        memory: what a problem that watches remembers of each run, `[R, ...]`; None of others.
    """

    state: Any
    excess: Array
    memory: Any = None


class Losses(NamedTuple):
    """The losses of a round.

    Attributes:
        values: `[K, N]`; of a problem that watches `[K, R, N]`.
        mean: over agents, ℓ̄_t(i), `[K]` or `[K, R]`.
        valid: whether all were in [0, 1]; always true where they are not checked.
        invalid: the first that was not, of a problem that watches, where they are checked.
    """

    values: Array
    mean: Array
    valid: Array
    invalid: Invalid | None = None


def draw_uniforms(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    seed: Array,
    t: Array,
    runs: int,
    agents: int,
    dtype: Any,
) -> RoundUniforms:
    """The uniforms of round t: a function of (seed, run, round, agent) alone."""

    def each(stream: int) -> Array:
        return streams.uniforms(streams.round_key(stream, seed, t), (runs, agents), dtype)

    return RoundUniforms(
        each(streams.ACTIONS),
        conditions.mixer.draw(seed, t, runs, dtype),
        None if conditions.privacy is None else each(streams.RESPONSES),
        streams.round_key(streams.NOISE, seed, t) if algorithm.noised else None,
    )


def play_round(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    state: Any,
    losses: Array,
    uniforms: RoundUniforms,
    t: Array,
) -> tuple[Any, Play]:
    """One round: everyone plays, sends what it knew at the round's start, and learns.

    Args:
        algorithm: what each agent does.
        conditions: how messages are combined, who lies, which losses are blurred.
        state: the algorithm's state before the round.
        losses: `[K, N]`, or `[K, R, N]` where every run has its own.
        uniforms: the round's randomness.
        t: the round.

    Returns:
        the state after the round, and what happened in it.
    """
    inner = own_state(state)
    p = algorithm.distribution(inner, t)
    if on_cpu() and uniforms.action.size < 2**18:
        p = jax.lax.optimization_barrier(p)  # held, where that costs little memory
    action = sample(p, uniforms.action)
    everyone = losses if losses.ndim == 3 else jnp.broadcast_to(losses[:, None, :], p.shape)
    feedback = everyone if algorithm.feedback == "full" else taken(everyone, action)
    if conditions.privacy is not None:
        feedback = conditions.privacy.respond(feedback, uniforms.response)
    received, state = relay(algorithm, conditions, state, uniforms.links, t)
    after = algorithm.update(inner, received, action, feedback, p, t)
    if uniforms.noise is not None:
        after = _disturbed(algorithm, after, uniforms.noise, p, t)
    return moved_on(state, after), Play(p, action)


def _disturbed(algorithm: AnyAlgorithm, state: Any, key: streams.Key, like: Array, t: Array) -> Any:
    """The state after the noise that is due in round t, if any is.

    Runs are the first axis of what is drawn, so that a run has its noise whoever runs beside it.
    """
    arms, runs, agents = like.shape

    def disturbed() -> Any:
        uniforms = streams.uniforms(key, (runs, arms, agents), like.dtype)
        return algorithm.disturb(state, jnp.swapaxes(uniforms, 0, 1), t)

    return jax.lax.cond(algorithm.noise_due(t), disturbed, lambda: state)


class Chunk(NamedTuple):
    """What a chunk's program is compiled for.

    Attributes:
        runs: R.
        rounds: C.
        stretch: rounds played before what they leave is summed up; divides C.
        ahead: generate the losses of a stretch at once: faster where they fit in memory.
        checked: look for losses outside [0, 1].
        where: how the carry lies on devices.
        fused: play rounds as one kernel each, and sum them up by kernels.
        tile: play rounds in tiles of so many agents; None plays them at once.
    """

    runs: int
    rounds: int
    stretch: int
    ahead: bool
    checked: bool
    where: Spread
    fused: bool = False
    tile: int | None = None


def play_chunk(
    algorithm: AnyAlgorithm,
    conditions: Conditions,
    losses: Problem | Array,
    carry: Carry,
    first: Array,
    seed: Array,
    *,
    chunk: Chunk,
) -> tuple[Carry, Curves, AgentTotals]:
    """Rounds first, ..., first + C - 1; compiled as one program.

    Args:
        algorithm: traced parameters, so a sweep compiles once.
        conditions: the gossip matrix and what else agents meet, traced.
        losses: a traceable problem, or the losses of these rounds, `[C, N, K]`.
        carry: from the chunk before; donated.
        first: the first round.
        seed: of the actions.
        chunk: its sizes, and how it is played.
    """
    global _traces
    _traces += 1
    loop = _Loop(algorithm, conditions, losses, seed, chunk, carry.excess.shape[0])
    times = first + jnp.arange(chunk.rounds, dtype="int32").reshape(-1, chunk.stretch)
    given = None
    if not isinstance(losses, Problem):
        given = jnp.swapaxes(losses, 1, 2).reshape(-1, chunk.stretch, *losses.shape[:0:-1])
    zeros = jnp.zeros((chunk.runs, loop.agents), carry.excess.dtype)
    start = (carry, AgentTotals(zeros, zeros))
    (carry, totals), curves = jax.lax.scan(loop.stretch, start, (times, given))
    carry = chunk.where.keep(carry)
    curves = jax.tree.map(lambda x: x.reshape(chunk.rounds, *x.shape[2:]), curves)
    return carry, curves, totals


class _Loop(NamedTuple):
    """What stays the same in all rounds of a chunk; its methods are the bodies of the loops."""

    algorithm: AnyAlgorithm
    conditions: Conditions
    losses: Problem | Array
    seed: Array
    chunk: Chunk
    agents: int

    def stretch(
        self, before: tuple[Carry, AgentTotals], now: tuple[Array, Array | None]
    ) -> tuple[tuple[Carry, AgentTotals], Curves]:
        """A stretch of rounds, and what they leave summed up."""
        (state, excess, memory), totals = before
        play = self.at_once
        if self.chunk.fused:
            play = self.in_kernels
        elif self.chunk.tile is not None:
            play = self.in_tiles
        (state, memory), plays = play((state, memory), now, excess.dtype)
        kernels = self.chunk.fused
        excess, totals, curves = sum_up(plays, excess, totals, self.conditions, kernels=kernels)
        return (Carry(state, excess, memory), totals), curves

    def in_tiles(
        self, before: tuple[Any, Any], now: tuple[Array, Array | None], dtype: Any
    ) -> tuple[tuple[Any, Any], Plays]:
        """Rounds played in tiles, which make what is random themselves."""
        (state, memory), (times, _) = before, now
        tile = self.chunk.tile
        assert tile is not None

        def play(state: Any, t: Array) -> tuple[Any, tuple[Array, Array, Array]]:
            losses = losses_of_round(self.losses, t, tile, dtype)
            state, action, expected = round_in_tiles(
                self.algorithm,
                self.conditions,
                losses,
                state,
                self.seed,
                t,
                (self.chunk.runs, tile),
            )
            return state, (action, expected, losses.mean)

        state, found = jax.lax.scan(play, state, times)
        return (state, memory), Plays(*found, jnp.ones(times.shape, bool), None)

    def at_once(
        self, before: tuple[Any, Any], now: tuple[Array, Array | None], dtype: Any
    ) -> tuple[tuple[Any, Any], Plays]:
        """Rounds played by all agents at once: what is known before is made for all of them."""
        (state, memory), (times, given) = before, now
        uniforms = jax.vmap(
            lambda t: draw_uniforms(
                self.algorithm, self.conditions, self.seed, t, self.chunk.runs, self.agents, dtype
            )
        )(times)
        known = self.known(times, given, dtype, memory)
        (state, memory), (action, expected, found) = jax.lax.scan(
            self.round, (state, memory), (times, uniforms, known), unroll=_unrolled()
        )
        about = known[1:] if known is not None else found
        return (state, memory), Plays(action, expected, *about)

    def in_kernels(
        self, before: tuple[Any, Any], now: tuple[Array, Array | None], dtype: Any
    ) -> tuple[tuple[Any, Any], Plays]:
        """Rounds as one kernel each, which makes what is random itself."""
        (state, memory), (times, given) = before, now
        known, runs = self.known(times, given, dtype, memory), self.chunk.runs
        stretch = fused_round.stretch_of(
            self.algorithm, self.losses, known, self.seed, times, dtype
        )

        def receive(state: Any, t: Array) -> tuple[dict[str, Array], Any]:
            fates = self.conditions.mixer.draw(self.seed, t, runs, dtype)
            return relay(self.algorithm, self.conditions, state, fates, t)

        state, plays = fused_round.play_stretch(
            stretch, self.conditions, state, runs, self.agents, receive
        )
        valid = jnp.ones(times.shape, bool) if known is None else known.valid
        return (state, memory), Plays(*plays, stretch.mean, valid, None)

    def known(self, times: Array, given: Array | None, dtype: Any, memory: Any) -> Losses | None:
        """The losses of a stretch where they are known or made before it."""
        if given is not None:
            return jax.vmap(lambda raw: self.as_losses(raw, dtype))(given)
        if self.chunk.ahead:
            return jax.vmap(lambda t: self.losses_of(t, dtype, memory))(times)
        return None

    def round(
        self, before: tuple[Any, Any], now: tuple[Array, RoundUniforms, Losses | None]
    ) -> tuple[tuple[Any, Any], tuple[Array, Array, Any]]:
        """One round, and what is kept of it."""
        state, memory = before
        t, uniforms, known = now
        dtype = uniforms.action.dtype
        losses = self.losses_of(t, dtype, memory) if known is None else known
        state, play = play_round(self.algorithm, self.conditions, state, losses.values, uniforms, t)
        if memory is not None:
            memory = watched(self.losses, memory, play.action, t)
        action = play.action.astype(arm_type(play.p.shape[0]))
        # What was known before the round need not be carried out of it.
        found = losses[1:] if known is None else None
        mean = losses.mean if memory is None else losses.mean[..., None]
        return (state, memory), (action, expectation(play.p, mean), found)

    def losses_of(self, t: Array, dtype: Any, memory: Any) -> Losses:
        """The losses of round t, of a problem that can be traced; given what it remembers."""
        if memory is not None:
            return self.as_losses(
                jax.lax.optimization_barrier(losses_given(self.losses, t, memory)), dtype
            )
        raw = jnp.asarray(self.losses.losses(t)).T
        if self.losses.binary:  # a byte each, where losses are kept at all
            raw = raw > 0
        # The barrier keeps XLA from making the losses again wherever they are needed.
        return self.as_losses(jax.lax.optimization_barrier(raw), dtype)

    def as_losses(self, raw: Array, dtype: Any) -> Losses:
        """Losses `[K, N]` as they come, with their mean and whether they are in [0, 1]."""
        values = raw.astype(dtype)
        valid = ((raw >= 0) & (raw <= 1)).all() if self.chunk.checked else jnp.array(True)
        # Nobody can ask a problem that watches again what its losses were.
        invalid = _first_invalid(raw) if self.chunk.checked and raw.ndim == 3 else None
        return Losses(values, self.conditions.honest(values).mean(axis=-1), valid, invalid)


def _first_invalid(losses: Array) -> Invalid:
    """The first loss outside [0, 1] by run, agent and arm, of losses `[K, R, N]`."""
    in_order = jnp.moveaxis(losses, 0, 2).reshape(-1)
    place = (~((in_order >= 0) & (in_order <= 1))).argmax().astype("int32")  # NaN fails both
    return Invalid(place, in_order[place])


def _unrolled() -> int:
    """Rounds in one turn of the loop: with two, an accelerator need not copy the state back."""
    return 1 if on_cpu() else 2
