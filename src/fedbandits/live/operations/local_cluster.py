"""A whole federation on this machine, to see it work: a process each, and one page of all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedbandits.common.files import atomic_write
from fedbandits.common.own_modules import allowing
from fedbandits.live.federation.definition import Federation

from .client import Client, ServiceError
from .ports import held_ports

PATIENCE = 60.0
"""Seconds that all processes have to come up."""

PACE, FASTEST = 0.5, 0.01
"""Mean seconds between two choices of an agent: by default, and at least."""

MOST_LOSSES = 10**8
"""Largest number of losses of a demonstration, which are held in memory."""

Losses = Callable[[int, int, int], float]
"""The loss of (round, agent, arm)."""


class Member(NamedTuple):
    """One process.

    Attributes:
        name: of the agent.
        process: runs it.
        url: of its service.
        token: the file with the token of its service.
    """

    name: str
    process: subprocess.Popen[bytes]
    url: str
    token: Path


@contextlib.contextmanager
def started(
    federation: Federation, source: Path, folder: Path, allow_modules: Sequence[str] = ()
) -> Iterator[list[Member]]:
    """Keys, a file and a process for each member; all on the loopback address, until the end.

    Args:
        federation: what is run.
        source: its file.
        folder: for keys, journals, tokens and logs.
        allow_modules: names of the modules that the file may name.
    """
    with sites_written(federation, source, folder, allow_modules) as services:
        members: list[Member] = []
        try:
            for name, url in services.items():
                members.append(start(name, url, folder))
            yield members
        finally:
            stop_all(members)


@contextlib.contextmanager
def sites_written(
    federation: Federation, source: Path, folder: Path, allow_modules: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Keys and an `agent.toml` for each member; the URLs of their services.

    Their ports are theirs until the block ends.
    """
    from fedbandits.live.federation.keys import write_keys

    if not (folder / "keys" / "ca.key").exists():
        write_keys(federation, folder / "keys")
    with held_ports(2 * len(federation.members)) as ports:
        addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(federation.members, ports, strict=False)
        }
        services = {}
        for name, port in zip(federation.members, ports[len(federation.members) :], strict=True):
            near = {k: addresses[k] for k in (name, *federation.part(name).neighbours)}
            text = _agent_toml(name, source, port, near, allow_modules)
            with atomic_write(folder / f"{name}.toml") as file:
                file.write(text.encode())
            services[name] = f"http://127.0.0.1:{port}"
        yield services


def start(name: str, url: str, folder: Path) -> Member:
    """A process for one member whose file is written."""
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            # -P: nothing is imported from the current folder, which may be the federation's.
            [
                sys.executable,
                "-P",
                "-m",
                "fedbandits",
                "live",
                "agent",
                str(folder / f"{name}.toml"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
        )
    return Member(name, process, url, folder / f"{name}.token")


def stop_all(members: list[Member]) -> None:
    """End every process: by asking, then by force."""
    for member in members:
        member.process.terminate()
    end = time.monotonic() + 10
    for member in members:
        try:
            member.process.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            member.process.kill()
            member.process.wait()


def demo_pace(demo: dict[str, Any]) -> float:
    """Mean seconds between two choices of an agent, as [demo] has them."""
    pace = demo.get("pace", PACE)
    if (
        isinstance(pace, bool)
        or not isinstance(pace, int | float)
        or not (FASTEST <= pace < math.inf)
    ):
        raise ValueError(f"[demo] pace must be seconds, at least {FASTEST}, not {pace!r}")
    return float(pace)


def demo_losses(
    federation: Federation,
    demo: dict[str, Any],
    folder: Path = Path(),
    allow_modules: Sequence[str] = (),
) -> Losses:
    """What the agents of a demonstration lose: coins of these means, or one of our problems.

    Each agent replays its own part of a problem: its n-th choice is charged as in round n, and
    after the last round comes the first. Names that a problem has for its agents and arms must be
    the federation's, in any order.

    Args:
        federation: the agents and arms.
        demo: `means`, one for each arm, or the table of a problem; most of them need `[sim]`.
        folder: of the federation's file; files that a problem names are seen from there.
        allow_modules: names of the modules that the table may name.
    """
    demo = {key: value for key, value in demo.items() if key != "pace"}
    if "means" in demo:
        means = np.asarray(demo["means"], np.float64)
        if means.shape != (len(federation.arms),):
            raise ValueError(f"demo: {len(federation.arms)} means are needed, one for each arm")
        rng = np.random.default_rng()
        return lambda _, __, arm: float(rng.random() < means[arm])
    from fedbandits.config.building import construct
    from fedbandits.config.catalogue import REGISTRIES
    from fedbandits.config.experiment import Place

    sizes = {"agents": len(federation.members), "arms": len(federation.arms)}
    for key, size in sizes.items():
        if isinstance(demo.get(key), int) and demo[key] != size:
            raise ValueError(
                f"demo: {key} = {demo[key]}, but the federation has {size}; make them equal"
            )
    round_losses = math.prod(sizes.values())
    horizon = demo.get("horizon", 1)
    if isinstance(horizon, int) and horizon * round_losses > MOST_LOSSES:
        raise ValueError(
            f"demo: {horizon * round_losses:,} losses are too many; choose a horizon of at most "
            f"{MOST_LOSSES // round_losses:,}"
        )
    with allowing(allow_modules):
        place = Place("[demo]", folder, confined=True)
        problem = construct(REGISTRIES["problem"], demo, place)
    if (problem.agents, problem.arms) != (len(federation.members), len(federation.arms)):
        raise ValueError(
            f"demo: the problem has {problem.agents} agents and {problem.arms} arms, and the "
            f"federation {len(federation.members)} and {len(federation.arms)}"
        )
    if problem.adaptive:
        raise ValueError(
            f"demo: {problem.title} watches the arms of all agents in every round, and agents who "
            "live apart have no round in common; play it with fb.simulate"
        )
    agents = _places(problem.agent_names, federation.members, "agent", "members")
    arms = _places(problem.arm_names, federation.arms, "arm", "arms")
    table = problem.block(1, problem.horizon)
    return lambda t, agent, arm: float(table[(t - 1) % len(table), agents[agent], arms[arm]])


def _places(
    of_problem: Sequence[str] | None, ours: Sequence[str], what: str, key: str
) -> list[int]:
    """Where the problem has each of ours: by name, or where it has no names in our order."""
    if of_problem is None:
        return list(range(len(ours)))
    if strangers := set(ours) - set(of_problem):
        name = next(each for each in ours if each in strangers)
        raise ValueError(
            f"demo: the problem has no {what} {name!r}; give the federation {key} = "
            f"[{', '.join(map(json.dumps, of_problem))}], in any order"
        )
    return [of_problem.index(name) for name in ours]


class Up:
    """A running federation, and what is known of it.

    Args:
        federation: what runs.
        members: its processes.
    """

    def __init__(self, federation: Federation, members: list[Member]) -> None:
        self._arms = list(federation.arms)
        self._members = members
        self._edges = [[u, v] for u, v, _ in federation.edges()]
        self._status: dict[str, Any] = dict.fromkeys(member.name for member in members)

    def tell(self) -> dict[str, Any]:
        """For the page."""
        return {"agents": self._status, "edges": self._edges}

    async def ready(self) -> None:
        """Wait until every agent answers.

        Raises:
            ServiceError: if one ends, or takes too long; names its log.
        """
        end = time.monotonic() + PATIENCE
        for member in self._members:
            while not await asyncio.to_thread(self._ask, member):
                if member.process.poll() is not None or time.monotonic() > end:
                    log = member.token.with_suffix(".log")
                    last = log.read_text(encoding="utf-8").strip().splitlines()[-3:]
                    raise ServiceError(f"{member.name} did not start; {log} ends: {last}")
                await asyncio.sleep(0.2)

    async def watch(self) -> None:
        """Ask everyone once a second, for ever."""
        while True:
            began = time.monotonic()
            await asyncio.gather(*[asyncio.to_thread(self._ask, m) for m in self._members])
            await asyncio.sleep(max(1.0 - (time.monotonic() - began), 0.1))

    async def play(self, losses: Losses, pace: float) -> None:
        """Let every agent choose and observe at this pace, for ever."""
        await asyncio.gather(
            *[self._play(v, member, losses, pace) for v, member in enumerate(self._members)]
        )

    async def _play(self, agent: int, member: Member, losses: Losses, pace: float) -> None:
        t = 0
        while True:
            await asyncio.sleep(pace * (0.5 + secrets.randbelow(1000) / 1000))
            t += 1
            with contextlib.suppress(OSError):  # it may be away for a while
                await asyncio.to_thread(self._turn, agent, member, losses, t)

    def _turn(self, agent: int, member: Member, losses: Losses, t: int) -> None:
        with self._client(member) as client:
            ticket = client.ask("/v1/choose", {})
            loss = losses(t, agent, self._arms.index(ticket["arm"]))
            client.ask("/v1/observe", {"ticket": ticket["ticket"], "loss": loss})

    def _ask(self, member: Member) -> bool:
        try:
            with self._client(member) as client:
                self._status[member.name] = client.ask("/v1/status")
        except OSError:
            self._status[member.name] = None
            return False
        return True

    def _client(self, member: Member) -> Client:
        return Client(member.url, member.token.read_text(encoding="utf-8").strip(), timeout=5.0)


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


def private_folder(path: Path) -> None:
    """Make a folder that nobody else may look into."""
    path.mkdir(parents=True, exist_ok=True)
    os.chmod(path, 0o700)  # noqa: PTH101
