"""Losses from a long table, under the names that the table has for them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedbandits.common import checks

from .base import Problem, check_sizes
from .scaling import scaled
from .stored import Stored
from .table_gaps import Gaps, fill_gaps, policy_of
from .table_source import Columns, Labels, TableSource, choose_columns, read_table
from .table_times import TableRounds, rounds_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Table(Stored):
    """Losses from a table; errors and results use the names in the table."""

    labels: Labels
    dates: np.ndarray[Any, Any] | None  # type: ignore[misc]
    missing: float | str | None
    """The policy for cells that have no value in the table."""
    filled: float  # type: ignore[misc]

    def cell(self, t: int, v: int, i: int) -> str:
        """Return the names that the table has for a cell."""
        return self.labels.cell(t, v, i)

    def out_of_range(self, loss: float) -> str:
        """Return the end of the error about a loss outside [0, 1]: its value and the fix."""
        return (
            f"{loss:g}, not in [0, 1]. For another range give low and high to from_table; for "
            f"rewards say columns={{'reward': {self.labels.columns.value!r}}} too"
        )

    def describe(self) -> dict[str, Any]:
        """Return sizes, names, a hash of the losses, and the share of filled cells."""
        filled = {"missing": self.missing, "filled": self.filled} if self.filled else {}
        return super().describe() | {"name": "from_table"} | filled


def from_table(
    table: pd.DataFrame | str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    missing: float | str | None = None,
    fill: float | None = None,
    agents: Sequence[Hashable] | None = None,
    arms: Sequence[Hashable] | None = None,
    clock: Literal["utc", "local"] = "utc",
) -> Problem:
    """Read losses or rewards from a long table: a row for each time, agent and arm.

    Rounds are the distinct times in order; times are numbers or ISO dates. Results store the dates
    in the coordinate `date`. Agents and arms are numbered in the order given, else sorted; results
    have their names.

    A simulation needs the value of every arm in every round. A log of choices, which has one arm
    for each time and agent, is rejected, and so are agents without common times. `missing` fills a
    few missing values; `problem.filled` is their share.

    Args:
        table: a pandas DataFrame (or anything with `to_pandas()`), or the path of a `.csv`,
            `.csv.gz` or `.parquet` file.
        columns: the table's names for time, agent, arm, and loss or reward, where they are others:
            `{"time": "date", "reward": "revenue"}`. Without it the values are in `loss`, or where
            there is none in `reward`. Larger rewards are better.
        low: the smallest possible value.
        high: the largest possible value. Losses are (value - low)/(high - low), or one minus that
            for rewards: regret is in units of high - low.
        missing: the value of every (time, agent, arm) without a row, or with an empty value: a
            number on the table's own scale; `"mean"`, the mean of all values of the arm; or
            `"carry"`, the agent's last value of that arm. Without it a missing value is an error;
            with it a warning reports the share of filled cells. `"mean"` fills at most half of
            them.
        fill: the older name of `missing`, for numbers only.
        agents: the agents in the order of the network's, for example `network.names`.
        arms: the arms in the order wanted.
        clock: how times with an offset from UTC are compared. By `"utc"`, two times are one round
            if they are the same instant. By `"local"`, offsets are ignored: 09:00 in Berlin and
            09:00 in Tokyo are one round.

    Example:
        >>> import pandas as pd
        >>> rows = [(1, "ann", "tea", 10.0), (1, "ann", "jam", 0.0)]
        >>> rows += [(2, "ann", "tea", 10.0), (2, "ann", "jam", 5.0)]
        >>> sales = pd.DataFrame(rows, columns=["time", "agent", "arm", "revenue"])
        >>> problem = from_table(sales, columns={"reward": "revenue"}, low=0, high=20)
        >>> problem.arm_names, problem.losses(2).tolist()
        (('jam', 'tea'), [[0.75, 0.5]])
    """
    source = read_table(table)
    named = choose_columns(source, columns)
    policy = policy_of(missing, fill)
    values = _values(source, named)
    rounds = rounds_of(source.frame[named.time], clock)
    v, agent_names = _numbered(source, named.agent, "agents", agents)
    i, arm_names = _numbered(source, named.arm, "arms", arms)
    labels = Labels(named, rounds.labels, agent_names, arm_names)
    sizes = check_sizes(len(agent_names), len(arm_names), len(rounds.labels))
    places = np.asarray(np.ravel_multi_index((rounds.of_rows, v, i), labels.shape))
    rows = np.flatnonzero(~np.isnan(values))
    _refuse_duplicates(places, rows, source, named)
    gaps = Gaps(labels, np.sort(places[rows]), _by_clock(rounds, v, i, rows))
    gaps.refuse(policy)
    checks.fits(8.0 * gaps.cells * (2 if gaps.count else 1), _sizes(labels))
    tensor = np.full(labels.shape, np.nan)
    tensor.ravel()[places[rows]] = values[rows]
    if policy is not None and gaps.count:
        tensor = fill_gaps(tensor, policy, labels)
        warnings.warn(gaps.warning(policy), stacklevel=2)
    problem = Table(
        *sizes,
        tensor=tensor,
        agent_names=agent_names,
        arm_names=arm_names,
        labels=labels,
        dates=rounds.dates,
        missing=policy,
        filled=gaps.share,
    )
    if not named.rewards and (low, high) == (0, 1):
        return problem
    return scaled(problem, low, high, rewards=named.rewards)


def _sizes(labels: Labels) -> str:
    rounds, agents, arms = labels.shape
    return f"a table of {rounds:,} rounds, {agents:,} agents and {arms:,} arms"


def _by_clock(
    rounds: TableRounds,
    v: np.ndarray[Any, Any],
    i: np.ndarray[Any, Any],
    rows: np.ndarray[Any, Any],
) -> tuple[int, float] | None:
    """Return the rounds and the share of empty cells if times were compared by local clocks."""
    if rounds.by_clock is None:
        return None
    sizes = [int(codes.max()) + 1 for codes in (rounds.by_clock, v, i)]
    places = np.ravel_multi_index((rounds.by_clock[rows], v[rows], i[rows]), sizes)
    return sizes[0], 1 - len(np.unique(places)) / np.prod(sizes, dtype=float)


def _values(source: TableSource, columns: Columns) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the losses or rewards, NaN where empty; reject values that are not numbers."""
    import pandas as pd

    column = source.frame[columns.value]
    if column.dtype.kind in "cmM":
        raise ValueError(f"the table's {columns.value} holds {column.dtype}, not real numbers")
    numeric = pd.to_numeric(column, errors="coerce")
    values: np.ndarray[Any, np.dtype[np.float64]] = numeric.to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(np.isnan(values) & ~column.isna().to_numpy())
    if bad.size:
        row = int(bad[0])
        raise ValueError(
            f"the table's {columns.value} in {source.place(row)} at {_cell(source, columns, row)} "
            f"is {column.iloc[row]!r}, not a number"
        )
    return values


def _cell(source: TableSource, columns: Columns, row: int) -> str:
    """Return the time, agent and arm of a row."""
    return columns.place(*(source.frame[name].iloc[row] for name in columns[:3]))


def _numbered(
    source: TableSource, name: str, what: str, order: Sequence[Hashable] | None
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """Return the number of each row's label, and the labels in order."""
    import pandas as pd

    column = source.frame[name]
    codes, labels = pd.factorize(column, sort=order is None)
    names = [str(label) for label in labels]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} has {twice} as a number and as text; make them one kind")
    if order is None:
        return codes, tuple(names)
    if isinstance(order, str | bytes | Set | Mapping) or not isinstance(order, Iterable):
        raise TypeError(f"{what} must be a list of names in the order wanted, not {order!r}")
    index = pd.Index([str(name) for name in order])  # a network's names are text, numbers too
    if not index.is_unique:
        raise ValueError(f"{what} names {index[index.duplicated()][0]!r} twice")
    codes = index.get_indexer(pd.Index(names))[codes]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"the table has {name} {column.iloc[row]!r} in {source.place(row)}, which {what} "
            "does not name"
        )
    return codes, tuple(index)


def _refuse_duplicates(
    places: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], source: TableSource, columns: Columns
) -> None:
    import pandas as pd

    again = pd.Series(places[rows]).duplicated()
    if again.any():
        row = int(rows[again.argmax()])
        raise ValueError(
            f"the table has more than one {columns.value} for {_cell(source, columns, row)}: the "
            f"second is in {source.place(row)}"
        )
