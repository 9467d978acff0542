"""The process of a member: its tokens, its log, and its end with its store."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedbandits.live import Agent, StoppedError
from fedbandits.live.operations import site as live_site
from fedbandits.live.operations.client import Client, ServiceError
from fedbandits.live.operations.site import Site, malloc_trim, read_site, run_site

TOKEN = "full-0123456789abcdef"
READ_TOKEN = "read-0123456789abcdef"


def site(folder: Path, service: str = "") -> Site:
    (folder / "federation.toml").write_text('arms = ["a", "b"]\nmembers = ["north"]\nlinks = []\n')
    (folder / "agent.toml").write_text(f'name = "north"\nfederation = "federation.toml"\n{service}')
    return read_site(folder / "agent.toml")


def run(site: Site, play: Callable[[str], None] = lambda url: None) -> str:
    """Run a site while `play` uses its service; return the address of the service."""
    urls: list[str] = []

    async def played() -> None:
        def ready(url: str | None) -> None:
            assert url is not None
            urls.append(url)
            task = asyncio.get_running_loop().create_task(asyncio.to_thread(play, url))
            task.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))
            playing.append(task)

        playing: list[asyncio.Task[None]] = []
        await run_site(site, ready)
        await playing[0]

    asyncio.run(asyncio.wait_for(played(), 20))
    return urls[0]


def test_a_process_ends_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agent, "failure", OSError("the disk is gone"))
    with pytest.raises(StoppedError, match="north stopped: the disk is gone"):
        asyncio.run(asyncio.wait_for(run_site(site(tmp_path)), 20))


FULL = """
import sys
from fedbandits.cli import app
from fedbandits.live.journal import journal as file

opened = file._writing


def on_a_small_disk(path):
    connection = opened(path)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages + 2}")
    return connection


file._writing = on_a_small_disk
app(["live", "agent", sys.argv[1]])
"""


def choose_often(client: Client) -> None:
    for _ in range(1000):
        client.ask("/v1/choose", {})


@pytest.mark.slow
def test_an_agent_says_that_its_disk_is_full(tmp_path: Path) -> None:
    """In the log, to the application, and when its process ends."""
    site(tmp_path, "[service]")
    command = [sys.executable, "-c", FULL, str(tmp_path / "agent.toml")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"serves (http://[\d.:]+)", process.stderr.readline())
        assert found is not None
        with (
            Client(found[1], (tmp_path / "north.token").read_text().strip()) as client,
            pytest.raises(ServiceError, match="is full") as refused,
        ):
            choose_often(client)
        said = process.communicate(timeout=60)[1].splitlines()
    finally:
        process.kill()
        process.wait()
    full = rf"the disk of {re.escape(str(tmp_path / 'north.db'))} is full: [\d,]+ bytes are free\."
    assert re.search(full, str(refused.value))
    [logged] = [line for line in said if line.startswith("{") and '"level": "error"' in line]
    assert re.match(rf"north stops: {full}", json.loads(logged)["message"])
    assert re.match(rf"error: north stopped: {full}.*; make room there", said[-1])
    assert process.returncode == 2


def test_the_log_names_the_source_of_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fedbandits.live")
    monkeypatch.setenv("NORTH_TOKEN", TOKEN)
    monkeypatch.setenv("NORTH_READ_TOKEN", READ_TOKEN)
    variables = 'token_env = "NORTH_TOKEN"\nread_token_env = "NORTH_READ_TOKEN"'

    def play(url: str) -> None:
        with Client(url, TOKEN) as full, Client(url, READ_TOKEN) as reader:
            assert full.ask("/v1/choose", {})["arm"] in "ab"
            assert reader.ask("/v1/status")["rounds"] == 1
            with pytest.raises(ServiceError, match="403"):
                reader.ask("/v1/choose", {})

    url = run(site(tmp_path, "[service]"))
    token = tmp_path / "north.token"
    assert f"its page is {url}/#token=TOKEN; the token is in {token}" in caplog.text
    assert token.read_text().strip() not in caplog.text
    token.unlink()
    run(site(tmp_path, f"[service]\n{variables}"), play)
    assert "the token is in the environment variable NORTH_TOKEN" in caplog.text
    assert TOKEN not in caplog.text
    assert not (tmp_path / "north.token").exists()
    monkeypatch.delenv("NORTH_TOKEN")
    with pytest.raises(ValueError, match="the environment variable NORTH_TOKEN is not set"):
        run(site(tmp_path, f"[service]\n{variables}"))


def test_a_read_token_is_made_and_further_hosts_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "read.token"
    path.parent.mkdir()

    def play(url: str) -> None:
        with Client(url, path.read_text().strip()) as reader:
            assert reader.ask("/v1/status")["rounds"] == 0
            for host, status in (("agent.example.org", 200), ("other.example.org", 421)):
                reader._connection.request("GET", "/healthz", headers={"Host": host})
                answer = reader._connection.getresponse()
                answer.read()
                assert answer.status == status

    service = 'read_token = "secrets/read.token"\nhosts = ["agent.example.org"]'
    run(site(tmp_path, f"[service]\n{service}"), play)
    assert path.stat().st_mode & 0o777 == 0o600


def test_free_memory_is_returned_repeatedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With glibc, whose function for this also exists here."""
    monkeypatch.setattr(live_site, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(live_site, "TRIM_SECONDS", 0.02)
    calls: list[int] = []

    def trim(pad: int) -> None:
        calls.append(pad)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(live_site, "malloc_trim", lambda: trim)
    asyncio.run(asyncio.wait_for(run_site(site(tmp_path)), 20))
    assert calls == [0, 0, 0]
    assert malloc_trim()(0) in (0, 1)
