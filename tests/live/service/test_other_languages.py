"""The service as applications in shell and JavaScript use it, from its document alone."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from .served import ARMS, Served, with_service

HERE = Path(__file__).parent


async def output_of(*command: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


# curl and Node are programs, which no extra of ours can bring; where one is missing it is said.
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
@with_service()
async def test_shell(it: Served, tmp_path: Path) -> None:
    found = await output_of("sh", HERE / "client.sh", it.service.url, tmp_path / "token")
    assert found.strip() in ARMS
    assert (it.agent.rounds, it.agent.open_tickets) == (1, 0)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
@with_service()
async def test_node(it: Served, tmp_path: Path) -> None:
    program = HERE / "client.mjs"
    found = json.loads(await output_of("node", program, it.service.url, tmp_path / "token", "30"))
    assert sum(found["played"].values()) == found["observed"] == it.agent.rounds == 30
    assert found["refused"] == [409, "conflict", 404, "unknown_ticket"]
