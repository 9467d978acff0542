"""A federation that plays an own algorithm: rehearsed, and as one member's machine runs it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.commands import app
from fedbandits.config.experiment import ConfigError
from fedbandits.live.federation.demo import demo_losses
from fedbandits.live.operations.local_cluster import write_sites
from fedbandits.live.operations.site import read_site
from tests.own_things import LEADER, forgotten, own_folder

FEDERATION = """
arms = ["tea", "coffee", "cocoa"]
members = ["north", "centre", "south"]
links = [["north", "centre"], ["centre", "south"]]

[algorithm]
name = "leaders:FedLeader"
exploration = 0.3
"""


ALLOWED = ["leaders"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A federation's file, and the module that it names on the path."""
    (tmp_path / "path").mkdir()
    path = f"{tmp_path / 'path'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    monkeypatch.setenv("PYTHONPATH", path)
    with own_folder(tmp_path / "path"):
        monkeypatch.syspath_prepend(str(tmp_path / "path"))
        (tmp_path / "federation.toml").write_text(FEDERATION)
        yield tmp_path / "federation.toml"


@pytest.mark.slow
def test_a_rehearsal_is_the_simulation(file: Path) -> None:
    shops = fb.live.Federation.read(file, allow_modules=ALLOWED)
    # Losses of 0 and 1 would make arms equal but for rounding, and a leader of either.
    problem = fb.problems.from_tensor(np.random.default_rng(0).uniform(size=(40, 3, 3)))
    live = fb.live.rehearse(problem, shops, lockstep=True)
    assert isinstance(shops.gossip, fb.gossip.Gossip)
    played = fb.simulate(problem, shops.algorithm, shops.gossip, runs=1, dtype="float64")
    np.testing.assert_allclose(
        live.dataset["regret"].to_numpy(), played.dataset["regret"].to_numpy(), atol=1e-9
    )


def test_a_member_plays_it(file: Path) -> None:
    agent_file = file.with_name("centre.toml")
    agent_file.write_text(
        'name = "centre"\nfederation = "federation.toml"\nkeys = "keys"\n'
        'allow_modules = ["leaders"]\n'
    )
    site = read_site(agent_file)
    assert type(site.part.algorithm).__name__ == "FedLeader"

    async def turn() -> str:
        async with fb.live.Agent("centre", site.part, site.journal) as agent:
            ticket = await agent.choose()
            await agent.observe(ticket.id, 0.5)
            return ticket.arm

    assert asyncio.run(turn()) in ("tea", "coffee", "cocoa")


def test_an_algorithm_that_cannot_live_apart(file: Path) -> None:
    halved = LEADER.replace('LeaderState(received["z"]', 'LeaderState(received["z"] ** 2')
    (file.parent / "path" / "leaders.py").write_text(halved)
    forgotten("leaders")
    with pytest.raises(ConfigError, match="FedLeader cannot live apart"):
        fb.live.Federation.read(file, allow_modules=ALLOWED)


def test_a_module_that_is_not_there(file: Path) -> None:
    file.write_text(FEDERATION.replace("leaders:", "leeders:"))
    with pytest.raises(ConfigError, match=r"federation\.toml \[algorithm\]: there is no module"):
        fb.live.Federation.read(file, allow_modules=["leeders"])


@pytest.mark.parametrize(
    "command",
    [
        ["keys", "federation.toml", "--out", "keys"],
        ["join", "federation.toml", "west", "--link", "north"],
        ["leave", "federation.toml", "south"],
    ],
)
def test_commands_that_are_allowed_to_import_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(file.parent)
    assert CliRunner().invoke(app, ["live", *command]).exit_code == 2
    done = CliRunner().invoke(app, ["live", *command, "--allow-module", "leaders"])
    assert done.exit_code == 0, done.output


def test_a_demonstration_allows_it_to_its_members(file: Path, tmp_path: Path) -> None:
    shops = fb.live.Federation.read(file, allow_modules=ALLOWED)
    with write_sites(shops, file, tmp_path, ALLOWED):
        site = read_site(tmp_path / "north.toml")
    assert type(site.part.algorithm).__name__ == "FedLeader"


def test_files_of_own_gossip_are_seen_from_the_federations(file: Path) -> None:
    with (file.parent / "path" / "leaders.py").open("a") as module:
        module.write(
            "\n\nfrom pathlib import Path\n\n"
            "def read(network: fb.networks.Network, path: Path) -> fb.gossip.Gossip:\n"
            "    return getattr(fb.gossip, path.read_text())(network)\n"
        )
    file.with_name("weights.txt").write_text("max_degree")
    file.write_text(FEDERATION + '[gossip]\nname = "leaders:read"\npath = "weights.txt"\n')
    found = fb.live.Federation.read(file, allow_modules=ALLOWED).gossip
    assert isinstance(found, fb.gossip.Gossip)
    assert found.rule == "max_degree"


def test_own_losses_of_a_demonstration(file: Path) -> None:
    shops = fb.live.Federation.read(file, allow_modules=ALLOWED)
    demo = {"name": "leaders:Waves", "agents": 3, "arms": 3, "horizon": 20}
    assert 0 <= demo_losses(shops, demo, allow_modules=ALLOWED)(1, 0, 2) <= 1


@pytest.mark.slow
def test_a_process_runs_it(file: Path) -> None:
    alone = FEDERATION.replace('"north", "centre", "south"', '"north"')
    alone = alone.replace('[["north", "centre"], ["centre", "south"]]', "[]")
    file.write_text(alone)
    file.with_name("north.toml").write_text(
        'name = "north"\nfederation = "federation.toml"\nallow_modules = ["leaders"]\n'
    )
    command = [sys.executable, "-m", "fedbandits", "live", "agent", str(file.parent / "north.toml")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert json.loads(line)["message"] == "north runs"
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0
