"""Cells on disk: read if they fit, played again if not, removed at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedbandits.paper import Options, cells
from fedbandits.paper.cells import KeptCells, forget_cells, kept_cells


def counted(kept: KeptCells, calls: list[Any], value: Any = 0) -> Callable[[Any], Any]:
    """Return a kept function of cells whose calls are counted."""

    def play(cell: Any) -> Any:
        calls.append(cell)
        return value

    return kept.keeping(lambda parts: parts, play)


class Found(NamedTuple):
    name: str
    values: dict[str, Any]
    table: Any
    exact: bool


MADE = Found("x", {"a": np.array([0.1, 1 / 3])}, np.eye(2), exact=False)


def test_a_cell_is_played_once_and_read_without_loss(tmp_path: Path) -> None:
    calls: list[Any] = []

    def play(cell: Any) -> Found:
        calls.append(cell)
        return MADE

    kept = KeptCells(tmp_path, "about").keeping(lambda parts: Found(*parts), play)
    assert kept((1, "a")) is MADE
    again = kept((1, "a"))
    assert (again.name, again.exact) == ("x", False)
    np.testing.assert_array_equal(again.values["a"], MADE.values["a"])
    np.testing.assert_array_equal(again.table, MADE.table)
    assert calls == [(1, "a")]
    kept((2, "a"))
    KeptCells(tmp_path, "about something else").keeping(lambda parts: Found(*parts), play)((1, "a"))
    assert len(calls) == 3


@pytest.mark.parametrize("content", ["", "[0.1,", "\x00"])
def test_a_cell_whose_file_cannot_be_read_is_played_again(tmp_path: Path, content: str) -> None:
    calls: list[Any] = []
    play = counted(KeptCells(tmp_path, "about"), calls, 5)
    play(1)
    [file] = tmp_path.iterdir()
    file.write_text(content)
    assert play(1) == play(1) == 5
    assert len(calls) == 2


def test_a_cell_of_other_parts_is_played_again_and_errors_are_not_kept(tmp_path: Path) -> None:
    kept = KeptCells(tmp_path, "about")

    def fails(cell: int) -> float:
        return cell / 0

    with pytest.raises(ZeroDivisionError):
        kept.keeping(lambda parts: parts, fails)(1)
    assert not list(tmp_path.iterdir())
    kept.keeping(lambda parts: parts, lambda _: [1, 2])(1)
    assert kept.keeping(lambda parts: Found(*parts), lambda _: MADE)(1) is MADE


def test_options_players_and_code_separate_cells_until_the_part_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr(cells, "_code", lambda _: "another")
    counted(kept_cells(options, "part", [1]), calls)("cell")
    assert len(calls) == 5
    forget_cells(options, "part")
    assert not list(tmp_path.iterdir())
    forget_cells(options, "part")
