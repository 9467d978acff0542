"""Every page of the site in Chromium, on a phone and a desktop, light and dark.

    python tests/pages/look.py build/site

prints what is wrong, and ends with status 1 if anything is: an error in the console, a request
outside, a page wider than a phone, a scheme that is not followed, a search that finds nothing.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
PHONE, DESKTOP = 390, 1280
PATIENCE = 10_000
"""Milliseconds until a search has found something, on a busy machine."""
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
INSIDE = ("file:", "data:", "blob:", "about:")
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"


def pages_of(site: Path) -> list[Path]:
    """A site's pages; `_static` has templates of the theme."""
    return sorted(page for page in site.glob("**/*.html") if page.parent.name != "_static")


def look(site: Path) -> list[str]:
    """What is wrong with a site's pages."""
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme in SCHEMES:
            tab = browser.new_page(color_scheme=scheme)
            listen(tab, wrong)
            for file in pages_of(site):
                wrong += [f"{file.relative_to(site)}: {what}" for what in shown(tab, file, scheme)]
        wrong += searched(tab, site)
        browser.close()
    return wrong


def listen(tab: Page, wrong: list[str]) -> None:
    """Note errors and requests as they come."""

    def request(address: str) -> None:
        if not address.startswith(INSIDE):
            wrong.append(f"{tab.url}: asks for {address}")

    def console(kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            wrong.append(f"{tab.url}: {kind}: {text}")

    tab.on("request", lambda found: request(found.url))
    tab.on("requestfailed", lambda found: wrong.append(f"{tab.url}: failed: {found.url}"))
    tab.on("console", lambda found: console(found.type, found.text))
    tab.on("pageerror", lambda error: wrong.append(f"{tab.url}: {error}"))


def shown(tab: Page, file: Path, scheme: str) -> list[str]:
    """What is wrong with one page in one scheme."""
    tab.goto(file.as_uri())
    wrong = []
    for width in (DESKTOP, PHONE):
        tab.set_viewport_size({"width": width, "height": 900})
        if tab.evaluate(TOO_WIDE):
            wrong.append(f"wider than {width} pixels")
    if tab.evaluate("document.documentElement.dataset.theme") != scheme:
        wrong.append(f"is not {scheme}")
    if tab.evaluate("[...document.images].some(image => !image.naturalWidth)"):
        wrong.append("a picture is missing")
    return wrong


def searched(tab: Page, site: Path) -> list[str]:
    """What is wrong with the search."""
    from playwright.sync_api import TimeoutError as NotFoundError

    tab.goto(f"{(site / 'search.html').as_uri()}?q=gossip")
    try:
        tab.locator("#search-results li").first.wait_for(timeout=PATIENCE)
    except NotFoundError:
        return ["search.html: gossip is not found"]
    return []


if __name__ == "__main__":
    if not CHROMIUM:
        sys.exit("there is no chromium or google-chrome")
    found = look(Path(sys.argv[1]).resolve())
    sys.stdout.write("".join(f"{each}\n" for each in found) or "nothing is wrong\n")
    sys.exit(1 if found else 0)
