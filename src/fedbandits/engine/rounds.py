"""One round of every agent of every run, and a compiled chunk of rounds."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, played, sample
from fedbandits.problems.base import Problem
from fedbandits.streams import ACTIONS, EDGES, round_key, uniforms

from .mixing import Mixer, RandomEdge

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
        chosen: which arms were played, `[K, R, N]` of booleans.
        action: the arms played, `[R, N]`.
    """

    p: Array
    chosen: Array
    action: Array


class Carry(NamedTuple):
    """What one chunk hands to the next.

    Attributes:
        state: the algorithm's state.
        lead: run-averaged expected loss of each agent so far, less its mean over agents, `[N]`.
    """

    state: Any
    lead: Array


class Curves(NamedTuple):
    """What is kept of every round, losses being averaged over all agents as in the paper.

    Attributes:
        incurred: mean over agents of the loss of the arm played, `[C, R]`.
        expected: mean over agents of the expected loss ⟨p_t, ℓ̄_t⟩, `[C, R]`.
        arm_loss: ℓ̄_t(i), `[C, K]`.
        frequency: share of agents that played each arm, `[C, K, R]`.
        worst_lead: the largest `Carry.lead`, `[C]`.
        valid: whether all losses were in [0, 1], `[C]`; always true where they are not checked.
    """

    incurred: Array
    expected: Array
    arm_loss: Array
    frequency: Array
    worst_lead: Array
    valid: Array


class AgentTotals(NamedTuple):
    """Losses of each agent summed over the chunk, `[R, N]`."""

    incurred: Array
    expected: Array


def draw_luck(seed: Array, t: Array, mixer: Mixer, runs: int, agents: int, dtype: Any) -> Luck:
    """The uniforms of round t: a function of (seed, run, round, agent) alone."""
    random_edges = isinstance(mixer.averages, RandomEdge)
    return Luck(
        uniforms(round_key(ACTIONS, seed, t), (runs, agents), dtype),
        uniforms(round_key(EDGES, seed, t), (runs,), dtype) if random_edges else None,
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
    p = algorithm.distribution(state, t)
    action = sample(p, luck.action)
    chosen = played(action, like=p)
    everyone = jnp.broadcast_to(losses[:, None, :], p.shape)
    if algorithm.feedback == "full":
        feedback = everyone
    else:
        feedback = jnp.where(chosen, everyone, 0).sum(axis=0)
    received = {
        name: mixer.combine(algorithm.leaves[name].combine, leaf, luck.edge)
        for name, leaf in algorithm.message(state).items()
    }
    state = algorithm.update(state, received, action, feedback, p, t)
    return state, Play(p, chosen, action)


@partial(
    jax.jit,
    static_argnames=("runs", "rounds", "ahead", "checked"),
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
    ahead: bool,
    checked: bool,
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
        ahead: generate the losses of all rounds at once: faster where they fit in memory.
        checked: look for losses outside [0, 1].
    """
    global _traces
    _traces += 1
    dtype = carry.lead.dtype
    agents = carry.lead.shape[0]
    times = first + jnp.arange(rounds, dtype="int32")
    luck = jax.vmap(lambda t: draw_luck(seed, t, mixer, runs, agents, dtype))(times)

    def of_round(t: Array) -> Array:
        return jnp.asarray(losses.losses(t)).T  # [K, N]

    given: Array | None
    if not isinstance(losses, Problem):
        given = jnp.swapaxes(losses, 1, 2)
    elif ahead:
        given = jax.vmap(of_round)(times)
    else:
        given = None

    def step(
        before: tuple[Carry, AgentTotals], now: tuple[Array, Luck, Array | None]
    ) -> tuple[tuple[Carry, AgentTotals], Curves]:
        (state, lead), totals = before
        t, luck_now, raw = now
        if raw is None:
            raw = of_round(t)
        values = raw.astype(dtype)
        state, play = play_round(algorithm, mixer, state, values, luck_now, t)
        mean_loss = values.mean(axis=1)
        everyone = mean_loss[:, None, None]
        incurred = mean_loss[play.action]
        expected = (play.p * everyone).sum(axis=0)
        by_agent = expected.mean(axis=0)
        lead = lead + (by_agent - by_agent.mean())
        curves = Curves(
            incurred.mean(axis=1),
            expected.mean(axis=1),
            mean_loss,
            play.chosen.mean(axis=2, dtype=dtype),
            lead.max(),
            ((raw >= 0) & (raw <= 1)).all() if checked else jnp.array(True),
        )
        totals = AgentTotals(totals.incurred + incurred, totals.expected + expected)
        return (Carry(state, lead), totals), curves

    zeros = jnp.zeros((runs, agents), dtype)
    start = (carry, AgentTotals(zeros, zeros))
    (carry, totals), curves = jax.lax.scan(step, start, (times, luck, given))
    return carry, curves, totals
