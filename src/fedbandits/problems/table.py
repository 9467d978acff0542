"""Losses from a long table, under the names that the table has for them."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedbandits.common import checks

from .base import Problem, check_sizes
from .scaling import scaled
from .stored import Stored

if TYPE_CHECKING:
    import pandas as pd

ROLES = ("time", "agent", "arm", "loss", "reward")
"""What a column can be. A table has one of the last two."""

POLICIES = ("mean", "carry")

_OFFSET = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
"""The end of an ISO time with an offset from UTC."""


class Columns(NamedTuple):
    """What the table calls its columns.

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
        """Where a value is, in the table's own words."""
        return f"{self.time} {when}, {self.agent} {agent}, {self.arm} {arm}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Table(Stored):
    """Losses from a table, which errors and results speak of in its own words."""

    columns: Columns
    times: pd.Series[Any]
    """What the table calls the rounds, `[T]`."""
    dates: np.ndarray[Any, Any] | None  # type: ignore[misc]

    def cell(self, t: int, v: int, i: int) -> str:
        """By the labels and under the column names of the table."""
        assert self.agent_names is not None
        assert self.arm_names is not None
        named, when = self.columns, self.times.iloc[[t - 1]].astype(str).iloc[0]
        time = f"{when} (round {t})"
        if (named.time, when) == ("time", str(t)):
            named, time = named._replace(time="round"), when
        place = named.place(time, self.agent_names[v], self.arm_names[i])
        return f"the {named.value} at {place}"

    def out_of_range(self, loss: float) -> str:
        """The end of the error about a loss outside [0, 1]: its value and the fix."""
        return (
            f"{loss:g}, not in [0, 1]. For another range give low and high to from_table; for "
            f"rewards say columns={{'reward': {self.columns.value!r}}} too"
        )

    def describe(self) -> dict[str, Any]:
        """Sizes, names and a hash of the losses themselves."""
        return super().describe() | {"name": "from_table"}


@checks.explained
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
) -> Problem:
    """Losses or rewards from a long table: a row for each time, agent and arm.

    Rounds are the distinct times in order; times are numbers or ISO dates. Dates stand beside the
    rounds in results, as their coordinate `date`; those with an offset from UTC are converted to
    UTC. Agents and arms are numbered in the order given, else sorted; their names are kept and
    appear in results.

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
            `"carry"`, the agent's last value of that arm. Without it a missing cell is an error;
            with it a warning says how many were filled.
        fill: a number for `missing`, by its older name.
        agents: the agents in the order of the network's, for example `network.names`.
        arms: the arms in the order wanted.

    Example:
        >>> import pandas as pd
        >>> rows = [(1, "ann", "tea", 10.0), (1, "ann", "jam", 0.0)]
        >>> rows += [(2, "ann", "tea", 10.0), (2, "ann", "jam", 5.0)]
        >>> sales = pd.DataFrame(rows, columns=["time", "agent", "arm", "revenue"])
        >>> problem = from_table(sales, columns={"reward": "revenue"}, low=0, high=20)
        >>> problem.arm_names, problem.losses(2).tolist()
        (('jam', 'tea'), [[0.75, 0.5]])
    """
    frame = _read(table)
    named = _columns(frame, columns)
    policy = _policy(missing, fill)
    values = _values(frame, named, allow_empty=policy is not None)
    t, times, dates = _rounds(frame[named.time])
    v, agent_names = _numbered(frame[named.agent], "agents", agents)
    i, arm_names = _numbered(frame[named.arm], "arms", arms)
    sizes = check_sizes(len(agent_names), len(arm_names), len(times))
    tensor = np.full((len(times), len(agent_names), len(arm_names)), np.nan)
    places = np.asarray(np.ravel_multi_index((t, v, i), tensor.shape))
    rows = np.flatnonzero(~np.isnan(values))
    _refuse_duplicates(places, rows, frame, named)
    tensor.ravel()[places[rows]] = values[rows]
    empty = np.isnan(tensor)
    problem = Table(
        *sizes,
        tensor=_filled(tensor, policy),
        agent_names=agent_names,
        arm_names=arm_names,
        columns=named,
        times=times,
        dates=dates,
    )
    _refuse_missing(problem, policy)
    if empty.any():
        # From here over `explained` to whoever calls from_table.
        warnings.warn(_what_was_filled(problem, empty, policy), stacklevel=3)
    if not named.rewards and (low, high) == (0, 1):
        return problem
    return scaled(problem, low, high, rewards=named.rewards)


def _read(table: Any) -> pd.DataFrame:
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table.reset_index(drop=True)
    if hasattr(table, "to_pandas"):
        return _read(table.to_pandas())
    if not isinstance(table, str | Path):
        raise TypeError(f"a table is a DataFrame or a file path, not {type(table).__name__}")
    path = Path(table)
    if not path.is_file():
        raise FileNotFoundError(f"no table at {path}")
    name = path.name.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet", ".pq")):
        raise ValueError(f"{path} is neither .csv nor .parquet, nor .csv.gz")
    try:
        return pd.read_csv(path) if ".csv" in name else pd.read_parquet(path)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a table ({error})") from error


def _columns(frame: pd.DataFrame, given: Mapping[str, str] | None) -> Columns:
    """Which column is what; refuses what is missing, there twice, or without a row."""
    chosen = {} if given is None else given
    if not isinstance(chosen, Mapping):
        raise TypeError(f"columns must be a table such as {{'time': 'date'}}, not {given!r}")
    for role, name in chosen.items():
        if role not in ROLES:
            turned = f": write {{{name!r}: {role!r}}}" if name in ROLES else ""
            raise ValueError(
                f"columns says what {role!r} is{turned}; it names the table's column for each of "
                f"{', '.join(ROLES[:-1])} or {ROLES[-1]}"
            )
    if "loss" in chosen and "reward" in chosen:
        raise ValueError("columns names a loss and a reward; name the one to play for")
    there = list(frame.columns)
    rewards = "reward" in chosen or ("loss" not in {*chosen, *there} and "reward" in there)
    value = "reward" if rewards else "loss"
    names = [chosen.get(role, role) for role in (*ROLES[:3], value)]
    for role, name in zip((*ROLES[:3], value), names, strict=True):
        if there.count(name) > 1:
            raise ValueError(f"the table has more than one column {name!r}; rename all but one")
        if name not in there:
            asked = f", which columns names as the {role}" if role in chosen else ""
            wanted = "'loss': ... or 'reward'" if role == "loss" else repr(role)
            raise ValueError(
                f"the table has no column {name!r}{asked}; it has {', '.join(map(str, there))}. "
                f"Say which of them it is: columns={{{wanted}: ...}}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"columns gives one column two roles: {', '.join(map(str, names))}")
    if len(frame) == 0:
        raise ValueError("the table has no rows")
    for name in names[:3]:
        empty = np.flatnonzero(frame[name].isna())
        if empty.size:
            raise ValueError(f"the table has no {name} in row {int(empty[0]) + 1}")
    time, agent, arm, values = names
    return Columns(time, agent, arm, values, rewards)


def _policy(missing: Any, fill: Any) -> float | str | None:
    """What stands for a missing value; None: nothing may be missing."""
    if fill is not None:
        if missing is not None:
            raise ValueError("give missing alone: fill is its older name")
        return checks.number(fill, "fill")
    if missing is None or isinstance(missing, str):
        if missing not in (None, *POLICIES):
            raise ValueError(f"missing must be a number, 'mean' or 'carry', not {missing!r}")
        return missing
    return checks.number(missing, "missing")


def _values(
    frame: pd.DataFrame, named: Columns, *, allow_empty: bool
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The losses or rewards as numbers, NaN where empty; what is none is named by its row."""
    import pandas as pd

    column = frame[named.value]
    numeric = pd.to_numeric(column, errors="coerce")
    values: np.ndarray[Any, np.dtype[np.float64]] = numeric.to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(np.isnan(values) & ~(column.isna().to_numpy() & allow_empty))
    if bad.size:
        row = int(bad[0])
        place = named.place(*(frame[name].iloc[row] for name in named[:3]))
        found = column.iloc[row]
        fault = (
            "empty; say what stands for missing values with missing="
            if pd.isna(found)
            else f"{found!r}, not a number"
        )
        raise ValueError(f"the table's {named.value} in row {row + 1} ({place}) is {fault}")
    return values


def _rounds(
    column: pd.Series[Any],
) -> tuple[np.ndarray[Any, Any], pd.Series[Any], np.ndarray[Any, Any] | None]:
    """The round of each row, counted from 0; what the table calls the rounds; their dates."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    seen, distinct = pd.factorize(column)
    labels = pd.Series(distinct, name=column.name).infer_objects()
    numbers = is_numeric_dtype(labels)
    # Two labels may be one moment, in other offsets.
    order, rounds = pd.factorize(labels if numbers else _dates(labels), sort=True)
    _, first = np.unique(order, return_index=True)
    dates = None if numbers else _in_nanoseconds(rounds, column.name)
    return order[seen], labels.iloc[first], dates


def _in_nanoseconds(moments: Any, name: Hashable) -> np.ndarray[Any, Any]:
    """Dates as files hold them, from 1678 to 2262; refuses others, which would not fit."""
    exact = np.asarray(moments)
    outside = (exact < np.datetime64("1678-01-01")) | (exact >= np.datetime64("2262-01-01"))
    if outside.any():
        raise ValueError(
            f"the table's {name} {exact[outside][0].astype('datetime64[D]')} is outside 1678 to "
            "2262; give rounds as numbers instead"
        )
    return exact.astype("datetime64[ns]")


def _dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Dates, or text that is an ISO date, without an offset: in UTC where they had one."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    if is_datetime64_any_dtype(column):
        return column if column.dt.tz is None else column.dt.tz_convert(None)
    text = column.map(str)
    dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    if dates.isna().any():
        raise ValueError(
            f"the table's {column.name} {column[dates.isna()].iloc[0]!r} is neither a number nor "
            "a date such as 2024-01-31"
        )
    offset = text.str.contains(_OFFSET)
    if offset.any() and not offset.all():
        raise ValueError(
            f"the table's {column.name} {text[offset].iloc[0]!r} has an offset from UTC, but "
            f"{text[~offset].iloc[0]!r} has none; give one to all of them, or to none"
        )
    return dates.dt.tz_convert(None)


def _numbered(
    column: pd.Series[Any], what: str, order: Sequence[Hashable] | None
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """The number of each row's label, and the labels in order."""
    import pandas as pd

    codes, labels = pd.factorize(column, sort=order is None)
    names = [str(label) for label in labels]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} has {twice} as a number and as text; make them one kind")
    if order is None:
        return codes, tuple(names)
    index = pd.Index([str(name) for name in order])  # a network's names are text, numbers too
    if not index.is_unique:
        raise ValueError(f"{what} names {index[index.duplicated()][0]!r} twice")
    codes = index.get_indexer(pd.Index(names))[codes]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"the table has {column.name} {column.iloc[row]!r} in row {row + 1}, which {what} "
            "does not name"
        )
    return codes, tuple(index)


def _refuse_duplicates(
    places: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], frame: pd.DataFrame, named: Columns
) -> None:
    import pandas as pd

    again = pd.Series(places[rows]).duplicated()
    if again.any():
        row = int(rows[again.argmax()])
        place = named.place(*(frame[name].iloc[row] for name in named[:3]))
        raise ValueError(
            f"the table has more than one {named.value} for {place}: the second is in row {row + 1}"
        )


def _filled(tensor: np.ndarray[Any, Any], policy: float | str | None) -> np.ndarray[Any, Any]:
    """The tensor with what the policy has for the cells that are NaN."""
    import pandas as pd

    if policy is None:
        return tensor
    if policy == "carry":
        filled = pd.DataFrame(tensor.reshape(len(tensor), -1)).ffill()
    else:
        by_arm = pd.DataFrame(tensor.reshape(-1, tensor.shape[2]))
        filled = by_arm.fillna(by_arm.mean() if policy == "mean" else policy)
    return filled.to_numpy().reshape(tensor.shape)


def _refuse_missing(problem: Table, policy: float | str | None) -> None:
    missing = np.isnan(problem.tensor)
    if not missing.any():
        return
    t, v, i = np.argwhere(missing)[0]
    count, first = int(missing.sum()), problem.cell(int(t) + 1, int(v), int(i))
    more = f", nor to {count - 1} other cell{'s' * (count > 2)}" if count > 1 else ""
    raise ValueError(
        {
            None: f"the table has no row for {count} of {missing.size} cells, the first being "
            f"{first}. Add the rows, or say what stands for them: missing= a number, 'mean' or "
            "'carry'",
            "carry": f"missing='carry' has nothing to carry to {first}{more}. Add the rows, or "
            "take a number or 'mean'",
            "mean": f"missing='mean' has no value of this arm for {first}. Add rows, or take a "
            "number",
        }[policy]  # type: ignore[index]
    )


def _what_was_filled(
    problem: Table, empty: np.ndarray[Any, Any], policy: float | str | None
) -> str:
    """How many cells had no value, and whose name has few rows of its own, perhaps by mistake."""
    filling = f"{policy:g}" if isinstance(policy, float) else repr(policy)
    message = f"missing={filling} filled {int(empty.sum())} of {empty.size} cells"
    if empty.mean() > 0.5:  # as of most names in a log that has one arm of each agent and time
        return message
    for column, names, others in (
        (problem.columns.agent, problem.agent_names, (0, 2)),
        (problem.columns.arm, problem.arm_names, (0, 1)),
    ):
        counts, share = empty.sum(axis=others), empty.mean(axis=others)
        worst = int(share.argmax())
        if share[worst] > 0.5:
            assert names is not None
            count = f"{counts[worst]} of {empty.size // len(counts)} cells"
            message += f"; {column} {names[worst]!r} has {count} filled: a misspelt name?"
    return message
