"""Many draws of the losses at once, for claims about the adversary's randomness too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common import checks, interrupts
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, check_runs

from . import pytrees
from .chunks import stopped
from .flooding import first_state
from .mixing import Mixer, mixer
from .plan import LOSSES, plan
from .rounds import Carry, play_chunk
from .simulate import DType, precision, setting_of

if TYPE_CHECKING:
    import xarray as xr


def simulate_draws(
    problems: Sequence[Problem],
    algorithm: AnyAlgorithm,
    gossip: Gossip,
    *,
    times: Sequence[int] | None = None,
    runs: int = 1,
    seed: int = 0,
    dtype: DType = "float32",
) -> xr.Dataset:
    """What `simulate` finds for each of several problems, batched into one compiled program.

    Draw d has the agents' randomness of `simulate(problems[d], ..., seed=seed + d)`.

    Args:
        problems: losses in [0, 1] by construction that differ in seeds and arrays alone.
        algorithm: what each agent does.
        gossip: the network and its matrix.
        times: rounds after which to look, in order; T by default, and no round after the last is
            played.
        runs: runs of each draw.
        seed: of the agents' randomness.
        dtype: `float32` or `float64`.

    Returns:
        `regret` and `expected_regret`, `[time, draw, run, agent]`, and `arm_loss`,
        `[time, draw, arm]`.
    """
    import xarray as xr

    first, draws = problems[0], len(problems)
    if any(problem.check != "never" or not problem.traced for problem in problems):
        raise ValueError(f"only losses in [0, 1] by construction can be batched, not {first!r}")
    told = [np.asarray(problem.actions) for problem in problems]
    if any(not np.array_equal(told[0], other) for other in told[1:]):
        raise ValueError(
            "the draws have different actions, which an algorithm is told once for all; simulate "
            "them one by one"
        )
    horizon, agents, arms = first.horizon, first.agents, first.arms
    runs = check_runs(runs, first)
    with interrupts.calm(), precision(dtype):
        algorithm = algorithm.set_up(setting_of(first, gossip))
        mix = mixer(gossip, algorithm, dtype)
        for value in (algorithm, first):
            pytrees.register(value)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
        one = Carry(
            first_state(algorithm, arms, agents, (runs, agents), dtype), np.zeros(agents, dtype)
        )
        carry = jax.tree.map(lambda x: np.broadcast_to(x, (draws, *np.shape(x))), one)
        seeds = np.array([checks.seed32(seed + d) for d in range(draws)], np.uint32)
        longest = plan(first, runs * draws).rounds
        ahead = longest * draws * agents * arms <= LOSSES
        done, ends, parts = 0, [], []
        for end in [horizon] if times is None else times:
            while done < end:
                interrupts.stop_if_requested(stopped(done, first))
                rounds = min(longest, end - done)
                carry, losses, totals = _chunk(
                    *(algorithm, mix, stacked, carry, np.int32(done + 1), seeds),
                    runs=runs,
                    rounds=rounds,
                    ahead=ahead,
                )
                done += rounds
                ends.append(done)
                parts.append((losses, totals.incurred, totals.expected))
    # Chunks are short enough for float32; over the horizon they are summed in float64.
    arm_loss, incurred, expected = (
        np.cumsum([np.asarray(x, np.float64) for x in values], axis=0)
        for values in zip(*parts, strict=True)
    )
    best = arm_loss.min(axis=2)[:, :, None, None]
    by_agent = ("time", "draw", "run", "agent")
    return xr.Dataset(
        {
            "regret": (by_agent, incurred - best),
            "expected_regret": (by_agent, expected - best),
            "arm_loss": (("time", "draw", "arm"), arm_loss),
        },
        coords={"time": ends},
    ).sel(time=[horizon] if times is None else list(times))


@partial(jax.jit, static_argnames=("runs", "rounds", "ahead"), donate_argnames=("carry",))
def _chunk(
    algorithm: AnyAlgorithm,
    mix: Mixer,
    problems: Problem,
    carry: Carry,
    first: Array,
    seeds: Array,
    *,
    runs: int,
    rounds: int,
    ahead: bool,
) -> tuple[Carry, Array, AgentTotals]:
    """One chunk of every draw; only sums leave it, so XLA drops the curves."""

    def play(problem: Problem, before: Carry, seed: Array) -> Any:
        after, curves, totals = play_chunk(
            algorithm,
            mix,
            problem,
            before,
            first,
            seed,
            runs=runs,
            rounds=rounds,
            block=rounds,
            ahead=ahead,
            checked=False,
        )
        return after, curves.arm_loss.sum(axis=0), totals

    result: tuple[Carry, Array, AgentTotals] = jax.vmap(play)(problems, carry, seeds)
    return result
