"""Losses that exist: a tensor, a memory map, or a long table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedbandits import checks
from fedbandits.arrays import Array

from .base import Check, Problem, check_sizes

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("time", "agent", "arm", "loss")


@dataclass(frozen=True, eq=False, repr=False)
class Stored(Problem):
    """Losses read from an array, a block of rounds at a time."""

    agents: int
    arms: int
    horizon: int
    tensor: np.ndarray[Any, Any]
    """`[T, N, K]`, possibly a memory map."""
    agent_names: tuple[str, ...] | None = None  # type: ignore[misc]
    arm_names: tuple[str, ...] | None = None  # type: ignore[misc]

    traced: ClassVar[bool] = False

    @property
    def check(self) -> Check:
        """All of it, before the run."""
        return "before"

    def losses(self, t: Array) -> Array:
        """Row t - 1 of the tensor, `[N, K]`."""
        if not 1 <= t <= self.horizon:
            raise ValueError(f"rounds are 1 to {self.horizon}, not {t}")
        return self.tensor[t - 1]

    def block(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Rows first - 1 to last - 1, `[C, N, K]`."""
        return np.asarray(self.tensor[first - 1 : last])

    def describe(self) -> dict[str, Any]:
        """Sizes, names and a hash of the losses themselves."""
        import hashlib

        digest = hashlib.sha256(self.tensor.dtype.str.encode())
        for t in range(self.horizon):  # row by row: a memory map is never read whole
            digest.update(np.ascontiguousarray(self.tensor[t]).data)
        description: dict[str, Any] = {
            "name": "from_tensor",
            "agents": self.agents,
            "arms": self.arms,
            "horizon": self.horizon,
            "sha256": digest.hexdigest(),
        }
        for key, names in (("agent_names", self.agent_names), ("arm_names", self.arm_names)):
            if names is not None:
                description[key] = list(names)
        return description


@checks.explained
def from_tensor(tensor: npt.ArrayLike | str | Path) -> Stored:
    """Losses from an array by round, agent and arm, or from a `.npy` file of one.

    A file, or a NumPy memory map, is read block by block and never whole. Losses outside [0, 1] or
    NaN are refused before a run starts, naming round, agent and arm.

    Example:
        >>> problem = from_tensor(np.full((10, 3, 2), 0.5))
        >>> problem.horizon, problem.agents, problem.arms
        (10, 3, 2)
    """
    array = _map(Path(tensor)) if isinstance(tensor, str | Path) else np.asanyarray(tensor)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("the tensor is masked; fill it first, for example with tensor.filled(0.0)")
    if array.ndim != 3:
        raise ValueError(f"the tensor has shape {array.shape}; expected (horizon, agents, arms)")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the tensor holds {array.dtype}; expected numbers")
    horizon, agents, arms = array.shape
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    return Stored(agents, arms, horizon, array)


@checks.explained
def from_table(
    table: pd.DataFrame | str | Path,
    *,
    fill: float | None = None,
    agents: Sequence[Hashable] | None = None,
    arms: Sequence[Hashable] | None = None,
) -> Stored:
    """Losses from a long table with the columns time, agent, arm and loss.

    Rounds are the distinct times in order. Agents and arms are numbered in the order given, else
    sorted; their names are kept and appear in results.

    Args:
        table: a pandas DataFrame (or anything with `to_pandas()`), or the path of a CSV or Parquet
            file.
        fill: the loss of every (time, agent, arm) that has no row. Without it a missing cell is
            an error.
        agents: the agents in the order of the network's, for example `network.names`.
        arms: the arms in the order wanted.

    Example:
        >>> import pandas as pd
        >>> rows = [(1, "ann", "tea", 0.0), (1, "ann", "jam", 1.0), (2, "ann", "jam", 0.5)]
        >>> problem = from_table(pd.DataFrame(rows, columns=list(COLUMNS)), fill=0.25)
        >>> problem.arm_names, problem.losses(2).tolist()
        (('jam', 'tea'), [[0.5, 0.25]])
    """
    frame = _checked_columns(_read(table))
    empty = np.nan if fill is None else checks.number(fill, "fill")
    if fill is not None:  # an empty loss is a missing one
        frame = _checked_columns(frame[frame["loss"].notna()])
    loss = _losses(frame)
    t, times = _numbered(_times(frame), "time", None)
    v, agent_names = _numbered(frame["agent"], "agent", agents)
    i, arm_names = _numbered(frame["arm"], "arm", arms)
    tensor = np.full((len(times), len(agent_names), len(arm_names)), empty)
    cells = np.asarray(np.ravel_multi_index((t, v, i), tensor.shape))
    _refuse_duplicates(cells, frame)
    tensor.ravel()[cells] = loss
    if fill is None:
        _refuse_missing(tensor, times, agent_names, arm_names)
    problem = from_tensor(tensor)
    return replace(
        problem, agent_names=tuple(map(str, agent_names)), arm_names=tuple(map(str, arm_names))
    )


def _map(path: Path) -> np.ndarray[Any, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no tensor at {path}")
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file of numbers ({error})") from error


def _read(table: Any) -> pd.DataFrame:
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table.reset_index(drop=True)
    if isinstance(table, str | Path):
        path = Path(table)
        if not path.is_file():
            raise FileNotFoundError(f"no table at {path}")
        if path.suffix.lower() == ".csv":
            return pd.read_csv(path)
        if path.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(path)
        raise ValueError(f"{path} is neither .csv nor .parquet")
    if hasattr(table, "to_pandas"):
        return _read(table.to_pandas())
    raise TypeError(f"a table is a DataFrame or a file path, not {type(table).__name__}")


def _checked_columns(frame: pd.DataFrame) -> pd.DataFrame:
    columns = list(frame.columns)
    for name in COLUMNS:
        if columns.count(name) != 1:
            found = "no column" if name not in columns else "more than one column"
            raise ValueError(
                f"the table has {found} {name!r}; it needs {', '.join(COLUMNS)} and has "
                f"{', '.join(map(str, columns))}"
            )
    if len(frame) == 0:
        raise ValueError("the table has no rows")
    for name in COLUMNS[:3]:
        empty = np.flatnonzero(frame[name].isna())
        if empty.size:
            raise ValueError(f"the table has no {name} in row {int(empty[0]) + 1}")
    return frame


def _losses(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    """The loss column as numbers; the first that is none is named by its row."""
    import pandas as pd

    loss = pd.to_numeric(frame["loss"], errors="coerce").to_numpy(np.float64)
    bad = np.flatnonzero(np.isnan(loss))
    if bad.size:
        row = int(bad[0])
        found = frame["loss"].iloc[row]
        if pd.isna(found):
            raise ValueError(
                f"the table's loss in row {frame.index[row] + 1} is empty; name the loss of "
                "missing cells with fill="
            )
        raise ValueError(
            f"the table's loss in row {frame.index[row] + 1} is {found!r}, not a number"
        )
    return loss


def _times(frame: pd.DataFrame) -> pd.Series[Any]:
    """The time column: numbers, dates, or text that is an ISO date; other text has no order."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    time = frame["time"]
    if is_numeric_dtype(time) or is_datetime64_any_dtype(time):
        return time
    dates = pd.to_datetime(time, format="ISO8601", errors="coerce")
    if dates.isna().any():
        raise ValueError(
            f"the table's time {time[dates.isna()].iloc[0]!r} is neither a number nor a date such "
            "as 2024-01-31"
        )
    return dates


def _numbered(
    column: pd.Series[Any], what: str, order: Sequence[Hashable] | None
) -> tuple[np.ndarray[Any, Any], list[Hashable]]:
    """The number of each row's label, and the labels in order."""
    import pandas as pd

    if order is None:
        codes, labels = pd.factorize(column, sort=True)
        return codes, list(labels)
    index = pd.Index(list(order))
    if not index.is_unique:
        raise ValueError(f"{what}s names {index[index.duplicated()][0]!r} twice")
    codes = index.get_indexer(pd.Index(column))
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"the table has {what} {column.iloc[row]!r} in row {row + 1}, which {what}s does not "
            "name"
        )
    return codes, list(index)


def _refuse_missing(tensor: np.ndarray[Any, Any], *names: list[Hashable]) -> None:
    missing = np.isnan(tensor)
    if missing.any():
        t, v, i = np.argwhere(missing)[0]
        raise ValueError(
            f"the table has no row for {int(missing.sum())} of {tensor.size} cells, the first "
            f"being time {names[0][t]}, agent {names[1][v]}, arm {names[2][i]}. Add the rows, or "
            "name the loss of missing cells with fill="
        )


def _refuse_duplicates(cells: np.ndarray[Any, Any], frame: pd.DataFrame) -> None:
    _, first = np.unique(cells, return_index=True)
    if first.size == cells.size:
        return
    repeated = int(np.setdiff1d(np.arange(cells.size), first)[0])
    t, v, i = (frame[name].iloc[repeated] for name in COLUMNS[:3])
    raise ValueError(
        f"the table has more than one loss for time {t}, agent {v}, arm {i}: the second is in "
        f"row {repeated + 1}"
    )
