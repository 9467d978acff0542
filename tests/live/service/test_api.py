"""Requests of applications, and their responses."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.cli.live_tables import status_lines
from fedbandits.live import Federation
from fedbandits.live.protocol.records import Changes
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.service import serve

from .served import ALONE, ARMS, DOCUMENT, Served, kind_of, served, serving, with_service


@pytest.fixture(params=["first", "second"])
def turn(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@with_service()
async def test_a_choice_and_its_loss(it: Served) -> None:
    chosen = (await it.choose()).json()
    assert chosen.keys() == {"ticket", "arm", "probability"}
    assert chosen["arm"] in ARMS
    for _ in range(2):  # repetitions count once
        response = await it.observe(ticket=chosen["ticket"], loss=0.25)
        assert (response.status_code, response.json()) == (200, {"counted": True})
    status = (await it.client.get("/v1/status")).json()
    assert (status["rounds"], status["observed"], status["open_tickets"]) == (1, 1, 0)
    assert status["arms"] == list(ARMS)


@with_service()
async def test_allowed_arms_and_rewards(it: Served) -> None:
    chosen = (await it.choose(allowed=["cocoa"])).json()
    assert (chosen["arm"], chosen["probability"]) == ("cocoa", 1.0)
    assert (await it.observe(ticket=chosen["ticket"], reward=1)).status_code == 200
    assert kind_of(await it.observe(ticket=chosen["ticket"], loss=1)) == (409, "conflict")
    assert (await it.observe(ticket=chosen["ticket"], loss=0)).status_code == 200


@with_service(Federation(ARMS, fb.networks.path(1), algorithm=fb.FedHedge()))
async def test_losses_of_all_arms(it: Served) -> None:
    for losses in ([0.1, 0.2, 0.3], dict(zip(ARMS, (0.1, 0.2, 0.3), strict=True))):
        ticket = (await it.choose()).json()["ticket"]
        assert (await it.observe(ticket=ticket, loss=losses)).status_code == 200
    ticket = (await it.choose()).json()["ticket"]
    assert kind_of(await it.observe(ticket=ticket, loss=0.1)) == (422, "refused")


def test_events_may_be_repeated_also_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    answers = []

    async def play(it: Served) -> None:
        answers.extend([(await it.choose(event="order 1")).json() for _ in range(2)])

    for _ in range(2):
        served(tmp_path, play, ALONE, store)
    assert answers[0]["event"] == "order 1"
    assert answers == [answers[0]] * 4

    async def ends(it: Served) -> None:
        assert it.agent.rounds == 1
        other = await it.choose(event="order 1", allowed=["tea", "coffee"])
        assert kind_of(other) == (409, "conflict")
        assert (await it.observe(event="order 1", loss=0.5)).status_code == 200
        assert kind_of(await it.observe(event="order 2", loss=0.5)) == (404, "unknown_ticket")

    served(tmp_path, ends, ALONE, store)


REFUSED: tuple[tuple[str, Any, tuple[int, str]], ...] = (
    ("choose", {"allowed": ["tee"]}, (422, "refused")),
    ("choose", {"allowed": []}, (422, "refused")),
    ("choose", {"allowed": "tea"}, (400, "malformed")),
    ("choose", {"event": ""}, (400, "malformed")),
    ("choose", {"event": "x" * 201}, (400, "malformed")),
    ("choose", {"event": 7}, (400, "malformed")),
    ("choose", {"alowed": ["tea"]}, (400, "malformed")),
    ("choose", [], (400, "malformed")),
    ("observe", {"ticket": "no-1", "loss": 0.5}, (404, "unknown_ticket")),
    ("observe", {"ticket": "TICKET", "loss": 1.5}, (422, "refused")),
    ("observe", {"ticket": "TICKET", "loss": [0.5]}, (422, "refused")),
    ("observe", {"ticket": "TICKET", "loss": "0.5"}, (400, "malformed")),
    ("observe", {"ticket": "TICKET", "loss": True}, (400, "malformed")),
    ("observe", {"ticket": "TICKET"}, (400, "malformed")),
    ("observe", {"ticket": "TICKET", "loss": 0.5, "reward": 0.5}, (400, "malformed")),
    ("observe", {"loss": 0.5}, (400, "malformed")),
    ("observe", {"ticket": "TICKET", "event": "x", "loss": 0.5}, (400, "malformed")),
)


@with_service()
async def test_refused_requests_count_nothing(it: Served) -> None:
    ticket = (await it.choose()).json()["ticket"]
    for path, given, refused in REFUSED:
        body = given
        if isinstance(given, dict) and given.get("ticket") == "TICKET":
            body = given | {"ticket": ticket}
        assert kind_of(await it.client.post(f"/v1/{path}", json=body)) == refused, given
    status = (await it.client.get("/v1/status")).json()
    assert (status["rounds"], status["observed"]) == (1, 0)


@with_service()
async def test_malformed_json_is_refused(it: Served) -> None:
    json = {"content-type": "application/json"}
    broken = (b"", b"{", b"\xff\xfe", b'{"loss": NaN}', b"[" * 60_000)
    for path, body in itertools.product(("choose", "observe"), broken):
        answer = await it.client.post(f"/v1/{path}", content=body, headers=json)
        assert kind_of(answer) == (400, "malformed")
        assert body or "the body is empty; send JSON" in answer.json()["error"]


@with_service(Federation(ARMS, fb.networks.path(1), expire_after=0.01))
async def test_an_expired_ticket_is_gone(it: Served) -> None:
    ticket = (await it.choose()).json()["ticket"]
    await asyncio.sleep(0.02)
    assert kind_of(await it.observe(ticket=ticket, loss=0.5)) == (410, "expired")


@with_service(baseline="tea")
async def test_an_apprentice_plays_the_baseline_and_names_the_drawn_arm(it: Served) -> None:
    would = []
    for number in range(20):
        chosen = (await it.choose(event=f"order {number}")).json()
        assert (chosen["arm"], chosen["probability"]) == ("tea", 1.0)
        would.append(chosen["would"])
        assert (await it.choose(event=f"order {number}")).json() == chosen
    assert kind_of(await it.choose(allowed=["coffee"])) == (422, "refused")
    metrics = (await it.client.get("/metrics")).text
    for arm in set(would):
        count = f'fedbandits_apprentice_choices_total{{would="{arm}"}} {would.count(arm)}.0'
        assert count in metrics
    assert f"fedbandits_apprentice_agreed_total {would.count('tea')}.0" in metrics
    status = (await it.client.get("/v1/status")).json()
    assert status["baseline"] == "tea"
    assert "an apprentice: plays tea each time" in status_lines(status)


def test_a_baseline_must_be_possible(tmp_path: Path) -> None:
    async def start(federation: Federation, baseline: str) -> None:
        agent = fb.live.Agent("agent1", federation, MemoryStore())
        await serve(agent, token_file=tmp_path / "token", baseline=baseline)

    with pytest.raises(ValueError, match=r"no arm 'te'.*tea"):
        asyncio.run(start(ALONE, "te"))
    ucb = Federation(ARMS, fb.networks.path(1), algorithm=fb.GossipUCB())
    with pytest.raises(ValueError, match="GossipUCB cannot learn"):
        asyncio.run(start(ucb, "tea"))


@with_service()
async def test_a_stopped_agent_is_unavailable_and_comes_back(it: Served) -> None:
    assert (await it.client.get("/healthz")).json() == {"running": True}
    await it.agent.stop()
    for path in ("/healthz", "/v1/status", "/v1/events"):
        assert kind_of(await it.client.get(path)) == (503, "stopped")
    assert kind_of(await it.choose()) == (503, "stopped")
    assert "fedbandits_up 0.0" in (await it.client.get("/metrics")).text
    await it.agent.start()
    assert (await it.choose()).status_code == 200
    assert (await it.client.get("/healthz")).status_code == 200


def test_a_failing_store_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryStore):
        full = False

        async def write(self, changes: Changes) -> None:
            if self.full:
                raise OSError("no space left")
            await super().write(changes)

    async def play(it: Served) -> None:
        ticket = (await it.choose()).json()["ticket"]
        store.full = True
        failed = await it.observe(ticket=ticket, loss=0.5)
        assert kind_of(failed) == (503, "stopped")
        assert "not counted" in failed.json()["error"]
        assert (await it.client.get("/healthz")).status_code == 503

    store = Full()
    served(tmp_path, play, ALONE, store)


@pytest.mark.usefixtures("turn")
@with_service(Federation(ARMS, fb.networks.path(2)))
async def test_metrics_are_of_this_agent_alone(it: Served) -> None:
    """The second service of a process reports nothing of the first."""
    ticket = (await it.choose()).json()["ticket"]
    await it.choose()
    await it.observe(ticket=ticket, loss=0.5)
    await it.observe(ticket="no-1", loss=0.5)
    text = (await it.client.get("/metrics")).text
    for line in (
        "fedbandits_up 1.0",
        "fedbandits_choices_total 2.0",
        "fedbandits_observations_total 1.0",
        "fedbandits_expired_total 0.0",
        "fedbandits_open_tickets 1.0",
        "fedbandits_disagreement 0.0",
        'fedbandits_messages_refused_total{neighbour="agent2",reason="file"} 0.0',
        'fedbandits_http_answers_total{path="/v1/observe",status="404"} 1.0',
        'fedbandits_http_request_seconds_count{path="/v1/choose"} 2.0',
    ):
        assert f"\n{line}\n" in f"\n{text}"
    assert "neighbour_silent_seconds{" not in text  # never heard


def test_the_counters_of_a_transport_are_metrics(tmp_path: Path) -> None:
    async def play() -> None:
        transport: Any = fb.live.MemoryNetwork().transport("agent1")
        transport.counts = {"reconnects": 3}
        agent = fb.live.Agent("agent1", ALONE, MemoryStore(), transport)
        async with agent, await serve(agent, token_file=tmp_path / "token") as service:
            response = service.metrics.text()
            assert b'fedbandits_transport_total{what="reconnects"} 3.0' in response

    asyncio.run(play())


def test_the_document_is_served_and_names_every_path(tmp_path: Path) -> None:
    async def play(it: Served) -> None:
        assert (await it.client.get("/openapi.json")).json() == DOCUMENT
        # This application is a router.
        routes = {
            (route.path, method.lower())
            for route in it.service.guard._app.routes  # type: ignore[attr-defined]
            for method in route.methods - {"HEAD"}
        }
        assert routes == {
            (path, method) for path, each in DOCUMENT["paths"].items() for method in each
        }

    served(tmp_path, play, static=tmp_path / "none")


def test_many_at_once_share_commits(tmp_path: Path) -> None:
    async def run() -> None:
        store = fb.live.Journal(tmp_path / "agent.db")
        async with serving(tmp_path, ALONE, store) as it:
            answers = await asyncio.gather(*[it.choose(event=f"{i % 20}") for i in range(60)])
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.json()["ticket"] for answer in answers}) == it.agent.rounds == 20

    asyncio.run(run())
