"""A member's process ends with its store, so that whoever watches over it starts it again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fedbandits.live import Agent, Federation, StoppedError
from fedbandits.live import site as live_site
from fedbandits.live.site import Site, malloc_trim, run_site
from fedbandits.networks import path


def test_a_process_ends_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Federation(["a", "b"], path(1)).part("agent1")
    site = Site(part, tmp_path / "a.db", None, 0.0, 1.0, None, tmp_path / "a.token", False, None)
    monkeypatch.setattr(Agent, "running", property(lambda self: False))
    with pytest.raises(StoppedError, match="its store failed"):
        asyncio.run(asyncio.wait_for(run_site(site), 20))


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


def test_free_memory_is_returned_to_the_system_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the C library has a function for that, as glibc does."""
    monkeypatch.setattr(live_site, "LOOK", 0.01)
    monkeypatch.setattr(live_site, "TRIM", 0.02)
    calls: list[int] = []

    def trim(pad: int) -> None:
        calls.append(pad)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(live_site, "malloc_trim", lambda: trim)
    part = Federation(["a", "b"], path(1)).part("agent1")
    site = Site(part, tmp_path / "a.db", None, 0.0, 1.0, None, tmp_path / "a.token", False, None)
    asyncio.run(asyncio.wait_for(run_site(site), 20))
    assert calls == [0, 0, 0]


def test_the_c_library_is_asked_for_its_function() -> None:
    assert malloc_trim()(0) in (0, 1)
