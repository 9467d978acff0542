"""`fedbandits live up`: a whole federation in one command."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.live.operations.client import Client
from fedbandits.live.operations.local_cluster import reserved_ports

from .processes import warnings_in

EXAMPLE = Path(__file__).parents[3] / "examples" / "federation.toml"


@contextmanager
def up(file: Path, *options: str | Path) -> Iterator[IO[str]]:
    """Run `live up` on a file; yield its output."""
    words = ["-m", "fedbandits", "live", "up", str(file), *map(str, options)]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        try:
            yield output
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0


def page_of(output: IO[str]) -> Client:
    """Return a client of the dashboard that the first line of the output names."""
    found = re.search(r"(http://\S+)/#token=(\S+)", output.readline())
    assert found is not None
    return Client(found[1], found[2])


def wait_for(page: Client, done: Callable[[list[Any]], bool]) -> Any:
    """Wait until all agents respond and a condition on their statuses is true."""
    end = time.monotonic() + 120
    while True:
        view = page.ask("/v1/federation")
        statuses = list(view["agents"].values())
        if all(statuses) and done(statuses):
            return view
        assert time.monotonic() < end, view
        time.sleep(0.5)


@pytest.mark.slow
def test_up(tmp_path: Path) -> None:
    """Nine agents in nine processes come to agree; the page is there at once."""

    def agree(statuses: list[Any]) -> bool:
        played = min(each["rounds"] for each in statuses) > 30
        return played and len({each["recommended"] for each in statuses}) == 1

    folder = tmp_path / "up"
    with up(EXAMPLE, "--folder", folder, "--pace", "0.1") as output, page_of(output) as page:
        assert len(wait_for(page, agree)["edges"]) == 12
    assert warnings_in(folder) == []


@pytest.mark.slow
def test_up_without_a_demo_says_where_to_choose(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text('arms = ["a", "b"]\n[network]\nname = "path"\nagents = 2\n')
    with up(file, "--folder", tmp_path / "up") as output:
        lines = [output.readline() for _ in range(5)]
    assert "has no [demo]; choose and observe by the services" in lines[1]
    found = re.search(r"agent2: (http://127.0.0.1:\d+), token in (.+)\n", lines[3])
    assert found is not None
    assert Path(found[2]).exists()


def test_keys_are_made_renewed_and_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text('arms = ["a", "b"]\n[network]\nname = "path"\nagents = 2\n')
    arguments = ["live", "keys", str(file), "--out", str(tmp_path / "keys")]
    run = CliRunner().invoke
    assert run(app, arguments).exit_code == 0
    certificate = tmp_path / "keys" / "agent1" / "cert.pem"
    before = certificate.read_bytes()
    assert run(app, arguments).exit_code != 0
    assert run(app, [*arguments, "--renew", "agent1"]).exit_code == 0
    assert certificate.read_bytes() != before


def test_reserved_ports_are_for_their_servers_alone() -> None:
    with reserved_ports(3) as ports:
        assert len(set(ports)) == 3
        for port in [*ports, *ports]:  # also a server that was killed, and comes back
            with (
                socket.create_server(("127.0.0.1", port)) as server,
                socket.create_connection(("127.0.0.1", port)) as client,
            ):
                met, address = server.accept()
                met.close()
                assert address == client.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]))
    with reserved_ports(1) as ports:
        if sys.platform == "linux":
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", ports[0]))
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
