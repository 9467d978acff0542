"""The gallery's scripts run as a reader would run them, are short, and end in a picture."""

from __future__ import annotations

import html
import importlib
import re
import runpy
import sys
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tests.tiers import soak_but

from .source import ROOT

sys.path.insert(0, str(ROOT / "docs"))
animations = importlib.import_module("animations")

SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))


QUICK = [script for script in SCRIPTS if script.stem[5:7] in ("01", "02", "08", "09")]


@pytest.mark.slow
@pytest.mark.parametrize("script", soak_but(QUICK, SCRIPTS), ids=lambda script: script.stem)
def test_a_script_ends_in_a_picture(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A window with the picture opens; a file that a browser shows is named."""
    shown: list[list[int]] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.get_fignums()))
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(script), run_name="__main__")
    assert shown == [[1]]
    for page in (value for value in found.values() if isinstance(value, Path)):
        assert page.suffix != ".html" or str(page) in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []  # nothing is left in the reader's folder


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_short(script: Path) -> None:
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60


def test_the_gallery_names_what_its_scripts_need() -> None:
    """One extra brings every package that a script imports."""
    page = (ROOT / "examples" / "gallery" / "README.rst").read_text(encoding="utf-8")
    [extra] = set(re.findall(r"\.\[(\w+)\]", page))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = " ".join(extras["optional-dependencies"][extra])
    assert "fedbandits[sim]" in needed
    imported = {
        name
        for script in SCRIPTS
        for name in re.findall(r"^(?:import|from) (\w+)", script.read_text(), re.MULTILINE)
    }
    others = imported - sys.stdlib_module_names - {"fedbandits", "numpy", "pandas", "matplotlib"}
    assert others == {"optuna"}
    assert all(name in needed for name in others)


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
