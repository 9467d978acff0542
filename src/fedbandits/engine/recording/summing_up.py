"""What is kept of a stretch of rounds: curves, and sums for each agent."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedbandits.arrays import Array
from fedbandits.common.backend import on_cpu
from fedbandits.engine.stages.stages import Stages
from fedbandits.results.record import AgentTotals, Curves, Invalid

from .summing_kernel import in_one_pass, worth_a_kernel


class Plays(NamedTuple):
    """What a round, or a stretch of them, leaves to be summed up.

    Attributes:
        action: the arms played, `[C, R, N]`.
        expected: expected loss ⟨p_t, ℓ̄_t⟩ of every agent, `[C, R, N]`.
        arm_loss: ℓ̄_t(i), `[C, K]`; of a problem that watches `[C, K, R]`.
        valid: whether all losses were in [0, 1], `[C]`; always true where they are not checked.
        invalid: the first of each round that was not, `[C]`, where it is looked for.
    """

    action: Array
    expected: Array
    arm_loss: Array
    valid: Array
    invalid: Invalid | None


class Summary(NamedTuple):
    """What is kept of a stretch.

    Attributes:
        excess: run-averaged expected loss of each agent so far, less its mean over agents, `[N]`.
        totals: the losses of each agent so far.
        curves: of each round.
    """

    excess: Array
    totals: AgentTotals
    curves: Curves


def sum_up(
    plays: Plays,
    excess: Array,
    totals: AgentTotals,
    stages: Stages,
    *,
    kernels: bool,
) -> Summary:
    """What is kept of a stretch of rounds, and of those before it.

    All rounds at once: in the loop each of these sums would be a small step of its own.

    Args:
        plays: of the stretch.
        excess: before it.
        totals: before it.
        stages: say which agents are recorded.
        kernels: whether a kernel may make it.
    """
    arms, dtype = plays.arm_loss.shape[1], plays.expected.dtype
    action = stages.recorded(plays.action)
    if kernels and not stages.excluded and worth_a_kernel(plays.action.shape, arms):
        expected, counts, most, excess, totals = in_one_pass(*plays[:3], excess, totals)
    else:
        by_agent = plays.expected.mean(axis=1)
        mean = stages.recorded(by_agent).mean(axis=1, keepdims=True)
        excesses = excess + jnp.cumsum(by_agent - mean, axis=0)
        expected = stages.recorded(plays.expected).mean(axis=2)
        counts, most = _counts(action, arms), stages.recorded(excesses).max(axis=1)
        added = _incurred(plays.arm_loss, plays.action).sum(axis=0), plays.expected.sum(axis=0)
        excess, totals = excesses[-1], jax.tree.map(jnp.add, totals, AgentTotals(*added))
    frequency = counts.astype(dtype) / action.shape[2]
    of_arms = plays.arm_loss if plays.arm_loss.ndim == 3 else plays.arm_loss[..., None]
    incurred = (frequency * of_arms).sum(axis=1)
    about = plays.valid, plays.invalid
    curves = Curves(incurred, expected, plays.arm_loss, frequency, most, *about)
    return Summary(excess, totals, curves)


def _incurred(arm_loss: Array, action: Array) -> Array:
    """The mean loss of the arms played, `[C, K]` or `[C, K, R]` and `[C, R, N] -> [C, R, N]`."""
    if arm_loss.ndim == 3:
        return jnp.take_along_axis(jnp.swapaxes(arm_loss, 1, 2), action, axis=2)
    return jax.vmap(lambda losses, action: losses[action])(arm_loss, action)


def _counts(action: Array, arms: int) -> Array:
    """How many agents played each arm, `[C, R, N] -> [C, K, R]`."""
    if not on_cpu():  # many threads would wait for each other's turn to add
        numbers = jnp.arange(arms, dtype=action.dtype)[:, None, None]
        return (action[:, None] == numbers).sum(axis=3, dtype="int32")
    rounds, runs, _ = action.shape
    # XLA writes down where each play is counted, and reads it again: one number, not three.
    place = (jnp.arange(rounds)[:, None, None] * arms + action) * runs + jnp.arange(runs)[:, None]
    return jnp.zeros(rounds * arms * runs, "int32").at[place].add(1).reshape(rounds, arms, runs)
