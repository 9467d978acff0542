"""Read-only tokens, and names of hosts that an operator adds."""

from __future__ import annotations

import itertools
from pathlib import Path

import httpx
import pytest

from .served import READ_TOKEN, Served, kind_of, served, with_service


@with_service(read_token=READ_TOKEN)
async def test_a_read_token_reads_and_changes_nothing(it: Served) -> None:
    ticket = (await it.choose()).json()["ticket"]
    it.client.headers["Authorization"] = f"Bearer {READ_TOKEN}"
    for path in ("/v1/status", "/metrics", "/healthz", "/openapi.json", "/"):
        assert (await it.client.get(path)).status_code == 200, path
        assert (await it.client.head(path)).status_code == 200, path
    async with it.client.stream("GET", "/v1/events") as events:
        assert events.status_code == 200
    assert kind_of(await it.choose()) == (403, "read_only")
    assert kind_of(await it.observe(ticket=ticket, loss=0.5)) == (403, "read_only")
    for method, path in itertools.product(("POST", "PUT", "DELETE", "OPTIONS"), ("/v1/status",)):
        answer = await it.client.request(method, path)
        assert kind_of(answer) == (403, "read_only")
    assert (it.agent.rounds, it.agent.open_tickets) == (1, 1)
    it.client.headers["Authorization"] = f"Bearer {READ_TOKEN}x"
    assert kind_of(await it.client.get("/v1/status")) == (401, "unauthorised")


@with_service()
async def test_without_a_read_token_there_is_none(it: Served) -> None:
    for shown in ("Bearer", "Bearer None", f"Bearer {READ_TOKEN}"):
        headers = {"Authorization": shown}
        answer = await it.client.get("/v1/status", headers=headers)
        assert kind_of(answer) == (401, "unauthorised")


async def statuses(it: Served, *hosts: str) -> list[int]:
    def ask(host: str) -> httpx.Request:
        return it.client.build_request("GET", "/v1/status", headers={"Host": host})

    return [(await it.client.send(ask(host))).status_code for host in hosts]


def test_further_names_of_the_service(tmp_path: Path) -> None:
    names = ["agent.example.org", "*.shops.example", "192.0.2.7", "[2001:DB8::7]", "Alias"]
    known = [
        *("agent.example.org", "agent.example.org:443", "AGENT.example.org", "a.shops.example"),
        *("192.0.2.7:8443", "[2001:db8::7]:8443", "alias", "127.0.0.1", "localhost"),
    ]
    unknown = [
        "example.org",
        "b.a.shops.example",
        "192.0.2.8",
        "[2001:db8::8]",
        "*.shops.example.x",
    ]

    async def play(it: Served) -> None:
        assert await statuses(it, *known) == [200] * len(known)
        assert await statuses(it, *unknown) == [421] * len(unknown)
        said = (await it.client.get("/healthz", headers={"Host": "evil.example"})).json()["error"]
        assert "evil.example" in said
        assert "hosts" in said

    served(tmp_path, play, hosts=names)


@pytest.mark.parametrize(
    "host",
    ["", "*", "https://agent.example.org", "agent.example.org:443", "a b", "a/b", "a.*.b", "é.org"],
)
def test_what_is_no_name_of_a_host(tmp_path: Path, host: str) -> None:
    async def play(it: Served) -> None:
        raise AssertionError("it was taken")

    with pytest.raises(ValueError, match=r"hosts: .* without scheme and port"):
        served(tmp_path, play, hosts=[host])
