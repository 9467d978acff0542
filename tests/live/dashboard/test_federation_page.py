"""The page of a whole federation, in a real browser."""

from __future__ import annotations

import math
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import needs_chromium
from tests.live.dashboard.conftest import Open
from tests.live.dashboard.standin import federation, neighbour, plain, serve, status

pytestmark = [needs_chromium, pytest.mark.slow]


def centres(page: Page) -> list[list[float]]:
    """Return x, y and radius of every agent in the picture, in px."""
    drawn: list[list[float]] = page.evaluate(
        "[...document.querySelectorAll('#federation-graph circle')].map(circle => {"
        "const box = circle.getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2, circle.r.baseVal.value]; })"
    )
    return drawn


def test_it_shows_all_agents(visit: Open) -> None:
    with serve(federation(3, 3, arms=5, leading=2)) as service:
        shown = visit(service.link)
        page = shown.page
        expect(page.locator("#federation-leads")).to_have_text("arm 1 leads at 4 of 9 agents")
        expect(page.locator("#federation-facts dd")).to_have_text(
            ["8 of 9", "0.07 (site-07)", "98,760", "0", "2,400", "2"]
        )
        expect(page.locator("#federation-arms li")).to_have_text(
            ["1arm 1: 4 agents", "2arm 2: 4 agents"]
        )
        expect(page.locator("#agents tr")).to_have_count(9)
        expect(page.locator("#agents tr").nth(7)).to_have_text(
            "site-072 arm 20.3570.0712,3453002 of 3 heard"
        )
        expect(page.locator("#agents tr").last).to_have_text("site-08not reached–––––")
        marks = page.locator("#federation-graph .mark").all_text_contents()
        assert marks == ["1", "2", "1", "2", "1", "2", "1", "2", "?"]
        assert page.locator("#federation-graph .link.silent").count() == 2
        assert page.locator("#federation-graph .link.heard").count() == 10
        expect(page.locator("#agent")).to_be_hidden()
        assert shown.complaints == []
        assert {url.startswith(service.address) for url in shown.asked} == {True}


@pytest.mark.soak
def test_an_arm_keeps_its_colour(visit: Open) -> None:
    """The colour depends on the number of the arm, not on the order in which arms lead."""
    event = federation(2, 2, arms=5, leading=3)
    event["agents"] = dict.fromkeys(event["agents"], event["agents"]["site-02"])
    with serve(event) as service:
        page = visit(service.link).page
        expect(page.locator("#federation-arms .disc")).to_have_class("disc colour-2")
        expect(page.locator("#federation-graph .node").first).to_have_class("node colour-2 ")
        page.reload()
        expect(page.locator("#federation-arms .disc")).to_have_class("disc colour-2")
        legend = page.locator("#federation [data-legend=links]")
        expect(legend).to_contain_text("?leading arm not known here")


@pytest.mark.soak
def test_agreement_is_shown(visit: Open) -> None:
    event = federation(2, 2, arms=3)
    event["agents"] |= {"site-03": event["agents"]["site-00"]}
    with serve(event) as service:
        page = visit(service.link).page
        expect(page.locator("#federation-leads")).to_have_text("arm 1 leads at all 4 agents")
        service.event = plain(event) | {"agents": dict.fromkeys(event["agents"])}
        expect(page.locator("#federation-leads")).to_have_text("No agent can be reached")


@pytest.mark.soak
def test_an_agent_is_chosen_by_a_click_and_by_keys(visit: Open) -> None:
    event = federation(3, 3, arms=5, leading=2)
    with serve(event) as service:
        page = visit(service.link).page
        page.locator("#federation-graph .node").nth(4).click()
        name = page.locator("#agent-name")
        expect(name).to_have_text("site-04")
        expect(name).to_be_focused()
        # Leading arms of neighbours are known here.
        assert page.locator("#neighbourhood .mark").all_text_contents() == ["1", "2", "2", "2", "2"]
        page.get_by_role("button", name="Back to the federation").click()
        expect(page.locator("#agent")).to_be_hidden()
        expect(page.locator("#federation-graph .node").nth(4)).to_be_focused()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(name).to_have_text("site-05")
        chosen = page.locator("[aria-pressed=true]")
        expect(chosen).to_have_count(2)  # in the picture and in the table
        page.locator("#agents button").nth(2).focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(name).to_have_text("site-01")
        # The last known values of an agent stay, with a notice.
        service.event = event | {"agents": event["agents"] | {"site-01": None}}
        expect(page.locator("#agent-notice")).to_contain_text("Not reached since")
        expect(page.locator("#recommended")).to_have_text("arm 2")
        # An agent that was never reached has nothing to show.
        page.locator("#federation-graph .node").last.click()
        expect(name).to_have_text("site-01")


@pytest.mark.soak
def test_focus_stays_while_events_come(visit: Open) -> None:
    event = federation(3, 3, arms=5)
    with serve(event) as service:
        page = visit(service.link).page
        page.locator("#federation-graph .node").nth(3).focus()
        fewer = {name: one for name, one in event["agents"].items() if name != "site-00"}
        edges = [edge for edge in event["edges"] if "site-00" not in edge]
        service.event = {"agents": fewer, "edges": edges}
        expect(page.locator("#agents tr")).to_have_count(8)
        expect(page.locator("#federation-graph .node").nth(2)).to_be_focused()


@pytest.mark.soak
def test_names_are_text(visit: Open) -> None:
    bad = "<img src=x onerror=hit=1>"
    names = [bad, "__proto__", "constructor"]
    agents = {
        name: status(
            name,
            arms=(bad, "b"),
            probabilities=(0.75, 0.25),
            recommended=bad,
            neighbours={other: neighbour() for other in names if other != name},
        )
        for name in names
    }
    with serve({"agents": agents, "edges": [(bad, "__proto__"), ("constructor", bad)]}) as service:
        shown = visit(service.link)
        page = shown.page
        expect(page.locator("#agents th")).to_have_text(names)
        expect(page.locator("#federation-leads")).to_have_text(f"{bad} leads at all 3 agents")
        page.locator("#agents button").nth(1).click()
        expect(page.locator("#agent-name")).to_have_text("__proto__")
        assert page.evaluate("typeof hit") == "undefined"
        assert page.locator("img").count() == 0
        assert shown.complaints == []


def grid(rows: int, columns: int) -> dict[str, Any]:
    return federation(rows, columns, arms=50, leading=12)


def ring(agents: int) -> dict[str, Any]:
    path = grid(1, agents)
    return path | {"edges": [*path["edges"], (f"site-{agents - 1:02}", "site-00")]}


def star(agents: int) -> dict[str, Any]:
    names = [f"site-{i:02}" for i in range(agents)]
    seen = {name: neighbour() for name in names[1:]}
    middle = status(names[0], neighbours=seen)
    others = {name: status(name, neighbours={names[0]: neighbour()}) for name in names[1:]}
    return {"agents": {names[0]: middle} | others, "edges": [(names[0], other) for other in others]}


def crossings(ends: list[list[float]]) -> int:
    """Return how many pairs of lines, each x, y, x, y, cross."""

    def side(a: list[float], x: float, y: float) -> float:
        return (a[2] - a[0]) * (y - a[1]) - (a[3] - a[1]) * (x - a[0])

    def parts(a: list[float], b: list[float]) -> bool:
        return side(a, b[0], b[1]) * side(a, b[2], b[3]) < -1e-6

    return sum(parts(a, b) and parts(b, a) for i, a in enumerate(ends) for b in ends[:i])


@pytest.mark.soak
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize(
    ("event", "planar"),
    [
        (grid(10, 10), True),
        (grid(1, 100), True),
        (grid(1, 9), True),
        (ring(100), False),
        (star(100), False),
        (grid(1, 1), True),
    ],
    ids=["grid", "path", "short path", "ring", "star", "one"],
)
def test_100_agents_and_50_arms_stay_readable(
    visit: Open, event: dict[str, Any], planar: bool, width: int
) -> None:
    with serve(event) as service:
        service.period = 0.5
        shown = visit(service.link, width=width)
        page = shown.page
        expect(page.locator("#agents tr")).to_have_count(len(event["agents"]))
        drawn = centres(page)
        assert min(radius for _, _, radius in drawn) >= 8
        nearest = min(
            (math.dist(a[:2], b[:2]) for i, a in enumerate(drawn) for b in drawn[:i]),
            default=math.inf,
        )
        assert nearest >= drawn[0][2] * 1.9  # no circle hides another
        box = page.locator("#federation-graph").bounding_box()
        assert box
        for x, y, radius in drawn:  # none is cut off
            assert radius <= x - box["x"] <= box["width"] - radius
            assert radius <= y - box["y"] <= box["height"] - radius
        ends = page.evaluate(
            "[...document.querySelectorAll('#federation-graph .link')].map(line =>"
            "['x1', 'y1', 'x2', 'y2'].map(end => line[end].baseVal.value))"
        )
        assert len(ends) == len(event["edges"])
        assert not planar or crossings(ends) == 0
        if len(drawn) > 1:
            page.locator("#agents button").first.click()
            expect(page.locator("#agent-name")).to_have_text("site-00")
            box = page.locator("#heat").bounding_box()
            arms = len(event["agents"]["site-00"].arms)
            assert box
            assert box["height"] >= 16 * arms
        assert shown.width == width
        assert shown.complaints == []


@pytest.mark.soak
def test_layouts_are_the_same_level_and_begin_at_the_top_left(visit: Open) -> None:
    with serve(federation(4, 4, arms=3)) as service:
        drawn = []
        for page in (visit(service.link).page, visit(service.link).page):
            expect(page.locator("#agents tr")).to_have_count(16)
            drawn.append(centres(page))
        assert drawn[0] == drawn[1]
        first, second, *_, last = (centre[:2] for centre in drawn[0])
        x, y = (abs(a - b) for a, b in zip(first, second, strict=True))
        assert y < 0.1 * x
        assert first[0] < second[0] < last[0]
        assert first[1] < last[1]


@pytest.mark.soak
def test_a_name_of_usual_length_is_whole_on_a_phone(visit: Open) -> None:
    event = federation(2, 2, arms=3)
    named = {"stockholm": event["agents"]["site-00"]} | event["agents"]
    with serve(event | {"agents": named}) as service:
        page = visit(service.link, width=390).page
        expect(page.locator("#agents tr")).to_have_count(5)
        lines = page.locator("#agents button").first.evaluate(
            "button => { const text = document.createRange(); text.selectNodeContents(button);"
            "return text.getClientRects().length; }"
        )
        assert lines == 1


def hidden(page: Page) -> Any:
    """Return names of agents that a reader cannot see by scrolling the page."""
    return page.evaluate(
        "[...document.querySelectorAll('#agents tr')].filter(row => {"
        "const cell = row.cells[0];"
        "scrollTo(0, scrollY + cell.getBoundingClientRect().top - 300);"
        "const box = cell.getBoundingClientRect();"
        "const region = row.closest('.scroll').getBoundingClientRect();"
        "return box.top < region.top || box.bottom > region.bottom;"
        "}).map(row => row.cells[0].textContent)"
    )


@pytest.mark.soak
@pytest.mark.parametrize(("width", "height"), [(360, 740), (390, 844), (844, 390)])
def test_a_touch_reaches_every_agent(visit: Open, width: int, height: int) -> None:
    """A scrolling region inside the page would show no scrollbar on a phone."""
    with serve(grid(5, 5)) as service:
        shown = visit(service.link, width, height, is_mobile=True, has_touch=True)
        page = shown.page
        expect(page.locator("#agents tr")).to_have_count(25)
        assert hidden(page) == []
        page.locator("#agents button").nth(23).tap()
        expect(page.locator("#agent-name")).to_have_text("site-23")
        assert shown.width == width


@pytest.mark.soak
@pytest.mark.parametrize("width", [360, 1200])
def test_arrow_keys_show_the_agent_that_has_the_focus(visit: Open, width: int) -> None:
    """Also upwards, where the headings of the columns stay in view."""
    seen = (
        "() => { const one = document.activeElement, box = one.getBoundingClientRect();"
        "return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === one"
        " && one.textContent; }"
    )
    with serve(grid(5, 5)) as service:
        page = visit(service.link, width, 740).page
        expect(page.locator("#agents tr")).to_have_count(25)
        page.locator("#agents button").first.focus()
        names = [f"site-{number:02}" for number in range(25)]
        for key, expected in (("ArrowDown", names), ("ArrowUp", names[::-1])):
            found = [page.evaluate(seen)]
            for _ in names[1:]:
                page.keyboard.press(key)
                found.append(page.evaluate(seen))
            assert found == expected
