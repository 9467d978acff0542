"""Sections that parts of the paper and studies make, with checks that hold for all of them."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest

from fedbandits.paper.section import Section

Made = tuple[Path, Section]


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The section that `make(folder)` of a test module returns, and its folder."""
    mpl.use("agg")
    out = tmp_path_factory.mktemp("made")
    section: Section = request.module.make(out)
    check_section(out, section)
    return out, section


def check_section(out: Path, section: Section) -> None:
    """All files are named and exist, pictures have three of them, and tables are rectangular."""
    assert sorted(path.name for path in out.iterdir()) == sorted(section.files)
    for picture in section.pictures:
        files = [out / f"{picture.stem}.{kind}" for kind in ("png", "pdf", "svg")]
        assert [file.read_bytes()[1:4] for file in files[:2]] == [b"PNG", b"PDF"]
        assert files[2].name in section.files
    for table in section.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert all(isinstance(cell, str) for row in table.rows for cell in row)
    assert section.command.endswith(f" {section.name} --quick")
