"""A whole federation on this machine: one process for each member, and the status of all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fedbandits.common.files import atomic_write
from fedbandits.live.federation.demo import Losses
from fedbandits.live.federation.federation import Federation

from .client import Client, ServiceError

START_SECONDS = 60.0
"""Seconds until all processes must respond."""

STOP_SECONDS = 10.0
"""Seconds until a process that does not stop is killed."""


class MemberProcess(NamedTuple):
    """The process of one member.

    Attributes:
        name: of the agent.
        process: the process.
        url: of its service.
        token: the file with the token of its service.
    """

    name: str
    process: subprocess.Popen[bytes]
    url: str
    token: Path

    def client(self) -> Client:
        """Return a client of the member's service."""
        return Client(self.url, self.token.read_text(encoding="utf-8").strip(), timeout=5.0)


@contextmanager
def write_sites(
    federation: Federation, source: Path, folder: Path, allow_modules: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Write keys and an `agent.toml` for each member; yield the URLs of their services.

    The ports stay reserved until the block ends.

    Args:
        federation: the federation to run.
        source: its file.
        folder: for keys, journals, tokens and logs.
        allow_modules: names of the modules that the file may name.
    """
    from fedbandits.live.federation.keys import write_keys

    if not (folder / "keys" / "ca.key").exists():
        write_keys(federation, folder / "keys")
    names = federation.members
    with reserved_ports(2 * len(names)) as ports:
        addresses = {n: f"127.0.0.1:{port}" for n, port in zip(names, ports, strict=False)}
        services = {}
        for name, port in zip(names, ports[len(names) :], strict=True):
            near = {k: addresses[k] for k in (name, *federation.part(name).neighbours)}
            text = _agent_toml(name, source, port, near, allow_modules)
            with atomic_write(folder / f"{name}.toml") as file:
                file.write(text.encode())
            services[name] = f"http://127.0.0.1:{port}"
        yield services


def start_member(name: str, url: str, folder: Path) -> MemberProcess:
    """Start the process of a member whose file is written."""
    # -P: import nothing from the current folder, which may be the federation's.
    command = [sys.executable, "-P", "-m", "fedbandits", "live", "agent", f"{folder / name}.toml"]
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C ends this process, which ends the others
        )
    return MemberProcess(name, process, url, folder / f"{name}.token")


def stop_members(members: Sequence[MemberProcess]) -> None:
    """Stop all processes, and kill those that do not stop in time."""
    for member in members:
        member.process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for member in members:
        try:
            member.process.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            member.process.kill()
            member.process.wait()


class LocalCluster:
    """A running federation, and the status of its agents.

    Args:
        federation: the federation that runs.
        members: its processes.
    """

    def __init__(self, federation: Federation, members: list[MemberProcess]) -> None:
        self.members = members
        self._arms = list(federation.arms)
        self._edges = [[u, v] for u, v, _ in federation.edges()]
        self._status: dict[str, Any] = dict.fromkeys(member.name for member in members)

    @classmethod
    @contextmanager
    def start(
        cls, federation: Federation, source: Path, folder: Path, allow_modules: Sequence[str] = ()
    ) -> Iterator[LocalCluster]:
        """Run all members on the loopback address until the block ends; see `write_sites`."""
        with write_sites(federation, source, folder, allow_modules) as services:
            members: list[MemberProcess] = []
            try:
                for name, url in services.items():
                    members.append(start_member(name, url, folder))
                yield cls(federation, members)
            finally:
                stop_members(members)

    def status(self) -> dict[str, Any]:
        """Return the last status of all agents, and the edges."""
        return {"agents": self._status, "edges": self._edges}

    async def ready(self) -> None:
        """Wait until every agent responds.

        Raises:
            ServiceError: if a process ends, or does not respond in time; names its log.
        """
        end = time.monotonic() + START_SECONDS
        for member in self.members:
            while not await asyncio.to_thread(self._update, member):
                if member.process.poll() is not None or time.monotonic() > end:
                    log = member.token.with_suffix(".log")
                    last = log.read_text(encoding="utf-8").strip().splitlines()[-3:]
                    raise ServiceError(f"{member.name} did not start; {log} ends: {last}")
                await asyncio.sleep(0.2)

    async def watch(self) -> None:
        """Update the status of all agents once a second, without end."""
        while True:
            began = time.monotonic()
            await asyncio.gather(*[asyncio.to_thread(self._update, m) for m in self.members])
            await asyncio.sleep(max(1.0 - (time.monotonic() - began), 0.1))

    async def play(self, losses: Losses, pace: float) -> None:
        """Let every agent choose and observe, without end.

        Args:
            losses: the losses of the agents.
            pace: mean seconds between two choices of an agent.
        """
        await asyncio.gather(
            *[self._play(v, member, losses, pace) for v, member in enumerate(self.members)]
        )

    async def _play(self, agent: int, member: MemberProcess, losses: Losses, pace: float) -> None:
        t = 0
        while True:
            await asyncio.sleep(pace * (0.5 + secrets.randbelow(1000) / 1000))
            t += 1
            with contextlib.suppress(OSError):  # the process may be restarting
                await asyncio.to_thread(self._play_round, agent, member, losses, t)

    def _play_round(self, agent: int, member: MemberProcess, losses: Losses, t: int) -> None:
        with member.client() as client:
            ticket = client.ask("/v1/choose", {})
            loss = losses(t, agent, self._arms.index(ticket["arm"]))
            client.ask("/v1/observe", {"ticket": ticket["ticket"], "loss": loss})

    def _update(self, member: MemberProcess) -> bool:
        """Ask for the status of an agent; return whether it responded."""
        try:
            with member.client() as client:
                self._status[member.name] = client.ask("/v1/status")
        except OSError:
            self._status[member.name] = None
            return False
        return True


def _agent_toml(
    name: str, source: Path, port: int, addresses: dict[str, str], allow_modules: Sequence[str]
) -> str:
    lines = [
        f"name = {json.dumps(name)}",
        f"federation = {json.dumps(str(source.resolve()))}",
        f"keys = {json.dumps(f'keys/{name}')}",
        f"allow_modules = {json.dumps(list(allow_modules))}",
        "[service]",
        f'address = "127.0.0.1:{port}"',
        "[addresses]",
        *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in addresses.items()),
    ]
    return "\n".join(lines) + "\n"


def make_private_folder(path: Path) -> None:
    """Make a folder that only its owner can open."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)


@contextmanager
def reserved_ports(number: int) -> Iterator[list[int]]:
    """Yield different free ports of the loopback address, reserved until the block ends.

    On Linux the ports stay bound without listening. The system then assigns them to no other
    program, but a server that asks for one by its number, with SO_REUSEADDR, gets it. On other
    systems a bound port is not available to servers, so the ports are released at once.

    Args:
        number: how many.

    Example:
        >>> with reserved_ports(1) as [port], socket.create_server(("127.0.0.1", port)) as server:
        ...     server.getsockname()[1] == port
        True
    """
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
        if sys.platform != "linux":
            held.close()
        yield ports
