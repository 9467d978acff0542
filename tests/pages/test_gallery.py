"""The gallery's scripts run as a reader would run them, are short, and end in a picture."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from .source import ROOT

SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_ends_in_a_picture(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert len(sys.modules["matplotlib.pyplot"].get_fignums()) == 1
    assert list(tmp_path.iterdir()) == []  # nothing is left in the reader's folder


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_short(script: Path) -> None:
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60
