"""Many draws of the losses at once, for claims about the adversary's randomness too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common import interrupts
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem
from fedbandits.results.record import AgentTotals, Curves, check_runs

from .batch import batch_of_draws
from .chunk_runner import play_chunks
from .preparation import DType, precision, prepare
from .recording.recorder import refuse_invalid, refuse_nan
from .stages.liars import Liars

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
    privacy: RandomisedResponse | None = None,
    liars: Liars | None = None,
    rounds: bool = False,
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
        privacy: as in `simulate`.
        liars: as in `simulate`.
        rounds: keep the losses of every round too, from which best sequences of arms follow.

    Returns:
        `regret` and `expected_regret`, `[time, draw, run, agent]`, and `arm_loss`,
        `[time, draw, arm]`, or `[time, draw, arm, run]` of problems that watch; what is of liars is
        NaN. With `rounds`, `round_loss` `[draw, round, arm]`, or `[draw, round, arm, run]`.
    """
    import xarray as xr

    horizon = problems[0].horizon
    ends = [horizon] if times is None else list(times)
    if not ends or ends != sorted({*ends}) or not 1 <= ends[0] <= ends[-1] <= horizon:
        raise ValueError(f"times must be rounds from 1 to {horizon} in order, not {times!r}")
    with interrupts.calm(), precision(dtype):
        check_runs(check_runs(runs, problems[0]) * len(problems), problems[0])
        first = prepare(
            problems[0],
            algorithm,
            gossip,
            runs,
            seed,
            dtype=dtype,
            privacy=privacy,
            liars=liars,
        )
        batch = batch_of_draws(first, problems)
        sums = _Sums(first.algorithm, problems, ends, keep=rounds)
        play_chunks(batch, progress=False, enough=ends[-1], ends=ends, record=sums.add)
    incurred, expected, arm_loss = (np.array(values) for values in zip(*sums.seen, strict=True))
    for totals in (incurred, expected):
        totals[..., list(first.conditions.liars)] = np.nan
    watched = problems[0].adaptive  # then every run has losses of its own, `[time, D, K, R]`
    best = arm_loss.min(axis=2)[..., None] if watched else arm_loss.min(axis=2)[:, :, None, None]
    by_agent = ("time", "draw", "run", "agent")
    of_arms = ("arm", *["run"] * watched)
    found = {
        "regret": (by_agent, incurred - best),
        "expected_regret": (by_agent, expected - best),
        "arm_loss": (("time", "draw", *of_arms), arm_loss),
    }
    if rounds:
        found["round_loss"] = (("draw", "round", *of_arms), np.concatenate(sums.rounds, axis=1))
    return xr.Dataset(found, coords={"time": ends})


class _Sums:
    """Losses so far, in float64, in all draws at once; of curves at most those of the arms."""

    def __init__(
        self,
        algorithm: AnyAlgorithm,
        problems: Sequence[Problem],
        ends: Sequence[int],
        *,
        keep: bool,
    ) -> None:
        self._algorithm, self._problems, self._ends, self._keep = algorithm, problems, ends, keep
        self.rounds: list[np.ndarray[Any, Any]] = []
        """If kept, the losses of the arms in the rounds of each chunk, `[D, C, K]`."""
        self._so_far: tuple[np.ndarray[Any, Any], ...] = (np.zeros(()),) * 3
        self.seen: list[tuple[np.ndarray[Any, Any], ...]] = []
        """At each end: `[D, R, N]` incurred and expected, `[D, K]` of the arms."""

    def add(self, first: int, curves: Curves, totals: AgentTotals) -> None:
        """Check and add the chunk whose first round is `first`."""
        for draw in np.flatnonzero(~curves.valid.all(axis=1)).tolist():
            part = jax.tree.map(lambda leaf, draw=draw: leaf[draw], curves)
            refuse_invalid(self._problems[draw], first, part)
        refuse_nan(self._algorithm, first, np.concatenate(curves.expected, axis=1))
        rounds = curves.valid.shape[1]
        if self._keep:
            self.rounds.append(curves.arm_loss)
        arm_loss = curves.arm_loss.sum(axis=1, dtype=np.float64)
        added = (totals.incurred, totals.expected, arm_loss)
        self._so_far = tuple(old + new for old, new in zip(self._so_far, added, strict=True))
        if first + rounds - 1 in self._ends:
            self.seen.append(self._so_far)
