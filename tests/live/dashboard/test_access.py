"""The dashboard on a phone, in the dark, and with a keyboard alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import needs_chromium
from tests.live.dashboard.conftest import PATIENCE, Open
from tests.live.dashboard.standin import Service, federation, plain, serve, status

pytestmark = [needs_chromium, pytest.mark.soak]

CONTRASTS = """() => {
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const channels = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => channels(colour).slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    return channels(colour)[3] === 255 || !node.parentElement ? colour : ground(node.parentElement);
  };
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const own = (node) => [...node.childNodes].some((child) => child.nodeType === 3
    && child.data.trim());
  const seen = [...document.body.querySelectorAll(':not(title)')].filter((node) => own(node)
    && node.checkVisibility());
  return seen.map((node) => {
    const style = getComputedStyle(node);
    const drawn = node instanceof SVGElement;
    const behind = node.classList.contains('mark')
      ? getComputedStyle(node.parentElement.querySelector('circle')).fill : ground(node);
    return [node.textContent.trim().slice(0, 30), ratio(drawn ? style.fill : style.color, behind)];
  });
}"""


@pytest.fixture(params=["agent", "federation"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """An agent whose certificate expires soon; a federation in which eight arms lead."""
    now = time.time()
    agent = plain(status(time=now)) | {"certificate_expires": now + 86400}
    with serve(agent if request.param == "agent" else federation(3, 4, 9, 8)) as service:
        yield service


def wait(page: Page) -> None:
    expect(page.locator("#connection-text")).to_contain_text("Connected since")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(visit: Open, service: Service, scheme: str) -> None:
    page = visit(service.link, color_scheme=scheme).page
    wait(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme]
    service.state = "down"
    expect(page.locator("#connection-text")).to_contain_text("Cut off since")
    measured: list[tuple[str, float]] = page.evaluate(CONTRASTS)
    assert len(measured) > 40
    assert [one for one in measured if one[1] < 4.5] == []


def test_pictures_follow_the_scheme_while_they_are_open(visit: Open) -> None:
    with serve(status()) as service:
        page = visit(service.link).page
        wait(page)
        service.state = "hung"  # nothing but the change of scheme paints again
        blank = (
            "[...document.getElementById('heat').getContext('2d').getImageData(99, 9, 1, 1).data]"
        )
        assert page.evaluate(blank) == [0xE6, 0xEA, 0xEE, 255]
        page.emulate_media(color_scheme="dark")
        # Not wait_for_function: the page's policy forbids evaluating strings.
        for _ in range(50):
            if page.evaluate(blank) == [0x26, 0x2E, 0x38, 255]:
                break
            page.wait_for_timeout(100)
        else:
            pytest.fail(f"still {page.evaluate(blank)}")


def test_a_phone_scrolls_one_way_only(visit: Open, service: Service) -> None:
    shown = visit(service.link, width=360, height=640, is_mobile=True, has_touch=True)
    wait(shown.page)
    assert shown.width <= 360
    for width, height in ((740, 360), (360, 640)):
        shown.page.set_viewport_size({"width": width, "height": height})
        # The page adapts to the window a frame later.
        for _ in range(PATIENCE // 100):
            if shown.width <= width:
                break
            shown.page.wait_for_timeout(100)
        assert shown.width <= width
    assert shown.complaints == []


def stops(page: Page) -> list[str]:
    """Return the elements that Tab reaches, in order; each must show its focus."""
    named: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        at: dict[str, Any] | None = page.evaluate(
            """() => {
              const one = document.activeElement;
              if (one === document.body) return null;
              const node = one.matches('.node');
              const name = node ? 'node' : one.id || one.parentElement.id
                || one.getAttribute('aria-labelledby') || one.textContent.trim();
              return { name, ring: getComputedStyle(one).outlineStyle !== 'none' };
            }"""
        )
        if at is None:
            return named
        assert at["ring"], at
        named.append(at["name"])
    raise AssertionError(named)


def test_tab_walks_through_the_page_in_order(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    wait(page)
    if page.locator("#federation").is_visible():
        expected = ["node", "federation-disagreement", "agents-title", "site-00"]
    else:
        expected = ["heat", "As a table", "disagreement", "rate", "neighbours-title"]
    assert stops(page) == ["Skip to the numbers", *expected]


def test_tables_and_pictures_have_names(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    wait(page)
    assert page.locator("table:visible").count() > 0
    assert page.locator("thead th:not([scope=col])").count() == 0
    assert page.locator("tbody tr:not(:has(th[scope=row]))").count() == 0
    unnamed = "svg:visible:not([aria-hidden=true], [aria-label], [aria-labelledby])"
    assert page.locator(unnamed).count() == 0
    assert page.locator("[role=status]:visible, [aria-live]:visible").count() >= 3


def test_only_what_matters_is_announced(visit: Open, service: Service) -> None:
    event, seconds = plain(service.event), itertools.count()

    def later() -> Any:
        now = next(seconds)
        for one in filter(
            None, [event, *event["agents"].values()] if "edges" in event else [event]
        ):
            one |= {"rounds": 7 * now, "uptime": now, "disagreement": 1 / (1 + now)}
        return event

    service.event = later
    page = visit(service.link).page
    wait(page)
    page.evaluate(
        "() => { window.spoken = []; const seen = new MutationObserver("
        "changes => changes.forEach(change => spoken.push(change.target.textContent)));"
        "document.querySelectorAll('[role=status], [aria-live=polite]').forEach("
        "one => seen.observe(one, { childList: true, characterData: true, subtree: true })); }"
    )
    page.wait_for_timeout(1500)  # fifteen events, in which no arm and no link changes
    assert page.evaluate("spoken") == []
