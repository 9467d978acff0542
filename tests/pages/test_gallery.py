"""The gallery's scripts run as a reader would run them, are short, and end in a picture."""

from __future__ import annotations

import html
import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

from .source import ROOT

sys.path.insert(0, str(ROOT / "docs"))
animations = importlib.import_module("animations")

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


def test_an_animation_is_shown_whole_and_once(tmp_path: Path) -> None:
    page = tmp_path / "network.html"
    text = '<p title="a">\n\n  1 &lt; 2</p>\n'
    page.write_text(text, encoding="utf-8")
    names = {"example_globals": {"page": page, "late": tmp_path / "late.html", "runs": 3}}
    shown = animations.scrape(None, names, {})
    # On one line: raw text ends where it is not indented.
    [held] = re.findall(r'srcdoc="(.*)"', shown)
    assert html.unescape(held) == text
    assert animations.scrape(None, names, {}) == ""
