"""A stand-in for an agent's service, with the page and events of the tests."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

import fedbandits
from fedbandits.live.agent.status import Neighbour, Status

PAGE = Path(fedbandits.__file__).parent / "live" / "dashboard"
POLICY = "default-src 'self'; style-src 'self'; script-src 'self'"
TOKEN = "open sesame/+%"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class Service:
    """The behaviour of the server, which tests change.

    Attributes:
        event: what is sent next, and again every `period` seconds; or a function that gives it.
        state: "up"; "down", where every connection is closed; "hung", where no event is sent.
        broken_up: whether events come in small pieces, with a comment and other ends of lines.
    """

    def __init__(self, event: Any) -> None:
        self.event = event
        self.state = "up"
        self.period = 0.1
        self.broken_up = False
        self.address = ""

    @property
    def link(self) -> str:
        """The address with the token, as the command line prints it."""
        return f"{self.address}/#token=open%20sesame%2F%2B%25"


class Handler(BaseHTTPRequestHandler):
    service: Service

    def do_GET(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the page has gone
            self.answer()

    def answer(self) -> None:
        if self.service.state == "down":
            return
        if self.path == "/v1/events":
            self.stream()
        else:
            file = PAGE / (self.path.lstrip("/") or "index.html")
            self.head(200 if file.is_file() else 404, TYPES.get(file.suffix, "text/plain"))
            self.wfile.write(file.read_bytes() if file.is_file() else b"")

    def stream(self) -> None:
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.head(401, "text/plain")
            return
        self.head(200, "text/event-stream")
        while self.service.state != "down":
            if self.service.state == "up":
                event = self.service.event() if callable(self.service.event) else self.service.event
                self.send(b"event: status\ndata: %b\n\n" % msgspec.json.encode(event))
            time.sleep(self.service.period)

    def send(self, event: bytes) -> None:
        if self.service.broken_up:
            event = b": a comment\r\n" + event.replace(b"\n", b"\r\n")
        size = 25 if self.service.broken_up else len(event)
        for start in range(0, len(event), size):
            self.wfile.write(event[start : start + size])
            time.sleep(0.002 if self.service.broken_up else 0)

    def head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def serve(event: Any) -> Iterator[Service]:
    service = Service(event)
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"service": service}))
    service.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield service
    finally:
        service.state = "down"
        server.shutdown()
        thread.join()
        server.server_close()


def neighbour(silent_for: float | None = 0.4, **changes: Any) -> Neighbour:
    usual: dict[str, Any] = {
        "weight": 0.25,
        "silent_for": silent_for,
        "left": False,
        "refused": 0,
        "reasons": {},
        "last_refusal": None,
        "disagreement": None if silent_for is None else 0.12,
        "no_link": None,
    }
    return Neighbour(**usual | changes)


def status(name: str = "centre", **changes: Any) -> Status:
    """Return the status of an agent with four neighbours, one of each kind."""
    usual: dict[str, Any] = {
        "name": name,
        "version": "1.2.3",
        "federation_version": 3,
        "algorithm": "FedExp3",
        "arms": ("tea", "coffee", "cocoa"),
        "probabilities": (0.125, 0.25, 0.625),
        "recommended": "cocoa",
        "rounds": 12345,
        "observed": 12000,
        "expired": 45,
        "open_tickets": 300,
        "disagreement": 0.375,
        "gossips": True,
        "agents": 9,
        "gossip_period": 0.5,
        "neighbours": {
            "north": neighbour(),
            "south": neighbour(silent_for=83.0),
            "east": neighbour(left=True, silent_for=600.0),
            "west": neighbour(refused=3, last_refusal="2 arms instead of 3"),
        },
        "uptime": 11_520.0,
        "time": time.time(),
        "certificate_expires": None,
        "authority_expires": None,
        "epsilon": None,
        "baseline": None,
        "losses": None,
    }
    return Status(**usual | changes)


def federation(rows: int, columns: int, arms: int, leading: int = 1) -> dict[str, Any]:
    """Return a grid of agents with `leading` leading arms, whose last agent cannot be reached."""
    names = [f"site-{i:02}" for i in range(rows * columns)]
    edges = [
        (names[r * columns + c], names[(r + down) * columns + c + right])
        for r in range(rows)
        for c in range(columns)
        for down, right in ((0, 1), (1, 0))
        if r + down < rows and c + right < columns
    ]
    agents: dict[str, Status | None] = {
        name: status(
            name,
            agents=len(names),
            disagreement=0.01 * i,
            neighbours={
                b if a == name else a: neighbour(silent_for=83.0 if names[-1] in (a, b) else 0.3)
                for a, b in edges
                if name in (a, b)
            },
            **distribution(arms, i % leading),
        )
        for i, name in enumerate(names)
    }
    return {"agents": agents | {names[-1]: None}, "edges": edges}


def distribution(arms: int, leader: int) -> dict[str, Any]:
    """Return arms of which one leads, with smaller probabilities farther from it."""
    weights = [math.exp(-abs(arm - leader) / 2) for arm in range(arms)]
    names = tuple(f"arm {arm + 1}" for arm in range(arms))
    return {
        "arms": names,
        "probabilities": tuple(weight / sum(weights) for weight in weights),
        "recommended": names[leader],
    }


def plain(event: Any) -> Any:
    """Return an event as plain data."""
    return json.loads(msgspec.json.encode(event))
