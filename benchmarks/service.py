"""What a choice costs over HTTP: on disk before it is answered, as an application asks for it."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from time import process_time
from typing import NamedTuple

import fedbandits as fb
from benchmarks.rows import Measure, Measured, NotInstalled
from fedbandits.common.extras import installed
from fedbandits.live.service.guard import WITH_TOKEN

CLIENTS = 16
PAIRS = 2_400
"""Of a repeat. With those before it they are fewer requests than the service takes of one address
in an instant, so that no machine is too quick for its limit."""
REFILLED = 1.0
"""Seconds until that many are taken again."""
GOAL_PAIR = 1e6 / 1500
GOAL_LATENCY = 20.0

ASK = """
import asyncio, json, sys, time
host, port, token, pairs, clients = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
took = []

async def ask(reader, writer, path, body):
    began = time.perf_counter()
    content = json.dumps(body).encode()
    writer.write(
        f"POST {path} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nAuthorization: Bearer {token}\\r\\n"
        f"Content-Type: application/json\\r\\nContent-Length: {len(content)}\\r\\n\\r\\n".encode()
        + content
    )
    head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
    assert head.startswith(b"http/1.1 200"), head
    length = int(head.partition(b"content-length: ")[2].partition(b"\\r\\n")[0])
    answer = json.loads(await reader.readexactly(length))
    took.append(time.perf_counter() - began)
    return answer

async def client(pairs):
    reader, writer = await asyncio.open_connection(host, port)
    for _ in range(pairs):
        chosen = await ask(reader, writer, "/v1/choose", {})
        await ask(reader, writer, "/v1/observe", {"ticket": chosen["ticket"], "loss": 0.5})
    writer.close()

async def main(pairs, clients):
    await asyncio.gather(*[client(2) for _ in range(clients)])
    took.clear()
    began = time.perf_counter()
    await asyncio.gather(*[client(pairs // clients) for _ in range(clients)])
    seconds = time.perf_counter() - began
    took.sort()
    print(json.dumps([seconds / (pairs // clients * clients), took[int(0.99 * len(took))]]))

asyncio.run(main(int(pairs), int(clients)))
"""
"""Clients that keep their connections, in a process of their own."""


class Played(NamedTuple):
    """One repeat.

    Attributes:
        pair: seconds of a choice and its observation.
        latency: of a request, the 99th percentile, in seconds.
        work: seconds of CPU of the agent's process, of a pair.
    """

    pair: float
    latency: float
    work: float


def measures(quick: bool) -> list[Measure]:
    """One agent on this machine's disk, K=20, and clients beside it."""
    pairs, n = (64, 1) if quick else (PAIRS, 5)
    return [
        Measure("live/HTTP, 16 clients", "µs a pair", lambda: _pairs(pairs, n)),
        Measure("live/HTTP, 16 clients, p99", "ms a request", lambda: _latency(pairs, n)),
    ]


def _pairs(pairs: int, n: int) -> Measured:
    played = _play(pairs, n)
    taken = tuple(each.pair * 1e6 for each in played)
    work = min(each.work for each in played) * 1e6
    note = f"{1e6 / min(taken):,.0f} pairs a second; {work:.0f} µs of CPU; {_parser()}"
    return Measured(min(taken), taken, GOAL_PAIR, note=note)


def _latency(pairs: int, n: int) -> Measured:
    taken = tuple(each.latency * 1e3 for each in _play(pairs, n))
    return Measured(min(taken), taken, GOAL_LATENCY, note=f"the best of {n} runs; {_parser()}")


def _parser() -> str:
    return f"parsed by {'httptools' if installed('httptools') else 'h11'}"


@cache
def _play(pairs: int, n: int) -> list[Played]:
    """Once for both rows."""
    for package in ("starlette", "uvicorn", "prometheus_client"):
        if not installed(package):
            raise NotInstalled(f"{package}, on which the service rests")
    return asyncio.run(_served(pairs, n))


async def _served(pairs: int, n: int) -> list[Played]:
    assert 2 * (pairs + 2 * CLIENTS) <= WITH_TOKEN.each
    federation = fb.live.Federation([f"arm{i}" for i in range(20)], fb.networks.path(1))
    played = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        agent = fb.live.Agent("agent1", federation, f"{folder}/agent.db")
        service = await fb.live.serve(agent, token_file=f"{folder}/token")
        async with agent, service:
            host, port = service.url.removeprefix("http://").split(":")
            for repeat in range(n):
                await asyncio.sleep(REFILLED if repeat else 0)
                began = process_time()
                asking = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", ASK, host, port, service.token),
                    *(str(pairs), str(CLIENTS)),
                    stdout=asyncio.subprocess.PIPE,
                )
                output, _ = await asking.communicate()
                if asking.returncode:
                    raise RuntimeError(f"the clients ended with {asking.returncode}")
                work = (process_time() - began) / pairs
                pair, latency = json.loads(output)
                played.append(Played(pair, latency, work))
    return played
