"""`make` repairs an environment in which the library was installed without its ratings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages.source import PAGES, ROOT, blocks, name_of


def planned(folder: Path) -> str:
    """Return the commands that `make reproduce` would run; another make may run this test."""
    return subprocess.run(
        ["make", "--dry-run", "reproduce"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("record", "installs"),
    [
        ('{"dir_info": {"editable": true}, "url": "file:///here"}', False),
        ('{"dir_info": {}, "url": "file:///here"}', True),  # pip install '.[sim]'
        (None, True),  # pip uninstall
    ],
)
def test_the_library_stays_in_its_folder(
    tmp_path: Path, record: str | None, installs: bool
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    installed = tmp_path / ".venv/lib/python3.11/site-packages/fedbandits-0.1.0.dist-info"
    installed.mkdir(parents=True)
    assert "pip" in planned(tmp_path)  # nothing has been set up yet
    (tmp_path / ".venv/.ready").touch()
    if record is not None:
        (installed / "direct_url.json").write_text(record)
    plan = planned(tmp_path)
    assert ("pip" in plan) == installs
    assert plan.endswith(".venv/bin/fedbandits reproduce --out out\n")


def test_pages_install_into_one_environment() -> None:
    """Pages with `.venv` install as `make` does, so that none takes the ratings away."""
    start = [page for page in PAGES if "start" in page.parts or page.name == "README.md"]
    installs = [
        (name_of(page), line)
        for page in start
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if re.match(r"(\.venv/bin/)?pip install", line)
    ]
    assert installs
    assert [each for each in installs if " -e " not in each[1]] == []
