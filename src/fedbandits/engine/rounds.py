"""One round of every agent of every run, and a compiled chunk of rounds."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, expectation, sample, taken
from fedbandits.common.backend import on_cpu
from fedbandits.common.streams import ACTIONS, EDGES, round_key, uniforms
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves

from .devices import Spread
from .flooding import Relayed, own, relay
from .mixing import Mixer

_traces = 0


def compilations() -> int:
    """How many chunk programs have been compiled so far in this process."""
    return _traces


class Luck(NamedTuple):
    """The randomness of one round.

    Attributes:
        action: uniforms from which arms are drawn, `[R, N]`.
        edge: uniforms from which a random gossip edge is drawn, `[R]`; None where none is.
    """

    action: Array
    edge: Array | None


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
        lead: run-averaged expected loss of each agent so far, less its mean over agents, `[N]`.
    """

    state: Any
    lead: Array


class Losses(NamedTuple):
    """The losses of a round.

    Attributes:
        values: `[K, N]`.
        mean: over agents, ℓ̄_t(i), `[K]`.
        valid: whether all were in [0, 1]; always true where they are not checked.
    """

    values: Array
    mean: Array
    valid: Array


class Plays(NamedTuple):
    """What a round, or a block of them, leaves to be summed up.

    Attributes:
        action: the arms played, `[C, R, N]`.
        expected: expected loss ⟨p_t, ℓ̄_t⟩ of every agent, `[C, R, N]`.
        arm_loss: ℓ̄_t(i), `[C, K]`.
        valid: whether all losses were in [0, 1], `[C]`; always true where they are not checked.
    """

    action: Array
    expected: Array
    arm_loss: Array
    valid: Array


def draw_luck(seed: Array, t: Array, mixer: Mixer, runs: int, agents: int, dtype: Any) -> Luck:
    """The uniforms of round t: a function of (seed, run, round, agent) alone."""
    return Luck(
        uniforms(round_key(ACTIONS, seed, t), (runs, agents), dtype),
        uniforms(round_key(EDGES, seed, t), (runs,), dtype) if mixer.random else None,
    )


def play_round(
    algorithm: AnyAlgorithm, mixer: Mixer, state: Any, losses: Array, luck: Luck, t: Array
) -> tuple[Any, Play]:
    """One round: everyone plays, sends what it knew at the round's start, and learns.

    Args:
        algorithm: what each agent does.
        mixer: how messages are combined.
        state: the algorithm's state before the round.
        losses: `[K, N]`.
        luck: the round's randomness.
        t: the round.

    Returns:
        the state after the round, and what happened in it.
    """
    mine = own(state)
    p = algorithm.distribution(mine, t)
    if on_cpu() and luck.action.size < 2**18:
        p = jax.lax.optimization_barrier(p)  # written down once, where that costs no memory
    action = sample(p, luck.action)
    everyone = jnp.broadcast_to(losses[:, None, :], p.shape)
    feedback = everyone if algorithm.feedback == "full" else taken(everyone, action)
    due, under_way = relay(state, algorithm.message(mine), t)
    received = {
        name: mixer.combine(algorithm.leaves[name].combine, leaf, luck.edge)
        for name, leaf in due.items()
    }
    after = algorithm.update(mine, received, action, feedback, p, t)
    return Relayed(after, under_way) if under_way else after, Play(p, action)


@partial(
    jax.jit,
    static_argnames=("runs", "rounds", "block", "ahead", "checked", "where"),
    donate_argnames=("carry",),
)
def play_chunk(
    algorithm: AnyAlgorithm,
    mixer: Mixer,
    losses: Problem | Array,
    carry: Carry,
    first: Array,
    seed: Array,
    *,
    runs: int,
    rounds: int,
    block: int,
    ahead: bool,
    checked: bool,
    where: Spread | None = None,
) -> tuple[Carry, Curves, AgentTotals]:
    """Rounds first, ..., first + rounds - 1 as one compiled program.

    Args:
        algorithm: traced parameters, so a sweep compiles once.
        mixer: the gossip matrix, traced.
        losses: a traceable problem, or the losses of these rounds, `[rounds, N, K]`.
        carry: from the chunk before; donated.
        first: the first round.
        seed: of the actions.
        runs: R.
        rounds: C.
        block: rounds played before what they leave is summed up; divides C.
        ahead: generate the losses of a block at once: faster where they fit in memory.
        checked: look for losses outside [0, 1].
        where: how the carry lies on devices.
    """
    global _traces
    _traces += 1
    dtype = carry.lead.dtype
    agents = carry.lead.shape[0]

    def look(raw: Array) -> Losses:
        values = raw.astype(dtype)
        valid = ((raw >= 0) & (raw <= 1)).all() if checked else jnp.array(True)
        return Losses(values, values.mean(axis=1), valid)

    def of_round(t: Array) -> Losses:
        raw = jnp.asarray(losses.losses(t)).T
        if losses.binary:  # a byte each, where losses are kept at all
            raw = raw > 0
        # The barrier keeps XLA from making the losses again wherever they are looked at.
        return look(jax.lax.optimization_barrier(raw))

    def step(state: Any, now: tuple[Array, Luck, Losses | None]) -> tuple[Any, Any]:
        t, luck, seen = now
        values, mean, valid = of_round(t) if seen is None else seen
        state, play = play_round(algorithm, mixer, state, values, luck, t)
        action = play.action.astype(_number(play.p.shape[0]))
        # What was known before the round need not be carried out of it.
        found = (mean, valid) if seen is None else None
        return state, (action, expectation(play.p, mean), found)

    def play_block(before: tuple[Carry, AgentTotals], now: tuple[Array, Array | None]) -> Any:
        (state, lead), totals = before
        times, given = now
        luck = jax.vmap(lambda t: draw_luck(seed, t, mixer, runs, agents, dtype))(times)
        seen = None
        if given is not None:
            seen = jax.vmap(look)(given)
        elif ahead:
            seen = jax.vmap(of_round)(times)
        state, (action, expected, found) = jax.lax.scan(
            step, state, (times, luck, seen), unroll=_unrolled()
        )
        mean, valid = (seen.mean, seen.valid) if seen is not None else found
        lead, curves, added = sum_up(Plays(action, expected, mean, valid), lead)
        return (Carry(state, lead), jax.tree.map(jnp.add, totals, added)), curves

    times = first + jnp.arange(rounds, dtype="int32").reshape(-1, block)
    given = None
    if not isinstance(losses, Problem):
        given = jnp.swapaxes(losses, 1, 2).reshape(-1, block, *losses.shape[:0:-1])
    zeros = jnp.zeros((runs, agents), dtype)
    start = (carry, AgentTotals(zeros, zeros))
    (carry, totals), curves = jax.lax.scan(play_block, start, (times, given))
    if where is not None:
        carry = where.keep(carry)
    return carry, jax.tree.map(lambda x: x.reshape(rounds, *x.shape[2:]), curves), totals


def sum_up(plays: Plays, lead: Array) -> tuple[Array, Curves, AgentTotals]:
    """What is kept of a block of rounds, and the lead after it.

    All rounds at once: in the loop each of these sums would be a small step of its own.
    """
    arms, dtype = plays.arm_loss.shape[1], plays.expected.dtype
    incurred = jax.vmap(lambda losses, action: losses[action])(plays.arm_loss, plays.action)
    by_agent = plays.expected.mean(axis=1)
    leads = lead + jnp.cumsum(by_agent - by_agent.mean(axis=1, keepdims=True), axis=0)
    counts = _counts(plays.action, arms)
    curves = Curves(
        incurred.mean(axis=2),
        plays.expected.mean(axis=2),
        plays.arm_loss,
        counts.astype(dtype) / plays.action.shape[2],
        leads.max(axis=1),
        plays.valid,
    )
    return leads[-1], curves, AgentTotals(incurred.sum(axis=0), plays.expected.sum(axis=0))


def _counts(action: Array, arms: int) -> Array:
    """How many agents played each arm, `[C, R, N] -> [C, K, R]`."""
    if not on_cpu():  # many threads would wait for each other's turn to add
        numbers = jnp.arange(arms, dtype=action.dtype)[:, None, None]
        return (action[:, None] == numbers).sum(axis=3, dtype="int32")
    rounds, runs, _ = action.shape
    zeros = jnp.zeros((rounds, arms, runs), "int32")
    return zeros.at[jnp.arange(rounds)[:, None, None], action, jnp.arange(runs)[:, None]].add(1)


def _unrolled() -> int:
    """Rounds in one turn of the loop: with two, an accelerator need not copy the state back."""
    return 1 if on_cpu() else 2


def _number(arms: int) -> str:
    """The smallest type that holds an arm's number."""
    return "int8" if arms <= 127 else "int32"
