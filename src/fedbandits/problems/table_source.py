"""A table in memory or in a file: its rows, its columns, and its names, for errors."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class TableSource(NamedTuple):
    """A table and the place that it is from.

    Attributes:
        frame: the rows, numbered from 0.
        path: the CSV file that they are from, if any.
        row_labels: the index of the user's DataFrame, if its rows are not numbered from 0.
    """

    frame: pd.DataFrame
    path: Path | None = None
    row_labels: pd.Index[Any] | None = None

    @property
    def index_names(self) -> tuple[Hashable, ...]:
        """The names of the levels of the index."""
        return () if self.row_labels is None else tuple(self.row_labels.names)

    def place(self, row: int) -> str:
        """Return where a row is: its line in a CSV file, else its position and index label."""
        if self.path is not None:
            return f"line {_line(self.path, row)}"
        if self.row_labels is None:
            return f"row {row} (counted from 0)"
        label = self.row_labels[row]
        shown = repr(label) if isinstance(label, str) else label
        return f"row {row} (counted from 0, index {shown})"


def read_table(table: Any) -> TableSource:
    """Read a DataFrame, an object with `to_pandas()`, or a file."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        numbered = isinstance(table.index, pd.RangeIndex) and table.index[:1].tolist() in ([], [0])
        return TableSource(table.reset_index(drop=True), None, None if numbered else table.index)
    if hasattr(table, "to_pandas"):
        return read_table(table.to_pandas())
    if not isinstance(table, str | Path):
        raise TypeError(f"a table is a DataFrame or a file path, not {type(table).__name__}")
    path = Path(table)
    if not path.is_file():
        raise FileNotFoundError(f"no table at {path}")
    name = path.name.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet", ".pq")):
        raise ValueError(f"{path} is neither .csv nor .parquet, nor .csv.gz")
    try:
        if ".csv" not in name:
            return read_table(pd.read_parquet(path))
        # Inferring types chunk by chunk would make one label a number here and a text there.
        frame = pd.read_csv(path, low_memory=False)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a table ({str(error).strip()})") from error
    _refuse_misread(frame, path)
    return TableSource(frame, path)


def _refuse_misread(frame: pd.DataFrame, path: Path) -> None:
    """Reject a file whose fields pandas has assigned to the wrong columns."""
    import pandas as pd

    names = frame.shape[1]
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes the first fields for an index
        raise ValueError(
            f"{path} names {names} columns, but line {_line(path, 0)} has "
            f"{names + frame.index.nlevels} fields; write decimals with a point, and no comma at "
            "the end of a line"
        )
    header = str(frame.columns[0])
    for separator in ";\t|":
        if names == 1 and separator in header:
            raise ValueError(
                f"{path} separates its columns by {separator!r}; separate them by commas, or pass "
                f"pd.read_csv(path, sep={separator!r})"
            )


def _line(path: Path, row: int) -> int:
    """Return the line of a CSV file on which a row starts; the header is row -1."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        start = 1
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():  # pandas skips blank lines
                row -= 1
            if row == -2:
                break
            start = reader.line_num + 1
    return start


ROLES = ("time", "agent", "arm", "loss", "reward")
"""Roles of columns. A table has one of the last two."""


class Columns(NamedTuple):
    """The names of a table's columns.

    Attributes:
        time: of the round.
        agent: of the agent.
        arm: of the arm.
        value: of the loss or reward.
        rewards: whether larger values are better.
    """

    time: str
    agent: str
    arm: str
    value: str
    rewards: bool

    def place(self, when: Any, agent: Any, arm: Any) -> str:
        """Return the time, agent and arm under the names of their columns."""
        return f"{self.time} {when}, {self.agent} {agent}, {self.arm} {arm}"


class Labels(NamedTuple):
    """The names in a table.

    Attributes:
        columns: names of the columns.
        times: the label of each round, `[T]`.
        agents: `[N]`.
        arms: `[K]`.
    """

    columns: Columns
    times: pd.Series[Any]
    agents: tuple[str, ...]
    arms: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(T, N, K)`."""
        return len(self.times), len(self.agents), len(self.arms)

    def time(self, t: int) -> str:
        """Return the label of round t."""
        return str(self.times.iloc[[t - 1]].astype(str).iloc[0])

    def cell(self, t: int, v: int, i: int) -> str:
        """Return the column, time, agent and arm of one value."""
        columns, when = self.columns, self.time(t)
        time = f"{when} (round {t})"
        if (columns.time, when) == ("time", str(t)):
            columns, time = columns._replace(time="round"), when
        return f"the {columns.value} at {columns.place(time, self.agents[v], self.arms[i])}"


def choose_columns(source: TableSource, given: Mapping[str, str] | None) -> Columns:
    """Assign a column to each role; reject missing, repeated and empty columns.

    Args:
        source: the table.
        given: the names of columns by role, for roles whose column has another name.
    """
    frame = source.frame
    chosen = {} if given is None else given
    if not isinstance(chosen, Mapping):
        raise TypeError(f"columns must be a table such as {{'time': 'date'}}, not {given!r}")
    for role, name in chosen.items():
        if role not in ROLES:
            turned = f": write {{{name!r}: {role!r}}}" if name in ROLES else ""
            raise ValueError(
                f"columns has the unknown key {role!r}{turned}; its keys are "
                f"{', '.join(ROLES[:-1])} and {ROLES[-1]}"
            )
    there = list(frame.columns)
    rewards = _has_rewards(chosen, there)
    value = "reward" if rewards else "loss"
    names = [chosen.get(role, role) for role in (*ROLES[:3], value)]
    for role, name in zip((*ROLES[:3], value), names, strict=True):
        if there.count(name) > 1:
            raise ValueError(f"the table has more than one column {name!r}; rename all but one")
        if name not in there:
            raise ValueError(_no_column(role, name, role in chosen, source))
    if len(set(names)) < len(names):
        raise ValueError(f"columns gives one column two roles: {', '.join(map(str, names))}")
    if len(frame) == 0:
        raise ValueError("the table has no rows")
    for name in names[:3]:
        _refuse_empty(frame[name], source)
    time, agent, arm, values = names
    return Columns(time, agent, arm, values, rewards)


def _has_rewards(chosen: Mapping[str, str], there: list[Any]) -> bool:
    """Return whether the values are rewards; reject tables where they may be either."""
    if "loss" in chosen and "reward" in chosen:
        raise ValueError("columns names a loss and a reward; name only one of them")
    if "loss" in chosen or "reward" in chosen:
        return "reward" in chosen
    if "loss" in there and "reward" in there:
        raise ValueError(
            "the table has both a loss and a reward column; choose one: "
            "columns={'loss': 'loss'} or columns={'reward': 'reward'}"
        )
    return "reward" in there


def _no_column(role: str, name: str, asked: bool, source: TableSource) -> str:
    """Return the error about a column that the table does not have."""
    wanted = "'loss': ... or 'reward'" if role == "loss" else repr(role)
    fix = f"Name the right column: columns={{{wanted}: ...}}"
    if name in source.index_names:
        fix = f"{name!r} is in its index: pass table.reset_index()"
    has = ", ".join(map(str, source.frame.columns)) or "no columns"
    named = f", which columns names as the {role}" if asked else ""
    return f"the table has no column {name!r}{named}; it has {has}. {fix}"


def _refuse_empty(column: pd.Series[Any], source: TableSource) -> None:
    """Reject empty fields, and lists and other values that cannot be a label."""
    from pandas.api.types import is_hashable

    empty = np.flatnonzero(column.isna())
    if empty.size:
        reason = ": the field is empty, or a word such as NA that pandas reads as empty"
        raise ValueError(
            f"the table has no {column.name} in {source.place(int(empty[0]))}"
            f"{reason if source.path is not None else ''}"
        )
    if column.dtype == object:
        for row, label in enumerate(column):
            if not is_hashable(label):
                raise ValueError(
                    f"the table's {column.name} in {source.place(row)} is {label!r}; expected a "
                    "number, a text or a date"
                )
