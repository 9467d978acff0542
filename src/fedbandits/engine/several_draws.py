"""Many draws of the losses at once, for claims about the adversary's randomness too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common import interrupts
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem
from fedbandits.results.record import check_runs

from .batch import batch_of_draws
from .chunk_runner import play_chunks
from .preparation import DType, on_other_losses, precision, prepare

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
        problems: losses that JAX makes, and that differ in seeds and arrays alone.
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

    horizon = problems[0].horizon
    ends = [horizon] if times is None else list(times)
    if not ends or ends != sorted({*ends}) or not 1 <= ends[0] <= ends[-1] <= horizon:
        raise ValueError(f"times must be rounds from 1 to {horizon} in order, not {times!r}")
    with interrupts.calm(), precision(dtype):
        check_runs(check_runs(runs, problems[0]) * len(problems), problems[0])
        first = prepare(problems[0], algorithm, gossip, runs, seed, dtype=dtype)
        others = [on_other_losses(first, p, seed + d) for d, p in enumerate(problems) if d]
        games = [first, *others]
        records = [game.record for game in games]
        seen: dict[str, list[list[np.ndarray]]] = {"incurred": [], "expected": [], "arm_loss": []}

        def look(end: int) -> None:
            """Keep the sums up to a round that was asked for."""
            if end in ends:
                seen["incurred"].append([record.agent_incurred.copy() for record in records])
                seen["expected"].append([record.agent_expected.copy() for record in records])
                seen["arm_loss"].append([record.arm_loss_so_far.copy() for record in records])

        play_chunks(
            batch_of_draws(games), progress=False, enough=ends[-1], ends=ends, recorded=look
        )
    incurred, expected, arm_loss = (np.array(values) for values in seen.values())
    best = arm_loss.min(axis=2)[:, :, None, None]
    by_agent = ("time", "draw", "run", "agent")
    return xr.Dataset(
        {
            "regret": (by_agent, incurred - best),
            "expected_regret": (by_agent, expected - best),
            "arm_loss": (("time", "draw", "arm"), arm_loss),
        },
        coords={"time": ends},
    )
