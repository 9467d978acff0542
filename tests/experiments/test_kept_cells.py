"""Cells that are kept until all have been played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedbandits.experiments import Options
from fedbandits.experiments import kept_cells as kept_cells_module
from fedbandits.experiments.kept_cells import KeptCells, forget_cells, kept_cells


def counted(kept: KeptCells, calls: list[Any], value: Any = 0) -> Callable[[Any], Any]:
    """A cell of which `value` comes, kept, each play of which is counted."""

    def play(cell: Any) -> Any:
        calls.append(cell)
        return value

    return kept.keeping(lambda parts: parts, play)


class Found(NamedTuple):
    name: str
    values: dict[str, Any]
    table: Any
    exact: bool


def test_a_cell_is_played_once_and_comes_back_as_it_was(tmp_path: Path) -> None:
    made = Found("x", {"a": np.array([0.1, 1 / 3])}, np.eye(2), exact=False)
    calls: list[Any] = []

    def play(cell: Any) -> Found:
        calls.append(cell)
        return made

    kept = KeptCells(tmp_path, "about").keeping(lambda parts: Found(*parts), play)
    assert kept((1, "a")) is made
    again = kept((1, "a"))
    assert (again.name, again.exact) == ("x", False)
    np.testing.assert_array_equal(again.values["a"], made.values["a"])
    np.testing.assert_array_equal(again.table, made.table)
    assert calls == [(1, "a")]
    kept((2, "a"))
    KeptCells(tmp_path, "about something else").keeping(lambda parts: Found(*parts), play)((1, "a"))
    assert len(calls) == 3


@pytest.mark.parametrize("content", ["", "[0.1,", "\x00"])
def test_a_file_that_cannot_be_read_is_played_anew(tmp_path: Path, content: str) -> None:
    calls: list[Any] = []
    play = counted(KeptCells(tmp_path, "about"), calls, 5)
    play(1)
    [file] = tmp_path.iterdir()
    file.write_text(content)
    assert play(1) == play(1) == 5
    assert len(calls) == 2


def test_a_file_of_other_parts_is_played_anew(tmp_path: Path) -> None:
    kept = KeptCells(tmp_path, "about")
    kept.keeping(lambda parts: parts, lambda _: [1, 2])(1)
    made = Found("x", {}, np.eye(2), exact=True)
    again = kept.keeping(lambda parts: Found(*parts), lambda _: made)
    assert again(1) is made


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    kept = KeptCells(tmp_path, "about")

    def play(cell: int) -> float:
        return cell / 0

    with pytest.raises(ZeroDivisionError):
        kept.keeping(lambda parts: parts, play)(1)
    assert not list(tmp_path.iterdir())


def test_options_and_players_tell_cells_apart_and_a_part_that_is_done_keeps_none(
    tmp_path: Path,
) -> None:
    options, calls = Options(tmp_path), list[Any]()
    for other, about in (
        (options, [1]),
        (options, [2]),
        (Options(tmp_path, seed=1), [1]),
        (Options(tmp_path, runs=3), [1]),
        (options, [1]),
    ):
        counted(kept_cells(other, "part", about), calls)("cell")
    assert len(calls) == 4
    forget_cells(options, "part")
    assert not list(tmp_path.iterdir())
    forget_cells(options, "part")


def test_what_other_code_played_is_played_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    counted(kept_cells(Options(tmp_path), "part", [1]), calls)("cell")
    monkeypatch.setattr(kept_cells_module, "_code", lambda: "another")
    counted(kept_cells(Options(tmp_path), "part", [1]), calls)("cell")
    assert len(calls) == 2
