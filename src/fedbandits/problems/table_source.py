"""A table in memory or in a file, and where its rows are, for errors."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
