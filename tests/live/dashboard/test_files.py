"""The files of the dashboard, without a browser: whole, and with nothing from elsewhere."""

import re

import pytest

from tests.live.dashboard.standin import PAGE, POLICY

OURS = sorted(
    file
    for file in PAGE.iterdir()
    if file.suffix in {".html", ".js", ".css", ".svg"} and not file.name.startswith("uPlot")
)
INDEX = (PAGE / "index.html").read_text()


def test_a_licence_is_beside_what_others_wrote() -> None:
    assert "MIT License" in (PAGE / "uPlot.LICENSE.txt").read_text()
    assert "Leon Sorokin" in (PAGE / "uPlot.LICENSE.txt").read_text()


def test_the_page_has_all_it_asks_for() -> None:
    code = {file: file.read_text() for file in OURS}
    asked = set(re.findall(r'(?:href|src)="([^"#]+)"', INDEX))
    asked |= {name for text in code.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert asked == {file.name for file in PAGE.iterdir()} - {"index.html", "uPlot.LICENSE.txt"}


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_no_address_of_elsewhere(file: object) -> None:
    text = (PAGE / getattr(file, "name", "")).read_text()
    assert set(re.findall(r"https?://[^\"' >]+", text)) <= {"http://www.w3.org/2000/svg"}
    for markup in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert markup not in text


def test_nothing_moves_by_itself() -> None:
    assert not re.search(r"animation|transition|scroll-behavior", (PAGE / "style.css").read_text())


def test_a_strict_policy_holds() -> None:
    assert f'http-equiv="Content-Security-Policy" content="{POLICY}"' in INDEX
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", INDEX)
