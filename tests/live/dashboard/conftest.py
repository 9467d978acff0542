"""A browser for the tests of the dashboard, and pages that keep what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.chromium import CHROMIUM

QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
]

PATIENCE = 15_000
"""Milliseconds: two test processes on two busy cores are slow at times."""

Open = Callable[..., "Visit"]


class Visit:
    """A page, what it asked for, and what it complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))

    @property
    def width(self) -> Any:
        """How wide the page is, of which a part may lie outside the window."""
        return self.page.evaluate("document.scrollingElement.scrollWidth")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # For one file at a time: while it is there, no other test could start an event loop.
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Opens an address; `width`, `height` and what else a context takes may be told."""
    contexts = []

    def opened(address: str, width: int = 1200, height: int = 800, **options: Any) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.goto(address)
        return visit

    yield opened
    for context in contexts:
        context.close()
