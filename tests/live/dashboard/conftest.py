"""A browser for the tests of the dashboard, and pages that record requests and errors."""

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
"""Milliseconds to wait for the page on a busy machine."""

Open = Callable[..., "Visit"]


class Visit:
    """A page, its requests and its error messages."""

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
        """The width of the page, which may exceed the window's."""
        return self.page.evaluate("document.scrollingElement.scrollWidth")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Per module, because no other test can start an event loop while the browser runs.
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Return a function that opens an address, with options of the browser context."""
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
