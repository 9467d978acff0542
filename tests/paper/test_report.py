"""The report: its text, and its page in a browser."""

import base64
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedbandits.paper import report
from fedbandits.paper.pictures import Picture
from fedbandits.paper.report import write_report
from fedbandits.paper.section import Section, Table
from fedbandits.results.plots import new_axes
from tests.chromium import Browser, Tab, needs_chromium

HOSTILE = """</script><script>alert("1 < 2 & 'three'")</script>"""
NAMES = ["figure1", "theorems", "bare"]
VOID = {"meta", "link", "img"}
WIDTH = "document.documentElement.scrollWidth"


def add_curve(section: Section, out: Path, stem: str, width: float) -> None:
    ax = new_axes(width)
    ax.plot(np.linspace(1, 3000, 50), np.sqrt(np.arange(50)), label="FedExp3, σ₂ = 0.97")
    ax.set_title("6 × 6 grid, α < ½ & γ")
    ax.set_xlabel("round $t$")
    ax.legend()
    figure = ax.get_figure(root=True)
    assert figure is not None
    picture = Picture(stem, f"Regret against T on the {stem} × grid, η = 0.1.", f'A "{stem}" curve')
    section.add_picture(out, figure, picture)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of three sections: everything, no picture, and nothing at all."""
    out = tmp_path_factory.mktemp("report")
    full = Section(
        "figure1",
        "Figure 1: FedExp3 and Exp3 on the grid, ρ < 1",
        "fedbandits reproduce figure1 --runs 10 --seed 0",
        paragraphs=["36 agents on a 6 × 6 grid, with η = 0.1 and γ(t) = 0.01 · t^(-1/3).", HOSTILE],
        tables=[
            Table(
                "Cumulative regret at T, published against measured, by algorithm and network",
                ["algorithm", "t", "published", "measured", "95% band", "difference"],
                [
                    [f"FedExp3, γ = 0.0{i}", "3,000", "33.6", "34.12", "31.20 to 37.04", "+1.5%"]
                    for i in range(1, 10)
                ],
                "Published values are read off the figure, to about ± 0.5; bands cover 10 runs.",
            )
        ],
        settings={
            "algorithm": "FedExp3(learning_rate=0.1,exploration=power(0.01,0.3333333333333333))",
            "checksum of the losses": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15",
        },
        seconds={"play": 12.345, "draw": 1.25},
        versions={"fedbandits": "0.1", "device": "1 × cpu"},
    )
    add_curve(full, out, "left", 5.0)
    add_curve(full, out, "right", 12.0)
    full.files += ["figure 1 & <more>.csv", f"figure1_{'long' * 12}.nc"]
    theorems = Section(
        "theorems",
        "Theorem 1",
        "fedbandits reproduce theorems",
        ["The bound holds: Ω(√(KT)) ≤ R ≤ O(T^(2/3))."],
        tables=[Table("Bounds", ["", "lower", "upper"], [["R", "1.0", "2.0"]])],
        seconds={"play": 3600.04},
        versions={"fedbandits": "0.1"},
    )
    bare = Section("bare", HOSTILE, "fedbandits reproduce bare", versions={"fedbandits": "0.1"})
    for section in (full, theorems, bare):
        section.save(out)
    return write_report(out, ["absent", *NAMES])


class Tags(HTMLParser):
    """Start tags with their attributes and texts, and whether every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.seen if name == tag]


@pytest.fixture(scope="module")
def tags(page: Path) -> Tags:
    return Tags(page.read_text(encoding="utf-8"))


def test_sections_are_in_order_and_absent_ones_left_out(tags: Tags) -> None:
    assert [attrs["id"] for attrs in tags.all("section")] == NAMES
    links = [str(attrs["href"]) for attrs in tags.all("a")]
    assert links[:3] == [f"#{name}" for name in NAMES]
    assert "absent" not in tags.texts
    # Totals in the contents, then steps in the sections.
    times = [text for text in tags.texts if re.fullmatch(r"[\d,.]+ s", text)]
    assert times == ["13.6 s", "3,600.0 s", "0.0 s", "12.3 s", "1.2 s", "3,600.0 s"]
    count = {tag: len(tags.all(tag)) for tag in ("h1", "table", "caption", "figure", "details")}
    assert count == {"h1": 1, "table": 2, "caption": 2, "figure": 2, "details": 3}
    assert tags.all("html") == [{"lang": "en"}]
    assert tags.all("meta")[0] == {"charset": "utf-8"}
    assert all(attrs["scope"] in ("row", "col") for attrs in tags.all("th"))
    assert len(tags.all("td")) == 9 * 5 + 2


def test_text_is_escaped(tags: Tags, page: Path) -> None:
    assert tags.all("script") == []
    # A paragraph, a headline and its line of the contents.
    assert tags.texts.count(HOSTILE) == 3
    assert "figure 1 & <more>.csv" in tags.texts
    assert {"href": "figure%201%20%26%20%3Cmore%3E.csv"} in tags.all("a")
    assert 'alt="A &quot;left&quot; curve"' in page.read_text(encoding="utf-8")


def test_pictures_are_inside_and_no_address_is_outside(tags: Tags, page: Path) -> None:
    for stem, attrs in zip(("left", "right"), tags.all("img"), strict=True):
        kind, data = str(attrs["src"]).split(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(data) == (page.parent / f"{stem}.svg").read_bytes()
    addresses = [
        str(attrs[key]) for _, attrs in tags.seen for key in ("src", "href") if key in attrs
    ]
    assert len(addresses) > len(NAMES)
    assert not [address for address in addresses if re.match(r"\s*(https?:|//)", address)]


def test_png_where_there_is_no_svg(tmp_path: Path) -> None:
    section = Section("one", "One", "fedbandits reproduce one", versions={"python": "3"})
    add_curve(section, tmp_path, "one", 5.0)
    section.save(tmp_path)
    (tmp_path / "one.svg").unlink()
    html = write_report(tmp_path, ["one"]).read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in html
    (tmp_path / "one.png").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"one\.png are missing; `fedbandits reproduce one`"
    ):
        write_report(tmp_path, ["one"])
    # The earlier report is still complete.
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html
    with pytest.raises(
        ValueError, match=r"figure1, figure2 are missing; `fedbandits reproduce --out"
    ):
        write_report(tmp_path / "none", ["figure1", "figure2"])
    assert not (tmp_path / "none").exists()


def luminance(colour: str) -> float:
    digits = re.findall("." if len(colour) == 3 else "..", colour)
    parts = np.array([int(f"{digit * 2}"[:2], 16) / 255 for digit in digits])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("palette", [0, 1, 2], ids=["light", "dark", "print"])
def test_contrast_meets_wcag_aa(palette: int) -> None:
    block = re.findall(r":root \{(.*?)\}", report.STYLE, re.DOTALL)[palette]
    shade = {name: luminance(hex_) for name, hex_ in re.findall(r"--(\w+): #(\w+);", block)}
    for text in ("ink", "muted", "accent"):
        for ground in ("paper", "wash"):
            low, high = sorted((shade[text], shade[ground]))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Browser, page: Path) -> Tab:
    return browser.visit(page)


@needs_chromium
def test_console_stays_empty_and_nothing_outside_is_asked_for(tab: Tab) -> None:
    assert tab.console == "[]"
    assert tab.outside == []


@needs_chromium
@pytest.mark.parametrize(
    ("html", "said", "asked"),
    [
        ("<script>console.error('spoken')</script>", "spoken", []),
        ("<script>missing()</script>", "missing is not defined", []),
        (
            f'<meta http-equiv="Content-Security-Policy" content="{report.POLICY}">'
            "<script>document.title = 'run'</script>",
            "violates the following Content Security Policy",
            [],
        ),
        (
            '<img src="http://127.0.0.1:47999/x.png">',
            "ERR_CONNECTION_REFUSED",
            ["http://127.0.0.1:47999/x.png"],
        ),
    ],
    ids=["message", "exception", "policy", "request"],
)
def test_the_checks_can_fail(
    browser: Browser, tmp_path: Path, html: str, said: str, asked: list[str]
) -> None:
    viewport = '<meta name="viewport" content="width=device-width">'
    wide = f'{viewport}<div style="width: 500px">wide</div>'
    (tmp_path / "bad.html").write_text(f"<!DOCTYPE html>{html}{wide}", encoding="utf-8")
    bad = browser.visit(tmp_path / "bad.html")
    assert said in bad.console
    assert bad.outside == asked
    bad.show(360)
    assert bad.ask(WIDTH) > 500


@needs_chromium
@pytest.mark.parametrize("unfolded", [False, True])
def test_phone_scrolls_wide_tables_but_not_the_page(tab: Tab, unfolded: bool) -> None:
    tab.show(360)
    tab.ask(f"document.querySelectorAll('details').forEach(d => d.open = {int(unfolded)})")
    assert tab.ask(WIDTH) == 360
    wide, narrow = tab.ask(
        "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth > e.clientWidth)"
    )
    assert wide
    assert not narrow
    sizes = "[...document.querySelectorAll('body *')].map(e => getComputedStyle(e).fontSize)"
    assert min(float(size.removesuffix("px")) for size in tab.ask(sizes)) > 13


@needs_chromium
def test_images_are_painted(tab: Tab) -> None:
    import matplotlib.image

    tab.show(1200)
    images = tab.ask(
        "[...document.images].map(i => [i.naturalWidth, i.naturalHeight, i.width, i.height])"
    )
    # 5 and 12 inches wide, 3.1 high; the wide one shrinks to the column, in proportion.
    assert images[0][:2] == [480, 298]
    assert images[0][2:] == images[0][:2]
    assert images[1][:2] == [1152, 298]
    assert images[1][2] < 46 * 16
    assert images[1][3] / images[1][2] == pytest.approx(298 / 1152, rel=0.01)
    box = tab.ask(
        "(({x, y, width, height}) => ({x, y, width, height}))"
        "(document.images[0].getBoundingClientRect())"
    )
    shot = tab.call("Page.captureScreenshot", clip=box | {"scale": 1}, captureBeyondViewport=True)
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(shot["data"])))[..., :3]
    blue = np.abs(pixels - [0x1F / 255, 0x77 / 255, 0xB4 / 255]).max(axis=2) < 0.1
    assert blue.sum() > 300  # the curve, in the first colour of the cycle
    assert (pixels > 0.99).all(axis=2).mean() > 0.8


@needs_chromium
def test_dark_keeps_figures_on_white(tab: Tab) -> None:
    colour = "getComputedStyle({}).backgroundColor".format
    tab.show(1200, scheme="dark")
    assert tab.ask(colour("document.body")) == "rgb(21, 24, 27)"
    assert tab.ask(colour("document.images[0].parentElement")) == "rgb(255, 255, 255)"
    tab.show(1200)
    assert tab.ask(colour("document.body")) == "rgb(255, 255, 255)"


@needs_chromium
def test_print_unfolds_and_cuts_nothing(tab: Tab) -> None:
    shown = "[...document.querySelectorAll('.details')].map(e => e.checkVisibility())"
    tab.show(360)
    tab.ask("document.querySelectorAll('details').forEach(d => d.open = false)")
    assert tab.ask(shown) == [False] * 3
    tab.show(680, media="print", scheme="dark")  # about A4 within its margins
    assert tab.ask(shown) == [True] * 3
    assert tab.ask(WIDTH) == 680
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pdf = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2
