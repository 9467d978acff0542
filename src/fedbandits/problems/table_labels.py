"""Names of a table's columns, times, agents and arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .table_source import TableSource

if TYPE_CHECKING:
    import pandas as pd

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
