"""Cells that are kept until all have been played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedbandits.experiments import Options
from fedbandits.experiments.kept_cells import KeptCells, forget_cells, kept_cells


def counting(calls: list[str], value: Any) -> Any:
    calls.append("played")
    return value


def test_a_cell_is_played_once(tmp_path: Path) -> None:
    kept, calls = KeptCells(tmp_path, "about"), list[str]()
    found = [kept.played((1, "a"), lambda: counting(calls, [0.1, "x"])) for _ in range(3)]
    assert found == [[0.1, "x"]] * 3
    assert calls == ["played"]
    kept.played((2, "a"), lambda: counting(calls, 0))
    KeptCells(tmp_path, "about something else").played((1, "a"), lambda: counting(calls, 0))
    assert len(calls) == 3


@pytest.mark.parametrize("content", ["", "[0.1,", "\x00"])
def test_a_file_that_cannot_be_read_is_played_anew(tmp_path: Path, content: str) -> None:
    kept, calls = KeptCells(tmp_path, "about"), list[str]()
    kept.played(1, lambda: counting(calls, 5))
    [file] = tmp_path.iterdir()
    file.write_text(content)
    assert kept.played(1, lambda: counting(calls, 5)) == 5
    assert kept.played(1, lambda: counting(calls, 5)) == 5
    assert len(calls) == 2


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    kept = KeptCells(tmp_path, "about")
    with pytest.raises(ZeroDivisionError):
        kept.played(1, lambda: 1 / 0)
    assert kept.played(1, lambda: 7) == 7


def test_options_and_players_tell_cells_apart_and_a_part_that_is_done_keeps_none(
    tmp_path: Path,
) -> None:
    options, calls = Options(tmp_path), list[str]()
    for other, about in (
        (options, [1]),
        (options, [2]),
        (Options(tmp_path, seed=1), [1]),
        (Options(tmp_path, runs=3), [1]),
        (options, [1]),
    ):
        kept_cells(other, "part", about).played("cell", lambda: counting(calls, 0))
    assert len(calls) == 4
    forget_cells(options, "part")
    assert not list(tmp_path.iterdir())
    forget_cells(options, "part")
