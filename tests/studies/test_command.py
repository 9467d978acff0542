"""`python -m studies`: its parts, options and report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits
import studies
from fedbandits import paper
from fedbandits.paper.cells import cells_folder
from studies.__main__ import app


def part(name: str, played: list[str]) -> Callable[[paper.Options], paper.Section]:
    def play(options: paper.Options) -> paper.Section:
        played.append(options.command(name))
        return paper.Section(name, name, options.command(name))

    return play


def test_every_study_has_a_command() -> None:
    assert tuple(studies.REGISTRY) == paper.STUDIES
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert all(re.search(rf"^\W*{name}\b", done.stdout, re.MULTILINE) for name in paper.STUDIES)
    failed = CliRunner().invoke(app, ["suit"])
    assert failed.exit_code == 2
    assert "suit" in failed.stderr


def test_studies_write_one_report_with_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[str] = []
    for name in ("suite", "moving"):
        monkeypatch.setitem(studies.REGISTRY, name, part(name, played))
    paper.Section("figure1", "Figure 1", "fedbandits reproduce figure1").save(tmp_path)
    args = ["--seed", "3", "--quick", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, ["suite", *args]).exit_code == 0
    assert CliRunner().invoke(app, ["moving", *args]).exit_code == 0
    commands = [f"python -m studies {name} --seed 3 --quick" for name in ("suite", "moving")]
    assert played == [*commands, commands[1]]  # the suite has two parts
    report = (tmp_path / "report.html").read_text()
    assert all(text in report for text in ("Figure 1", "suite (quick)", commands[1]))
    # A study made with other options stays.
    failed = CliRunner().invoke(app, ["moving", "--out", str(tmp_path)])
    assert failed.exit_code == 2
    assert f"has moving by `{commands[1]}`" in failed.stderr


def test_the_package_never_imports_studies() -> None:
    for file in Path(fedbandits.__file__).parent.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) studies\b", file.read_text(), re.MULTILINE), file


def test_cells_depend_on_the_code_of_studies(tmp_path: Path) -> None:
    of_paper, of_studies = (
        cells_folder(options(tmp_path), "suite").name
        for options in (paper.Options, studies.Options)
    )
    assert of_paper != of_studies
    assert set(paper.Options.sources) < set(studies.Options.sources)
