"""Federations in real processes on the loopback address."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbandits.live import Federation
from fedbandits.live.operations.client import Client
from fedbandits.live.operations.local_cluster import (
    MemberProcess,
    start_member,
    stop_members,
    write_sites,
)


@contextmanager
def running(
    federation: Federation,
    source: Path,
    folder: Path,
    before: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, MemberProcess]]:
    """Run each member in its own process until the block ends.

    Args:
        federation: the federation to run.
        source: its file.
        folder: for keys, journals, tokens and logs.
        before: called after all files are written and before a process starts.
    """
    with write_sites(federation, source, folder) as services:
        before()
        members = {name: start_member(name, url, folder) for name, url in services.items()}
        try:
            for member in members.values():
                wait_for(member)
            yield members
        finally:
            for member in members.values():
                if member.process.poll() is None:
                    os.kill(member.process.pid, signal.SIGCONT)
            stop_members(list(members.values()))


def client(member: MemberProcess) -> Client:
    return Client(member.url, member.token.read_text(encoding="utf-8").strip(), timeout=5.0)


def ask(member: MemberProcess, path: str, body: dict[str, Any] | None = None) -> Any:
    with client(member) as service:
        return service.ask(path, body)


def wait_for(member: MemberProcess, seconds: float = 60.0) -> None:
    """Wait until a member responds."""
    end = time.monotonic() + seconds
    while True:
        try:
            ask(member, "/v1/status")
            return
        except OSError:
            assert member.process.poll() is None, f"{member.name} has ended"
            assert time.monotonic() < end, f"{member.name} does not answer"
            time.sleep(0.2)


def warnings_in(folder: Path) -> list[str]:
    """Return log lines above the level INFO."""
    found = []
    for log in sorted(folder.glob("*.log")):
        for line in log.read_text(encoding="utf-8").splitlines():
            if not re.search(r'"level": "info"', line):
                found.append(f"{log.name}: {line}")
    return found
