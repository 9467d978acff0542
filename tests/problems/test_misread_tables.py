"""Tables that pandas or from_table could misread: the right losses, or an error with a fix."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb


def column(value: Any) -> pd.Series[Any]:
    """One value in all 48 rows."""
    values: Any = [value] * 48
    return pd.Series(values)


def table(rounds: int = 12) -> pd.DataFrame:
    """Losses 0, 0.25, ..., 1 and again: by time, agent and arm."""
    rows = [(t, v, i) for t in range(1, rounds + 1) for v in "ab" for i in "xy"]
    frame = pd.DataFrame(rows, columns=["time", "agent", "arm"])
    return frame.assign(loss=np.arange(len(frame)) % 5 / 4)


def make(frame: Any, **options: Any) -> fb.Problem:
    return fb.problems.from_table(frame, **options)


def losses(frame: Any) -> Any:
    problem = make(frame)
    return problem.block(1, problem.horizon).tolist()


def test_categories_of_numbers_are_numbers() -> None:
    assert losses(table().astype({"time": "category"})) == losses(table())


def test_dates_of_arrow() -> None:
    days = pd.Series(pd.date_range("2024-01-01", periods=12).repeat(4).date)
    frame = table().assign(time=days)
    arrow = frame.astype({"time": "date32[pyarrow]"})
    np.testing.assert_array_equal(make(arrow).dates, make(frame).dates)
    assert losses(arrow) == losses(table())


def test_a_long_file_has_one_kind_of_label(tmp_path: Path) -> None:
    """By default pandas infers types chunk by chunk: '1' is a number in one and text in another."""
    frame = pd.concat(
        table(150_000).query("agent == 'a'").assign(agent=agent) for agent in ("1", "x")
    )
    frame.to_csv(tmp_path / "long.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(tmp_path / "long.csv").agent_names == ("1", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,1,0,1,0.5\n1,1,1,0,0.5", "names 4 columns, but line 2 has 5 fields; .* with a point"),
        ("1,a,x,0.5,\n1,a,y,0.5,", "names 4 columns, but line 2 has 5 fields; .* end of a line"),
    ],
)
def test_lines_with_too_many_fields(tmp_path: Path, text: str, message: str) -> None:
    """Pandas reads the first field as an index: each value is then in the wrong column."""
    (tmp_path / "t.csv").write_text(f"time,agent,arm,loss\n{text}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "t.csv")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators(tmp_path: Path, separator: str) -> None:
    table().to_csv(tmp_path / "t.csv", sep=separator, index=False)
    with pytest.raises(ValueError, match=r"separates its columns by .* pd.read_csv\(path, sep="):
        make(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "no column 'time'; it has no columns"),
        (table().set_index("time"), r"'time' is in its index: pass table.reset_index\(\)"),
        (
            table().assign(time=[1] * 4 + ["2"] * 44),
            "time is a number in some rows, such as 1, but not in others, such as '2'",
        ),
        (
            table().assign(time=column([1])),
            r"time in row 0 \(counted from 0\) is \[1\]; expected a",
        ),
        (
            table().assign(arm=column({"x"})),
            r"arm in row 0 \(counted from 0\) is \{'x'\}; expected",
        ),
        (table().assign(loss=column(0.5 + 1j)), "loss holds complex128, not real numbers"),
        (table().assign(loss=pd.Timestamp("2024-01-01")), r"loss holds datetime64\[.s\], not real"),
        (table().assign(loss=pd.Timedelta("1h")), r"loss holds timedelta64\[.s\], not real"),
    ],
)
def test_frames_that_hold_no_losses(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(frame)


@pytest.mark.parametrize("order", ["ab", {"a", "b"}, {"a": 0}, 2, fb.networks.path(2)])
@pytest.mark.parametrize("what", ["agents", "arms"])
def test_an_order_is_a_list(what: str, order: Any) -> None:
    """The order of a set changes from one process to the next."""
    with pytest.raises(TypeError, match=f"{what} must be a list of names in the order wanted, not"):
        make(table(), **{what: order})
