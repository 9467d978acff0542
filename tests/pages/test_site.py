"""The site can be made: no warning, no lost link, nothing from outside, every public name."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from .look import CHROMIUM, look, pages_of
from .source import ROOT

sys.path.insert(0, str(ROOT / "docs"))
elsewhere = importlib.import_module("elsewhere")
formulas = importlib.import_module("formulas")
reference = importlib.import_module("public_names")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with the gallery's scripts shown and not played: `make docs` plays them."""
    folder = tmp_path_factory.mktemp("site")
    docs = folder / "repository" / "docs"  # a copy: gallery pages are made beside the others
    for name in ("docs", "deploy", "examples", "benchmarks"):
        leave = shutil.ignore_patterns("gallery" if name == "docs" else "results", "__pycache__")
        shutil.copytree(ROOT / name, docs.parent / name, ignore=leave)
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, docs.parent / name)
    words = ["-q", "-W", "--keep-going", "-b", "html", "-D", "plot_gallery=0"]
    words += ["-d", str(folder / "trees"), str(docs), str(folder / "site")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


class Found(HTMLParser):
    """What a page links to, loads, and can be linked at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") not in ("prev", "next", "index", "search"):
            self.loads.append(values["href"])


@pytest.mark.soak
def test_the_site_is_whole(site: Path) -> None:
    pages = {page: Found(page) for page in pages_of(site)}
    assert len(pages) > 40
    wrong = []
    for page, found in pages.items():
        wrong += [f"{page}: loads {each}" for each in found.loads if re.match(r"\w+:|//", each)]
        for address in (each for each in found.links if not re.match(r"\w+:", each)):
            path, _, anchor = address.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            if not target.exists():
                wrong.append(f"{page}: there is no {address}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].names:
                wrong.append(f"{page}: nothing there is called {address}")
    assert wrong == []


@pytest.mark.soak
def test_every_public_name_is_described(site: Path) -> None:
    described = {name for page in site.glob("reference/*.html") for name in Found(page).names}
    missing = [
        name
        for module in reference.public_modules()
        for name in homes(module)
        if name not in described
    ]
    assert missing == []


def homes(module: str) -> list[str]:
    """Where the public names of a module are described; modules have pages of their own."""
    found = reference.resolve(module)
    names = [name for name in reference.public_names(found) if name not in modules_of(module)]
    return [reference.home(module, name, getattr(found, name)) for name in names]


def modules_of(module: str) -> set[str]:
    inside = (name for name in reference.public_modules() if name.startswith(f"{module}."))
    return {name.removeprefix(f"{module}.") for name in inside}


def test_names_are_found() -> None:
    assert "fedbandits.simulate" in homes("fedbandits")
    assert "fedbandits.Gossip" in homes("fedbandits.gossip")  # one thing, one description
    assert "fedbandits.schedules.power" in homes("fedbandits.schedules")
    assert not any(name.endswith(".problems") for name in homes("fedbandits"))


@pytest.mark.soak
@pytest.mark.skipif(not CHROMIUM, reason="no chromium or google-chrome installed")
def test_the_site_looks_right(site: Path) -> None:
    """Every page, on a phone and a desktop, light and dark, and the search."""
    assert look(site) == []


@pytest.mark.soak
@pytest.mark.skipif(not CHROMIUM, reason="no chromium or google-chrome installed")
def test_what_is_wrong_is_seen(tmp_path: Path) -> None:
    outside = "http://127.0.0.1:9/font.css"
    (tmp_path / "wide.html").write_text(
        f"<!doctype html><link rel=stylesheet href='{outside}'><script>console.error('no')</script>"
        "<div style='width: 700px'>wide</div><img src='nowhere.png'>"
    )
    (tmp_path / "search.html").write_text("<!doctype html>")
    wrong = look(tmp_path)
    for seen in (
        *("wide.html: wider than 390 pixels", "wide.html: is not dark"),
        *("wide.html: a picture is missing", "search.html: gossip is not found"),
    ):
        assert seen in wrong
    assert "wide.html: wider than 1280 pixels" not in wrong
    assert any(each.endswith(f"asks for {outside}") for each in wrong)
    assert any(each.endswith("error: no") for each in wrong)


def test_pages_from_elsewhere_link_within_the_site() -> None:
    text = elsewhere.read("howto/large", "[b](../../benchmarks/RESULTS.md) [l](live.md#a)")
    assert text == "[b](/reproduced/benchmarks.md) [l](live.md#a)"
    text = elsewhere.read("start/index", "[g](../../examples/gallery/README.rst)")
    assert text == "[g](/gallery/index.rst)"
    contributing = elsewhere.read("contributing", "stub")
    assert "](/howto/hostile.md#an-adversary-who-watches)" in contributing
    assert "stub" not in contributing


def test_formulas_in_docstrings_stay_as_they_are() -> None:
    said = ["Sums |S|,", "", "    x = |S| * 2,", "", "of `|S|`.", "", "Args:", "    S: *some*."]
    assert reference.readable(said) == [
        *(r"Sums \|S\|,", "", "::", "", "    x = |S| * 2,", "", "of `|S|`.", ""),
        *("Args:", r"    S: \*some\*."),
    ]


@pytest.mark.parametrize(
    ("text", "set_"),
    [
        ("z_{t+1}^v = Σ_u W_uv z_t^u", "z<t+1>(v) = Σ<u> W<uv> z<t>(u)"),
        ("‖f_t‖_∞² and f_t²", "‖f<t>‖<∞>² and f<t>²"),
        ("(C_W K²)^(1/3) T^(2/3), e^ε", "(C<W> K²)(1/3) T(2/3), e(ε)"),
        ("round_loss of from_theorem", "round_loss of from_theorem"),
    ],
)
def test_indices_of_formulas_are_found(text: str, set_: str) -> None:
    marks = {"subscript": "<{}>", "superscript": "({})"}
    found = [marks.get(node.tagname, "{}").format(node.astext()) for node in formulas.pieces(text)]
    assert "".join(found) == set_


def test_listings_are_no_formulas() -> None:
    assert formulas.is_formula("x^{b+1} = ω W x^b")
    assert not formulas.is_formula('{"time": "...", "level": "info"}')
    assert not formulas.is_formula("keys/ca.key, ca.pem     the authority")
