"""Whole federations in real processes on the loopback address, for tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbandits.live import Federation
from fedbandits.live.client import Client, ServiceError
from fedbandits.live.up import Member, start_all, stop_all


@contextmanager
def running(federation: Federation, source: Path, folder: Path) -> Iterator[dict[str, Member]]:
    """All members, each in a process of its own; ended whatever happens."""
    members = start_all(federation, source, folder)
    by_name = {member.name: member for member in members}
    try:
        for member in members:
            wait_for(member)
        yield by_name
    finally:
        for member in by_name.values():
            if member.process.poll() is None:
                os.kill(member.process.pid, signal.SIGCONT)
        stop_all(list(by_name.values()))


def restarted(member: Member, folder: Path) -> Member:
    """The same member in a new process."""
    with (folder / f"{member.name}.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fedbandits",
                "live",
                "agent",
                str(folder / f"{member.name}.toml"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return member._replace(process=process)


def client(member: Member) -> Client:
    return Client(member.url, member.token.read_text(encoding="utf-8").strip(), timeout=5.0)


def ask(member: Member, path: str, body: dict[str, Any] | None = None) -> Any:
    with client(member) as service:
        return service.ask(path, body)


def wait_for(member: Member, seconds: float = 60.0) -> None:
    """Until it answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            ask(member, "/v1/status")
            return
        except (ServiceError, OSError):
            assert member.process.poll() is None, f"{member.name} has ended"
            assert time.monotonic() < end, f"{member.name} does not answer"
            time.sleep(0.2)


def warnings_in(folder: Path) -> list[str]:
    """Log lines that are more than information."""
    found = []
    for log in sorted(folder.glob("*.log")):
        for line in log.read_text(encoding="utf-8").splitlines():
            if not re.search(r'"level": "info"', line):
                found.append(f"{log.name}: {line}")
    return found
