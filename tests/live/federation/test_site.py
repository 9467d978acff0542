"""A member's process ends with its store, so that whoever watches over it starts it again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fedbandits.live import Agent, Federation, StoppedError
from fedbandits.live.site import Site, run_site
from fedbandits.networks import path


def test_a_process_ends_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Federation(["a", "b"], path(1)).part("agent1")
    site = Site(part, tmp_path / "a.db", None, 0.0, 1.0, None, tmp_path / "a.token", False, None)
    monkeypatch.setattr(Agent, "running", property(lambda self: False))
    with pytest.raises(StoppedError, match="its store failed"):
        asyncio.run(asyncio.wait_for(run_site(site), 20))
