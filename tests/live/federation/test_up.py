"""`fedbandits live`: a whole federation in one command, keys, an agent and its status."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.config.experiment import ConfigError
from fedbandits.live.operations.client import Client
from fedbandits.live.operations.site import read_site
from tests.tiers import soak_but

from .processes import warnings_in

ROOT = Path(__file__).parents[3]
PAPER = """
arms = ["a", "b", "c", "d", "e"]
gossip_period = 0.2

[network]
name = "grid"
rows = 3
cols = 3

[demo]
name = "activated_bernoulli"
agents = 9
arms = 5
horizon = 2000
"""


@pytest.mark.slow
@pytest.mark.parametrize("paper", soak_but([False], [False, True]))
def test_up(tmp_path: Path, paper: bool) -> None:
    """Nine agents in nine processes; the page is there at once, and arms come to agree."""
    file = ROOT / "examples" / "federation.toml"
    if paper:
        file = tmp_path / "paper.toml"
        file.write_text(PAPER)
    folder = tmp_path / "up"
    up = subprocess.Popen(
        [
            *(sys.executable, "-m", "fedbandits", "live", "up", str(file)),
            *("--folder", str(folder), "--pace", "0.1"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        found = re.search(r"(http://\S+)/#token=(\S+)", up.stdout.readline())
        assert found is not None
        with Client(found[1], found[2]) as page:
            end, agreed, told = time.monotonic() + 90, False, dict[str, Any]()
            while not agreed:
                assert time.monotonic() < end, f"no agreement: {told}"
                time.sleep(1)
                told = page.ask("/v1/federation")
                statuses = list(told["agents"].values())
                leading = {each["recommended"] for each in statuses if each is not None}
                played = all(each is not None and each["rounds"] > 30 for each in statuses)
                agreed = played and len(leading) == 1
            assert len(told["edges"]) == 12
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(30) == 0
        if up.stdout is not None:
            up.stdout.close()
    assert warnings_in(folder) == []


@pytest.mark.slow
def test_up_without_a_demo_says_where_to_choose(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text('arms = ["a", "b"]\n[network]\nname = "path"\nagents = 2\n')
    words = ["-m", "fedbandits", "live", "up", str(file), "--folder", str(tmp_path / "up")]
    up = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        said = [up.stdout.readline() for _ in range(5)]
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(30) == 0
        if up.stdout is not None:
            up.stdout.close()
    assert "has no [demo]: nobody chooses until you do" in said[1]
    found = re.search(r"agent2: (http://127.0.0.1:\d+), token in (.+)\n", said[3])
    assert found is not None
    assert Path(found[2]).exists()


def write(folder: Path, **other: str) -> Path:
    (folder / "federation.toml").write_text(
        'arms = ["a", "b"]\n[network]\nname = "path"\nagents = 2\n'
    )
    lines = {"name": '"agent1"', "federation": '"federation.toml"', "keys": '"keys/agent1"'} | other
    file = folder / "agent.toml"
    file.write_text("\n".join(f"{k} = {v}" for k, v in lines.items() if v))
    return file


def test_a_site_is_read(tmp_path: Path) -> None:
    file = write(tmp_path, service='{address = "127.0.0.1:8080", baseline = "a"}')
    site = read_site(file)
    assert (site.journal, site.keys) == (tmp_path / "agent1.db", tmp_path / "keys" / "agent1")
    assert site.service is not None
    assert (site.service.address, site.service.baseline) == ("127.0.0.1:8080", "a")
    assert site.part.neighbours == {"agent2": 0.5}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"name": '"agent9"'}, "no member 'agent9'; did you mean"),
        ({"name": ""}, "no name; add name"),
        ({"federation": ""}, "no federation; add federation"),
        ({"keys": ""}, "fedbandits live keys"),
        ({"jornal": '"x"'}, "unknown key 'jornal'; did you mean 'journal'"),
        ({"service": '{adress = "x"}'}, "unknown key 'adress'; did you mean 'address'"),
        ({"addresses": '{agnt2 = "x:1"}'}, "address of 'agnt2'; did you mean 'agent2'"),
        ({"addresses": '{agent2 = "x:99999"}'}, "'agent2' must be host:port, not 'x:99999'"),
    ],
)
def test_a_bad_site_is_told_where_and_why(tmp_path: Path, other: dict[str, str], why: str) -> None:
    file = write(tmp_path, **other)
    with pytest.raises(ConfigError, match=why) as error:
        read_site(file)
    assert str(file) in str(error.value)


def test_keys_are_made_renewed_and_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path)
    arguments = ["live", "keys", str(tmp_path / "federation.toml"), "--out", str(tmp_path / "keys")]
    run = CliRunner().invoke
    assert run(app, arguments).exit_code == 0
    before = (tmp_path / "keys" / "agent1" / "cert.pem").read_bytes()
    assert run(app, arguments).exit_code != 0
    assert run(app, [*arguments, "--renew", "agent1"]).exit_code == 0
    assert (tmp_path / "keys" / "agent1" / "cert.pem").read_bytes() != before
    assert {p.name for p in (tmp_path / "keys" / "agent2").iterdir()} == {
        "ca.pem", "cert.pem", "key.pem",
    }  # fmt: skip
