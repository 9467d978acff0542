"""Totals of many simulations in one program, for statements about the adversary's randomness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedbandits.common import interrupts
from fedbandits.results.record import AgentTotals, Curves
from fedbandits.simulation.simulation import Simulation

from .chunk_runner import play_chunks
from .group import Group
from .preparation import precision, prepare_draws
from .recording.recorder import reject_invalid, reject_nan

if TYPE_CHECKING:
    import xarray as xr


def play_totals(
    simulations: Sequence[Simulation],
    *,
    times: Sequence[int] | None = None,
    rounds: bool = False,
) -> xr.Dataset:
    """Play simulations in one program and keep the regret at a few times instead of curves.

    Args:
        simulations: simulations that differ in seeds and arrays of their losses alone, such as
            `Simulation.on(problems)` returns them.
        times: rounds after which regret is taken, in order; T by default, and no round after the
            last one is played.
        rounds: keep the losses of every round too, from which best sequences of arms follow.

    Returns:
        `regret` and `expected_regret`, `[time, draw, run, agent]`, and `arm_loss`,
        `[time, draw, arm]`, or `[time, draw, arm, run]` of adaptive problems; NaN for agents that
        lie. With `rounds`, `round_loss` `[draw, round, arm]`, or `[draw, round, arm, run]`.
    """
    import xarray as xr

    first = simulations[0]
    horizon = first.problem.horizon
    ends = [horizon] if times is None else list(times)
    if not ends or ends != sorted({*ends}) or not 1 <= ends[0] <= ends[-1] <= horizon:
        raise ValueError(f"times must be rounds from 1 to {horizon} in order, not {times!r}")
    with interrupts.calm(), precision(first.dtype):
        group = prepare_draws(simulations)
        totals = _Totals(group, ends, keep_rounds=rounds)
        play_chunks(group, progress=False, enough=ends[-1], ends=ends, record=totals.add)
    at_ends = zip(*totals.at_ends, strict=True)
    incurred, expected, arm_loss = (np.array(values) for values in at_ends)
    for of_agents in (incurred, expected):
        of_agents[..., list(group.stages.excluded)] = np.nan
    adaptive = first.problem.adaptive  # then every run has losses of its own, `[time, D, K, R]`
    best = arm_loss.min(axis=2)[..., None] if adaptive else arm_loss.min(axis=2)[:, :, None, None]
    by_agent = ("time", "draw", "run", "agent")
    of_arms = ("arm", *["run"] * adaptive)
    found = {
        "regret": (by_agent, incurred - best),
        "expected_regret": (by_agent, expected - best),
        "arm_loss": (("time", "draw", *of_arms), arm_loss),
    }
    if rounds:
        found["round_loss"] = (("draw", "round", *of_arms), np.concatenate(totals.rounds, axis=1))
    return xr.Dataset(found, coords={"time": ends})


class _Totals:
    """Losses so far of all draws, in float64."""

    def __init__(self, group: Group, ends: Sequence[int], *, keep_rounds: bool) -> None:
        self._group, self._ends, self._keep_rounds = group, ends, keep_rounds
        self.rounds: list[np.ndarray[Any, Any]] = []
        """The losses of the arms in the rounds of each chunk, `[D, C, K]`, if they are kept."""
        self._so_far: tuple[np.ndarray[Any, Any], ...] = (np.zeros(()),) * 3
        self.at_ends: list[tuple[np.ndarray[Any, Any], ...]] = []
        """At each end: `[D, R, N]` incurred and expected, `[D, K]` of the arms."""

    def add(self, first: int, curves: Curves, totals: AgentTotals) -> None:
        """Check and add the chunk whose first round is `first`."""
        for draw in np.flatnonzero(~curves.valid.all(axis=1)).tolist():
            part = jax.tree.map(lambda leaf, draw=draw: leaf[draw], curves)
            reject_invalid(self._group.simulations[draw].problem, first, part)
        reject_nan(self._group.algorithm, first, np.concatenate(curves.expected, axis=1))
        rounds = curves.valid.shape[1]
        if self._keep_rounds:
            self.rounds.append(curves.arm_loss)
        arm_loss = curves.arm_loss.sum(axis=1, dtype=np.float64)
        added = (totals.incurred, totals.expected, arm_loss)
        self._so_far = tuple(old + new for old, new in zip(self._so_far, added, strict=True))
        if first + rounds - 1 in self._ends:
            self.at_ends.append(self._so_far)
