"""Four sites in processes: one member joins, one leaves, and each site gets the file in turn."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.live import Federation, read_journal
from fedbandits.live.operations.local_cluster import (
    MemberProcess,
    reserved_ports,
    start_member,
    stop_members,
)
from tests.salt import SALT

from .processes import ask, wait_for
from .test_chaos import mass_error

FILE = """\
# Who sells what is in the cellar.
arms = ["tea", "coffee", "cocoa"]
members = ["north", "east", "south", "west"]
links = [
    ["north", "east"],
    ["north", "south"],
    ["east", "south"],
    ["south", "west"],
]
gossip_period = 0.2

[addresses]
"""
FILE_MEMBERS = ("north", "east", "south", "west")
PATIENCE = 60.0


class Sites:
    """A folder for each site, with its last file, and an operator's folder."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.folder = folder
        self.file = folder / "operator" / "federation.toml"
        self.file.parent.mkdir()
        self.ports = ports
        addresses = [f'{name} = "127.0.0.1:{self.ports.pop()}"' for name in FILE_MEMBERS]
        self.file.write_text(FILE + "\n".join(addresses) + "\n")
        self.command("keys", "--out", str(self.file.parent / "keys"))
        self.running: dict[str, MemberProcess] = {}

    def command(self, name: str, *more: str) -> None:
        done = CliRunner().invoke(app, ["live", name, str(self.file), *more])
        assert done.exit_code == 0, done.output

    def give(self, name: str) -> None:
        """Copy the file to a site and restart its agent; stop it if it is no longer a member."""
        place = self.folder / name
        if name in self.running:
            stop_members([self.running.pop(name)])
        if name not in Federation.read(self.file).members:
            return
        if not place.exists():
            shutil.copytree(self.file.parent / "keys" / name, place / "keys")
            port = self.ports.pop()
            (place / f"{name}.toml").write_text(
                f'name = "{name}"\nfederation = "federation.toml"\nkeys = "keys"\n'
                f'[service]\naddress = "127.0.0.1:{port}"\n'
            )
            (place / "url").write_text(f"http://127.0.0.1:{port}")
        shutil.copy(self.file, place / "federation.toml")
        self.running[name] = start_member(name, (place / "url").read_text(), place)
        wait_for(self.running[name])

    def play(self, rounds: int) -> None:
        for t in range(rounds):
            for member in self.running.values():
                ticket = ask(member, "/v1/choose", {})
                loss = (t * 0.37) % 1.0
                ask(member, "/v1/observe", {"ticket": ticket["ticket"], "loss": loss})

    def status(self) -> dict[str, Any]:
        return {name: ask(member, "/v1/status") for name, member in self.running.items()}

    def wait(self, what: str, done: Any) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while not done(found := self.status()):
            assert time.monotonic() < end, f"not {what}: {found}"
            time.sleep(0.3)
        return found


@contextmanager
def sites(folder: Path) -> Iterator[Sites]:
    with reserved_ports(10) as ports:
        found = Sites(folder, ports)
        try:
            yield found
        finally:
            stop_members(list(found.running.values()))


def all_heard(found: dict[str, Any]) -> bool:
    silent = [each["silent_for"] for one in found.values() for each in one["neighbours"].values()]
    return all(each is not None and each < 3 for each in silent)


def at_one(found: dict[str, Any]) -> bool:
    return all_heard(found) and max(one["disagreement"] for one in found.values()) < 1e-10


def of_other_files(status: dict[str, Any], name: str) -> int:
    return int(status["neighbours"][name]["reasons"].get("file", 0))


@pytest.mark.soak
def test_one_joins_and_one_leaves(tmp_path: Path) -> None:
    order = ["north", "east", "south", "west", "centre"]
    random.Random(SALT).shuffle(order)
    with sites(tmp_path) as world:
        for name in FILE_MEMBERS:
            world.give(name)
        world.play(5)
        world.wait("heard", all_heard)
        assert ask(world.running["west"], "/v1/status")["gossip_period"] == 0.2
        old = Federation.read(world.file)
        address = f"127.0.0.1:{world.ports.pop()}"
        world.command("join", "centre", "--link", "west", "--link", "north", "--address", address)
        keys = str(world.file.parent / "keys")
        world.command("keys", "--out", keys, "--add", "centre")
        world.command("leave", "east")
        new = Federation.read(world.file)
        assert (old.version, new.version) == (1, 3)
        # The edges that stay are north-south and south-west, and both weigh more than before.
        stay = [
            pair
            for pair in (("north", "south"), ("south", "west"))
            if old.part(pair[0]).neighbours[pair[1]] != new.part(pair[0]).neighbours[pair[1]]
        ]
        assert len(stay) == 2
        for name in order:
            world.give(name)
            world.play(2)
            has_new = {n for n, one in world.status().items() if one["federation_version"] == 3}
            for one, other in stay:
                if len({one, other} & has_new) == 1:
                    world.wait(
                        f"refused by {one} and {other}",
                        lambda found, one=one, other=other: (
                            of_other_files(found[one], other) > 0
                            and of_other_files(found[other], one) > 0
                        ),
                    )
        world.play(3)
        found = world.wait("at one", at_one)
        assert {name: set(one["neighbours"]) for name, one in found.items()} == {
            name: set(new.part(name).neighbours) for name in new.members
        }
        later = world.wait("at one", at_one)
        for one, other in stay:  # nobody refuses any more
            assert of_other_files(later[one], other) == of_other_files(found[one], other)
    journals = {name: read_journal(tmp_path / name / f"{name}.db") for name in new.members}
    assert mass_error(journals) <= 1e-9
    # East was stopped, and its journal is complete.
    assert read_journal(tmp_path / "east" / "east.db").saved.state is not None
    logs = [
        line
        for name in FILE_MEMBERS
        for line in (tmp_path / name / f"{name}.log").read_text().splitlines()
    ]
    assert any("has another file of the federation" in line for line in logs)
