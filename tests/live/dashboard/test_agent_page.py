"""The page of one agent, in a real browser."""

import itertools
import re
import time
from collections.abc import Iterator

import msgspec
import pytest
from playwright.sync_api import expect

from fedbandits.live.protocol.loss_sums import LossWindow, MeanLosses
from tests.chromium import needs_chromium
from tests.live.dashboard.conftest import Open
from tests.live.dashboard.standin import PAGE, TOKEN, Service, neighbour, plain, serve, status

pytestmark = [needs_chromium, pytest.mark.slow]  # a browser takes a second to start


@pytest.fixture
def service() -> Iterator[Service]:
    with serve(status()) as service:
        yield service


def fact(label: str) -> str:
    return f"#agent-facts div:has(dt:text-is('{label}')) dd"


@pytest.mark.soak
def test_an_apprentice_without_links(visit: Open) -> None:
    lost = neighbour(None, no_link="it closed the link")
    one = status(baseline="tea", disagreement=3e-17, neighbours={"north": lost})
    with serve(one) as service:
        page = visit(service.link).page
        expect(page.locator("#recommended-probability")).to_contain_text("it plays tea each time")
        expect(page.locator("#agent-facts dd", has_text="<1e-9")).to_have_count(1)
        expect(page.locator("#agent-facts dd").last).to_have_text("no guarantee")
        expect(page.locator("#neighbours td").last).to_have_text("no link: it closed the link")


def test_it_shows_the_numbers_and_requests_nothing_else(visit: Open, service: Service) -> None:
    shown = visit(service.link)
    page = shown.page
    expect(page.locator("#agent-name")).to_have_text("centre")
    expect(page.locator("#agent-kind")).to_have_text(
        "FedExp3 · fedbandits 1.2.3 · one of 9 agents · up for 3 h 12 min"
    )
    expect(page.locator("#recommended")).to_have_text("cocoa")
    expect(page.locator("#recommended-probability")).to_have_text("with probability 0.625")
    for label, value in {
        "Choices": "12,345",
        "Observed": "12,000",
        "Expired": "45",
        "Open tickets": "300",
        "Disagreement": "0.375",
    }.items():
        expect(page.locator(fact(label))).to_have_text(value)
    assert page.locator("#neighbours tr").all_inner_texts() == [
        "north\tunder 1\u00a0s ago\t0.12\t0.25\tnone",
        "south\tsilent for 1\u00a0min 23\u00a0s\t0.12\t0.25\tnone",
        "east\tleft\t0.12\t0.25\tnone",
        "west\tunder 1\u00a0s ago\t0.12\t0.25\t3: 2 arms instead of 3",
    ]
    expect(page.locator("#federation")).to_be_hidden()
    expect(page.locator("#certificate")).to_be_hidden()
    assert shown.complaints == []
    assert {url.startswith(service.address) for url in shown.asked} == {True}


LOSSES = MeanLosses(
    low=1.0,
    high=5.0,
    rewards=False,
    noise=None,
    windows={
        "hour": LossWindow(1.7e9, 0, None, None, (0, 0, 0), (None, None, None)),
        "all": LossWindow(1.7e9, 1200, 1.75, 4.25, (200, 0, 1000), (2.5, None, 1.6)),
    },
)


@pytest.mark.soak
def test_mean_losses_by_arm_and_window(visit: Open, service: Service) -> None:
    page = visit(service.link, width=390).page
    expect(page.locator("#agent-name")).to_have_text("centre")
    expect(page.locator("#losses")).to_be_hidden()  # nothing is observed yet
    service.event = status(losses=LOSSES, time=1.7e9 + 3600)
    expect(page.locator("#losses-title")).to_have_text("Mean loss")
    expect(page.locator("#losses-windows th")).to_have_text(
        ["Arm", re.compile(r"^Hoursince \d\d:\d\d$"), re.compile(r"^Allsince \d\d:\d\d$")]
    )
    rows = page.locator("#losses-rows tr")
    expect(rows).to_have_text(
        ["Played–1.75 (1,200)", "tea–2.5 (200)", "coffee––", "cocoa–1.6 (1,000)"]
    )
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390
    rewards = msgspec.structs.replace(LOSSES, rewards=True)
    service.event = status(losses=rewards, time=1.7e9 + 100 * 86400)
    expect(page.locator("#losses-title")).to_have_text("Mean reward")
    expect(rows.nth(0)).to_have_text("Played–4.25 (1,200)")
    expect(page.locator("#losses-windows th").last).to_have_text("Allsince 2023-11-14")
    service.event = status(losses=msgspec.structs.replace(LOSSES, noise=4.0), baseline="tea")
    expect(rows.nth(1)).to_have_text("tea–2.5 ± 0.283")
    expect(page.locator("#losses-note")).to_contain_text("noisy bits")
    expect(page.locator("#losses-note")).to_contain_text("This apprentice plays tea each time")


@pytest.mark.soak
def test_it_follows_events(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    expect(page.locator("#recommended")).to_have_text("cocoa")
    before = status()
    for second in range(1, 4):
        service.event = msgspec.structs.replace(
            before,
            probabilities=(0.5, 0.25, 0.25),
            recommended="tea",
            rounds=before.rounds + 40 * second,
            uptime=before.uptime + 2 * second,
            disagreement=2.5,
            neighbours={"north": neighbour(left=True), "new": neighbour(None)},
        )
        expect(page.locator(fact("Choices"))).to_have_text(f"{before.rounds + 40 * second:,}")
    expect(page.locator("#recommended")).to_have_text("tea")
    expect(page.locator("#disagreement .readout")).to_have_text("2.5 now")
    expect(page.locator("#neighbours th")).to_have_text(["north", "new"])
    expect(page.locator("#neighbours td:nth-child(2)")).to_have_text(["left", "never heard"])
    assert page.evaluate("document.querySelectorAll('#neighbourhood .node').length") == 3


@pytest.mark.soak
def test_events_may_come_in_pieces(visit: Open, service: Service) -> None:
    service.broken_up = True
    service.event = status("Ж 茶" * 30)  # some letters are cut in two
    shown = visit(service.link)
    expect(shown.page.locator("#agent-name")).to_have_text("Ж 茶" * 30)
    expect(shown.page.locator("#connection-text")).to_contain_text("Connected since")
    assert shown.complaints == []


@pytest.mark.soak
def test_choices_per_second_and_colours_of_the_heat_map(visit: Open, service: Service) -> None:
    seconds, only = itertools.count(4, 4), (0.0, 0.0, 1.0)
    service.event = lambda: status(
        rounds=15 * (now := next(seconds)), uptime=float(now), probabilities=only
    )
    page = visit(service.link).page
    expect(page.locator(fact("Choices per second"))).to_have_text("15")
    expect(page.locator("#recommended-probability")).to_have_text("with probability 1.000")
    dark, bright = page.evaluate(
        "() => { const map = document.getElementById('heat'), pen = map.getContext('2d');"
        "return [10, 80].map(y => [...pen.getImageData(map.width - 70, y, 1, 1).data]); }"
    )
    assert dark == [0x44, 0x01, 0x54, 255]
    assert bright == [0xFD, 0xE7, 0x25, 255]


@pytest.mark.soak
def test_links_differ_by_more_than_colour(visit: Open, service: Service) -> None:
    service.event = msgspec.structs.replace(
        status(), neighbours=status().neighbours | {"far": neighbour(None)}
    )
    page = visit(service.link).page
    expect(page.locator("#neighbourhood .link")).to_have_count(5)
    drawn = page.evaluate(
        "[...document.querySelectorAll('#neighbourhood .link')]"
        ".map(line => [line.getAttribute('class'), getComputedStyle(line).strokeDasharray,"
        " line.nextSibling.textContent])"
    )
    assert [words for _, _, words in drawn] == ["", "1\u00a0min", "left", "✕3", "never"]
    styles = {kind: dashes for kind, dashes, _ in drawn}
    assert set(styles) == {f"link {kind}" for kind in ("heard", "silent", "left", "never")}
    assert len(set(styles.values())) == 4


@pytest.mark.soak
def test_the_heat_map_is_read_by_mouse_and_by_keys(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    expect(page.locator("#recommended")).to_have_text("cocoa")
    heat, readout = page.locator("#heat"), page.locator("#heat-readout")
    expect(readout).to_contain_text("Point at a cell")
    box = heat.bounding_box()
    assert box
    heat.hover(position={"x": box["width"] - 66, "y": 5})
    expect(readout).to_have_text(re.compile(r"^tea at \d\d:\d\d:\d\d: 0\.125$"))
    page.mouse.move(0, 0)
    expect(readout).to_contain_text("Point at a cell")
    heat.focus()
    page.keyboard.press("ArrowUp")  # the first key shows where the cursor is
    expect(readout).to_have_text(re.compile(r"^cocoa at .*: 0\.625$"))
    page.keyboard.press("ArrowUp")
    expect(readout).to_have_text(re.compile(r"^coffee at .*: 0\.250$"))
    page.keyboard.press("Home")
    expect(readout).to_have_text(re.compile(r"^coffee at .*: 0\.250$"))
    page.get_by_text("As a table").click()
    expect(page.locator("#arms tr").nth(2)).to_have_text("3cocoa0.625–")


@pytest.mark.soak
def test_curves_are_read_by_keys(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    expect(page.locator("#disagreement .readout")).to_have_text("0.375 now")
    page.locator("#disagreement .plot").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#disagreement .readout")).to_have_text(
        re.compile(r"^0\.375 at \d\d:\d\d:\d\d$")
    )
    expect(page.locator("#disagreement .readout")).to_have_attribute("aria-live", "polite")
    page.keyboard.press("Tab")
    expect(page.locator("#disagreement .readout")).to_have_text("0.375 now")
    expect(page.locator("#disagreement .readout")).to_have_attribute("aria-live", "off")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("days", "says", "kind"),
    [
        (400.5, "The certificate expires on .*, in 400.d 12.h", "muted"),
        (12.5, "Warning: the certificate expires on .*, in 12.d 12.h. Renew it.", "notice"),
        (-1.0, "Warning: the certificate expired on .*. Renew it.", "notice"),
    ],
)
def test_a_certificate_that_expires(
    visit: Open, service: Service, days: float, says: str, kind: str
) -> None:
    now = time.time()
    service.event = plain(status(time=now)) | {"certificate_expires": now + 86400 * days}
    line = visit(service.link).page.locator("#certificate")
    expect(line).to_have_text(re.compile(says))
    expect(line).to_have_class(kind)
    service.event |= {"authority_expires": now + 86400 * (days - 0.5)}  # the earlier counts
    expect(line).to_have_text(re.compile("the authority's certificate expire", re.IGNORECASE))


@pytest.mark.soak
@pytest.mark.parametrize(("period", "state"), [(0.5, "silent"), (5.0, "heard"), (4.0, "silent")])
def test_links_are_silent_after_twenty_gossip_periods(
    visit: Open, service: Service, period: float, state: str
) -> None:
    """South was heard 83 s ago, which is long if gossip is frequent."""
    service.event = plain(status()) | {"gossip_period": period}
    row = visit(service.link).page.locator("#neighbours tr").nth(1)
    expect(row).to_have_attribute("data-state", state)
    expect(row).to_contain_text("south")


@pytest.mark.soak
def test_the_token_leaves_the_address_and_stays_in_the_tab(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    expect(page.locator("#agent-name")).to_have_text("centre")
    assert page.url == f"{service.address}/"
    page.reload()
    expect(page.locator("#agent-name")).to_have_text("centre")
    assert page.context.cookies() == []
    assert page.evaluate("localStorage.length") == 0
    page = visit(f"{service.address}/#token=old").page
    expect(page.locator("#token-form")).to_be_visible()
    page.goto(service.link)  # pasted into the open tab
    expect(page.locator("#agent-name")).to_have_text("centre")


@pytest.mark.soak
def test_the_page_asks_for_a_token(visit: Open, service: Service) -> None:
    shown = visit(service.address)
    page = shown.page
    expect(page.locator("#token")).to_be_focused()
    assert not [url for url in shown.asked if "/v1/" in url]
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-why")).to_have_text("The agent refused this token.")
    expect(page.locator("#token")).to_be_focused()
    page.keyboard.type("naïve ☃")  # no header can hold it
    page.keyboard.press("Enter")
    expect(page.locator("#token-why")).to_have_text("The agent refused this token.")
    page.locator("#token").fill(f" {TOKEN} ")
    page.keyboard.press("Enter")
    expect(page.locator("#agent-name")).to_have_text("centre")
    expect(page.locator("#token-form")).to_be_hidden()


PAUSES = {"2 ** failures++": "1200 ** failures++", "15000": "600_000"}


def test_a_lost_connection_comes_back(visit: Open, service: Service) -> None:
    page = visit("about:blank").page
    # After the first attempt, ten minutes: it is the button that brings the connection back.
    patient = (PAGE / "stream.js").read_text(encoding="utf-8")
    for short, long in PAUSES.items():
        assert short in patient
        patient = patient.replace(short, long)
    page.route(
        "**/stream.js", lambda route: route.fulfill(body=patient, content_type="text/javascript")
    )
    page.goto(service.link)
    words, state = page.locator("#connection-text"), page.locator("#connection")
    expect(words).to_have_text(re.compile(r"^Connected since \d\d:\d\d:\d\d$"))
    service.state = "down"
    expect(words).to_have_text(re.compile(r"^Cut off since \d\d:\d\d:\d\d: "))
    expect(page.locator("#connection-age")).to_have_text(re.compile(" ago; "))
    expect(page).to_have_title("Cut off: centre")
    expect(page.locator(fact("Choices"))).to_have_text("12,345")  # what was last known
    since = words.inner_text()[:22]
    expect(words).to_have_text(re.compile("cannot be reached$"))
    assert words.inner_text().startswith(since)
    service.event = msgspec.structs.replace(status(), rounds=12399)
    service.state = "up"
    page.get_by_role("button", name="Try now").click()
    expect(words).to_have_text(re.compile("^Connected since"))
    expect(state).to_have_attribute("data-state", "connected")
    expect(page.locator(fact("Choices"))).to_have_text("12,399")
    expect(page).to_have_title("centre · fedbandits")


@pytest.mark.soak
def test_a_hung_agent_is_reported(visit: Open, service: Service) -> None:
    page = visit(service.link).page
    expect(page.locator("#agent-name")).to_have_text("centre")
    service.state = "hung"
    expect(page.locator("#connection-text")).to_have_text(re.compile("no event for 5 s"))
    service.state = "up"
    expect(page.locator("#connection")).to_have_attribute("data-state", "connected")


@pytest.mark.soak
def test_events_that_cannot_be_shown_are_no_lost_connection(visit: Open, service: Service) -> None:
    shown = visit(service.link)
    words = shown.page.locator("#connection-text")
    expect(words).to_contain_text("Connected since")
    service.event = {"something": "else"}
    expect(words).to_contain_text("This page cannot show the events of the agent")
    assert shown.complaints
    service.event = status()
    expect(words).to_contain_text("Connected since")


@pytest.mark.soak
def test_pauses_between_attempts_grow(visit: Open, service: Service) -> None:
    shown = visit(service.link)
    expect(shown.page.locator("#agent-name")).to_have_text("centre")
    service.state = "down"
    shown.asked.clear()
    shown.page.wait_for_timeout(5000)  # attempts after 0.5, 1.5 and 3.5 s
    assert 2 <= len(shown.asked) <= 4


@pytest.mark.soak
@pytest.mark.parametrize(
    "name", ["<img src=x onerror=hit=1>", "__proto__", "a" * 200, "Ж 茶 \u202e☕"]
)
def test_names_are_text(visit: Open, service: Service, name: str) -> None:
    service.event = status(
        name,
        arms=("tea", name),
        probabilities=(0.25, 0.75),
        recommended=name,
        algorithm=name,
        neighbours={name: neighbour(refused=1, last_refusal=name), "b": neighbour()},
    )
    shown = visit(service.link, width=360)
    page = shown.page
    expect(page.locator("#agent-name")).to_have_text(name)
    expect(page.locator("#recommended")).to_have_text(name)
    expect(page.locator("#neighbours th")).to_have_text([name, "b"])
    expect(page.locator("#neighbours td").nth(3)).to_have_text(f"1: {name}")
    assert page.evaluate("typeof hit") == "undefined"
    assert page.locator("img").count() == 0
    assert shown.width == 360
    assert shown.complaints == []
