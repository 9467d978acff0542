"""Losses that exist: a tensor, a memory map, or a long table."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedbandits.arrays import Array

from .base import Check, Problem, check_sizes

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("time", "agent", "arm", "loss")


@dataclass(frozen=True, eq=False)
class Stored(Problem):
    """Losses read from an array, a block of rounds at a time."""

    agents: int
    arms: int
    horizon: int
    tensor: np.ndarray[Any, Any]
    """`[T, N, K]`, possibly a memory map."""
    agent_names: tuple[Hashable, ...] | None = None
    arm_names: tuple[Hashable, ...] | None = None

    traced: ClassVar[bool] = False

    @property
    def check(self) -> Check:
        """All of it, before the run."""
        return "before"

    def losses(self, t: Array) -> Array:
        """Row t - 1 of the tensor, `[N, K]`."""
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
                description[key] = [str(name) for name in names]
        return description


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
    if array.ndim != 3:
        raise ValueError(f"the tensor has shape {array.shape}; expected (horizon, agents, arms)")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the tensor holds {array.dtype}; expected numbers")
    horizon, agents, arms = array.shape
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    return Stored(agents, arms, horizon, array)


def from_table(table: pd.DataFrame | str | Path, *, fill: float | None = None) -> Stored:
    """Losses from a long table with the columns time, agent, arm and loss.

    Rounds are the distinct times in order, agents and arms the distinct values in order; their
    names are kept as `problem.agent_names` and `problem.arm_names`.

    Args:
        table: a pandas DataFrame (or anything with `to_pandas()`), or the path of a CSV or Parquet
            file.
        fill: the loss of every (time, agent, arm) that has no row. Without it a missing cell is
            an error.

    Example:
        >>> import pandas as pd
        >>> rows = [(1, "ann", "tea", 0.0), (1, "ann", "jam", 1.0), (2, "ann", "jam", 0.5)]
        >>> problem = from_table(pd.DataFrame(rows, columns=list(COLUMNS)), fill=0.25)
        >>> problem.arm_names, problem.losses(2).tolist()
        (('jam', 'tea'), [[0.5, 0.25]])
    """
    frame = _read(table)
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(
            f"the table has no column {missing[0]!r}; it needs {', '.join(COLUMNS)} and has "
            f"{', '.join(map(str, frame.columns))}"
        )
    if len(frame) == 0:
        raise ValueError("the table has no rows")
    for name in COLUMNS[:3]:
        empty = np.flatnonzero(frame[name].isna())
        if empty.size:
            raise ValueError(f"the table has no {name} in row {int(empty[0]) + 1}")
    loss = _losses(frame)
    codes, names = zip(*(_factorize(frame, name) for name in COLUMNS[:3]), strict=True)
    horizon, agents, arms = (len(labels) for labels in names)
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    cells = np.asarray(np.ravel_multi_index(codes, (horizon, agents, arms)))
    _refuse_duplicates(cells, frame)
    tensor = np.full(horizon * agents * arms, np.nan if fill is None else fill, np.float64)
    seen = np.zeros(tensor.size, bool)
    tensor[cells] = loss
    seen[cells] = True
    if fill is None and not seen.all():
        t, v, i = np.unravel_index(int(np.argmin(seen)), (horizon, agents, arms))
        raise ValueError(
            f"the table has no row for {int((~seen).sum())} of {seen.size} cells, the first being "
            f"time {names[0][t]}, agent {names[1][v]}, arm {names[2][i]}. Add the rows, or name "
            "the loss of missing cells with fill="
        )
    return Stored(
        agents,
        arms,
        horizon,
        tensor.reshape(horizon, agents, arms),
        tuple(names[1]),
        tuple(names[2]),
    )


def _map(path: Path) -> np.ndarray[Any, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no tensor at {path}")
    try:
        mapped: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file of numbers ({error})") from error
    return mapped


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


def _losses(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    """The loss column as numbers, each checked in its own row of the table."""
    import pandas as pd

    loss = pd.to_numeric(frame["loss"], errors="coerce").to_numpy(np.float64)
    bad = np.flatnonzero(np.isnan(loss))
    if bad.size:
        row = int(bad[0])
        raise ValueError(
            f"the table's loss in row {row + 1} is {frame['loss'].iloc[row]!r}, not a number"
        )
    return loss


def _factorize(frame: pd.DataFrame, name: str) -> tuple[np.ndarray[Any, Any], list[Hashable]]:
    import pandas as pd

    codes, labels = pd.factorize(frame[name], sort=True)
    return codes, list(labels)


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
