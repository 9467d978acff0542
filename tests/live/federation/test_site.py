"""A member's process ends with its store, so that whoever watches over it starts it again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedbandits.live import Agent, Federation, StoppedError
from fedbandits.live.client import Client, ServiceError
from fedbandits.live.site import Site, run_site
from fedbandits.networks import path


def test_a_process_ends_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Federation(["a", "b"], path(1)).part("agent1")
    site = Site(part, tmp_path / "a.db", None, 0.0, 1.0, None, tmp_path / "a.token", False, None)
    monkeypatch.setattr(Agent, "failure", OSError("the disk is gone"))
    with pytest.raises(StoppedError, match="agent1 stopped: the disk is gone"):
        asyncio.run(asyncio.wait_for(run_site(site), 20))


FULL = """
import sys
from fedbandits.cli import app
from fedbandits.live.journal import file

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
    (tmp_path / "federation.toml").write_text(
        'arms = ["a", "b"]\nmembers = ["north"]\nlinks = []\n'
    )
    site = tmp_path / "agent.toml"
    site.write_text(
        'name = "north"\nfederation = "federation.toml"\n[service]\naddress = "127.0.0.1:0"\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-c", FULL, str(site)], stderr=subprocess.PIPE, text=True
    )
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


def test_the_log_says_where_its_page_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And where the token is, which itself stays out of the log."""
    caplog.set_level("INFO", "fedbandits.live")
    part = Federation(["a", "b"], path(1)).part("agent1")
    token = tmp_path / "a.token"
    site = Site(part, tmp_path / "a.db", None, 0.0, 1.0, "127.0.0.1:0", token, False, None)
    urls: list[str | None] = []

    def ready(url: str | None) -> None:
        urls.append(url)
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(asyncio.wait_for(run_site(site, ready), 20))
    assert f"its page is {urls[0]}/#token=TOKEN, with what stands in {token}" in caplog.text
    assert token.read_text().strip() not in caplog.text
