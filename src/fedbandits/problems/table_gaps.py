"""Cells of a table that have no value: their likely cause, and how they are filled."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fedbandits.common import checks

from .table_source import Labels

POLICIES = ("mean", "carry")

_LOG = 0.9
"""In a log of choices, at least this share of the pairs of time and agent have a single arm."""

_FEWER_ROUNDS = 0.75
"""Local times are likely meant if they make at most this share of the rounds of instants."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """The cells of a table that have no value.

    Attributes:
        labels: the names in the table.
        places: the cells with a value, as sorted positions in the tensor of losses.
        by_clock: the number of rounds and the share of empty cells if times were compared by
            local clocks; None where they would be the same.
    """

    labels: Labels
    places: np.ndarray[Any, Any]
    by_clock: tuple[int, float] | None = None

    @property
    def cells(self) -> int:
        """The number of cells, T·N·K."""
        return prod(self.labels.shape)

    @property
    def count(self) -> int:
        """The number of cells without a value."""
        return self.cells - len(self.places)

    @property
    def share(self) -> float:
        """The share of cells without a value."""
        return self.count / self.cells

    def refuse(self, policy: float | str | None) -> None:
        """Reject gaps that the policy must not fill.

        A number states what an empty cell is worth, so it may fill any gaps.
        """
        if not self.count or isinstance(policy, float):
            return
        cause = self._cause()
        if policy is None:
            raise ValueError(
                f"the table has no value for {self._counted()}, the first being {self._first()}. "
                f"{cause or self._fix()}"
            )
        if cause or (policy == "mean" and self.share > 0.5):
            raise ValueError(
                f"missing={policy!r} would fill {self._counted()}. "
                f"{cause or 'Leave out times, agents and arms that have few values'}"
            )

    def warning(self, policy: float | str) -> str:
        """Return the warning about cells that the policy fills."""
        filling = f"{policy:g}" if isinstance(policy, float) else repr(policy)
        message = f"missing={filling} filled {self._counted()}"
        cause = self._cause() or self._outlier("filled")
        return f"{message}. {cause}" if cause else message

    def _counted(self) -> str:
        return f"{self.count:,} of {self.cells:,} cells ({checks.percent(self.share)})"

    def _first(self) -> str:
        """Return the names of the first cell without a value."""
        gap = np.flatnonzero(self.places != np.arange(len(self.places)))
        place = int(gap[0]) if gap.size else len(self.places)
        t, v, i = (int(index) for index in np.unravel_index(place, self.labels.shape))
        return self.labels.cell(t + 1, v, i)

    def _cause(self) -> str:
        """Return why most cells are empty and what to do, if the pattern of rows shows it."""
        rounds, agents, arms = self.labels.shape
        columns = self.labels.columns
        pairs, counts = np.unique(self.places // arms, return_counts=True)
        if len(pairs) == 0:
            return ""
        single = int((counts == 1).sum())
        if single >= _LOG * len(pairs) and len(np.unique(self.places % arms)) > 1:
            return (
                f"This looks like a log of choices: {single:,} of {len(pairs):,} pairs of "
                f"{columns.time} and {columns.agent} have a single {columns.arm}. A simulation "
                f"needs the {columns.value} of every {columns.arm} in every round, but such a log "
                "has only one. If all arms were measured, but at different times, round the times"
            )
        if self.by_clock is not None:
            fewer, empty = self.by_clock
            if fewer <= _FEWER_ROUNDS * rounds and empty < self.share / 2:
                return (
                    f"The times have different offsets from UTC: as instants they make {rounds:,} "
                    f"rounds, as local times {fewer:,} rounds with {checks.percent(empty)} of the "
                    "cells empty. If each agent's own clock counts, pass clock='local'"
                )
        times = np.bincount(pairs % agents, minlength=agents)
        if times.max() <= rounds / 2:
            have = "Each" if times.min() == times.max() else "No"
            most = f"{times.max():,}" if have == "Each" else f"more than {times.max():,}"
            return (
                f"{have} {columns.agent} has values at {most} of {rounds:,} times. Are they local "
                "times in several zones? Agents need common times: round them, for example to days"
            )
        return ""

    def _fix(self) -> str:
        """Return what to do about gaps without a known cause."""
        if self.share > 0.5:
            return (
                "Add the values, or leave out times, agents and arms that have few. For agents "
                "that report less often than others, missing='carry' repeats their last value"
            )
        outlier = self._outlier("empty")
        return (
            f"{outlier + ' ' if outlier else ''}Add the values, leave out times, agents or arms, "
            "or set missing= to a number, 'mean' or 'carry'"
        )

    def _outlier(self, state: str) -> str:
        """Name the agent or arm that has values in less than half of its cells, if any."""
        if self.share > 0.5:
            return ""
        rounds, agents, arms = np.unravel_index(self.places, self.labels.shape)
        columns = self.labels.columns
        for column, names, codes in (
            (columns.agent, self.labels.agents, agents),
            (columns.arm, self.labels.arms, arms),
        ):
            size = self.cells // len(names)
            counts = size - np.bincount(codes, minlength=len(names))
            worst = int(counts.argmax())
            if counts[worst] > size / 2:
                own = rounds[codes == worst] + 1
                times = (
                    f" and values from {columns.time} {self.labels.time(int(own.min()))} to "
                    f"{self.labels.time(int(own.max()))}"
                    if own.size
                    else ""
                )
                return (
                    f"The {column} {names[worst]!r} has {counts[worst]:,} of {size:,} cells "
                    f"{state}{times}: a misspelt name, or a late start?"
                )
        return ""


def fill_gaps(
    tensor: np.ndarray[Any, Any], policy: float | str, labels: Labels
) -> np.ndarray[Any, Any]:
    """Return the tensor with the policy's values where it is NaN.

    Raises:
        ValueError: if the policy has no value for a cell.
    """
    import pandas as pd

    if policy == "carry":
        filled = pd.DataFrame(tensor.reshape(len(tensor), -1)).ffill()
    else:
        by_arm = pd.DataFrame(tensor.reshape(-1, tensor.shape[2]))
        filled = by_arm.fillna(by_arm.mean() if policy == "mean" else policy)
    whole = filled.to_numpy().reshape(tensor.shape)
    empty = np.isnan(whole)
    if empty.any():
        t, v, i = (int(index) for index in np.argwhere(empty)[0])
        count, first = int(empty.sum()), labels.cell(t + 1, v, i)
        more = f", nor for {count - 1} other cell{'s' * (count > 2)}" if count > 1 else ""
        raise ValueError(
            f"missing='carry' has no earlier value for {first}{more}. Add the values, leave out "
            "the earlier times, or pass a number"
            if policy == "carry"
            else f"missing='mean' has no value of this arm for {first}. Add values, leave out the "
            "arm, or pass a number"
        )
    return whole


def policy_of(missing: Any, fill: Any) -> float | str | None:
    """Return the policy for missing values; None if no value may be missing."""
    if fill is not None:
        if missing is not None:
            raise ValueError("give only missing: fill is its older name")
        return checks.number(fill, "fill")
    if missing is None or isinstance(missing, str):
        if missing not in (None, *POLICIES):
            raise ValueError(f"missing must be a number, 'mean' or 'carry', not {missing!r}")
        return missing
    return checks.number(missing, "missing")
