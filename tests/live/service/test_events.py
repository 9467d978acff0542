"""The stream of the status, and its limits."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import fedbandits as fb
from fedbandits.live import Federation
from tests.live.links import WAIT, until

from .served import Served, faults, kind_of, served, with_service


async def listen(it: Served, events: int) -> list[dict[str, Any]]:
    """Return so many events."""
    found: list[dict[str, Any]] = []
    async with it.client.stream("GET", "/v1/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        name = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            if line.startswith("data: "):
                assert name == "status"
                found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == events:
                return found
    return found


@with_service()
async def test_a_status_every_period(it: Served) -> None:
    it.service.events._period = 0.05
    listening = asyncio.create_task(listen(it, 4))
    await until(lambda: it.service.events.listening)
    await it.choose()
    found = [*await listening, *await listen(it, 1)]
    schema = {"$ref": "#/components/schemas/Status"}
    assert [faults(each, schema) for each in found] == [[]] * 5
    times = [each["time"] for each in found[:4]]
    assert all(late - early >= 0.045 for early, late in itertools.pairwise(times))
    assert (found[0]["rounds"], found[-1]["rounds"]) == (0, 1)
    await until(lambda: not it.service.events.listening)  # it has gone


@with_service()
async def test_a_head_alone_is_no_stream(it: Served) -> None:
    async with asyncio.timeout(WAIT):
        assert (await it.client.head("/v1/events")).status_code == 200
    assert it.service.events.listening == 0


@with_service()
async def test_the_number_of_listeners_is_limited(it: Served) -> None:
    it.service.events._most = 2
    held = [await it.client.send(stream(it), stream=True) for _ in range(2)]
    assert kind_of(await it.client.get("/v1/events")) == (429, "too_many")
    assert (await it.choose()).status_code == 200
    for each in held:
        await each.aclose()
    await until(lambda: not it.service.events.listening)
    assert len(await listen(it, 1)) == 1


def stream(it: Served) -> httpx.Request:
    return it.client.build_request("GET", "/v1/events")


@pytest.mark.slow
def test_slow_listeners_are_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A listener that does not read costs a few buffers until it is dropped."""
    many = Federation([f"arm{i}" for i in range(2000)], fb.networks.path(1))

    async def play(it: Served) -> None:
        it.service.events._period = 0.001
        it.service.events._patience = 0.2
        reader, writer = await asyncio.open_connection(it.host, it.port, limit=1)
        writer.write(it.request("/v1/events", b"", method="GET"))
        await until(lambda: it.service.events.dropped)
        # asyncio reports an abort a turn later.
        await until(lambda: not it.service.server.uvicorn.server_state.connections)
        assert it.service.events.listening == 0
        assert (await it.choose()).status_code == 200
        assert "fedbandits_listeners_dropped_total 1.0" in (await it.client.get("/metrics")).text
        writer.close()
        del reader

    served(tmp_path, play, many)
    assert caplog.records == []


@with_service()
async def test_a_stream_ends_with_the_agent_and_with_the_service(it: Served) -> None:
    it.service.events._period = 0.02
    listening = asyncio.create_task(listen(it, 10_000))
    await until(lambda: it.service.events.listening)
    await it.agent.stop()
    async with asyncio.timeout(WAIT):
        assert len(await listening) >= 1
    await it.agent.start()
    listening = asyncio.create_task(listen(it, 10_000))
    await until(lambda: it.service.events.listening)
    async with asyncio.timeout(WAIT):
        await it.service.stop()
        assert len(await listening) >= 1
