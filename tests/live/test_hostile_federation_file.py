"""The file of a federation is data: it runs no code at sites or on the operator's machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedbandits as fb
from fedbandits.cli.commands import app
from fedbandits.config.experiment import ConfigError
from fedbandits.live.federation.demo import demo_losses
from fedbandits.live.operations.local_cluster import start_member
from tests.own_things import imported_for_a_while

MODULE = """
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import fedbandits as fb

(Path(__file__).parent / "imported").touch()


def strike(marker: str) -> None:
    Path(marker).touch()


def network(agents: int, marker: str) -> fb.networks.Network:
    strike(marker)
    return fb.networks.ring(agents)


ready = partial(network, 3)


@dataclass(frozen=True)
class Loud:
    marker: str

    def __post_init__(self):
        strike(self.marker)
"""
"""The content of two modules: one in the folder of the file, and one where Python looks."""

HEAD = 'arms = ["tea", "coffee"]\nmembers = ["north", "south"]\n'
LINKS = 'links = [["north", "south"]]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with a module, and a path with an installed module."""
    for name in ("nearby.py", "path/installed.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    with imported_for_a_while(tmp_path):
        yield tmp_path


def attacks(module: str, folder: Path) -> dict[str, str]:
    """Return files that name a callable, in every place where a name can stand."""
    marker = f"{folder}/struck"
    call = f'{{name = "{module}:strike", marker = "{marker}"}}'
    made = f'{{name = "{module}:network", agents = 2, marker = "{marker}"}}'
    loud = f'{{name = "{module}:Loud", marker = "{marker}"}}'
    return {
        "network": f"network = {call}",
        "network that returns one": f"network = {made}",
        "partial": f"network = {call.replace('strike', 'ready')}",
        "gossip": f"{LINKS}gossip = {call}",
        "gossip in gossip": f'{LINKS}gossip = {{name = "clipped", limit = 1, gossip = {call}}}',
        "algorithm": f"{LINKS}algorithm = {call}",
        "rate": f'{LINKS}algorithm = {{name = "FedExp3", learning_rate = {call}}}',
        "rate of a class": f'{LINKS}algorithm = {{name = "FedExp3", exploration = {loud}}}',
        "builtin": f'network = {{name = "os:system", command = "touch {marker}"}}',
        "class": f'network = {{name = "subprocess:Popen", args = ["touch", "{marker}"]}}',
        "editor": f'network = {{name = "click:edit", editor = "touch {marker}", filename = "z"}}',
    }


PLACES = [*attacks("", Path())]


def nothing_ran(folder: Path) -> None:
    assert not (folder / "struck").exists()
    assert not (folder / "imported").exists()
    assert not (folder / "path" / "imported").exists()
    assert not {"nearby", "installed"} & sys.modules.keys()
    assert str(folder) not in sys.path


COMMANDS = {
    "keys": ["keys", "federation.toml", "--out", "keys"],
    "join": ["join", "federation.toml", "west", "--link", "north"],
    "leave": ["leave", "federation.toml", "south"],
    "up": ["up", "federation.toml"],
    "agent": ["agent", "agent.toml"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("module", ["nearby", "installed"])
@pytest.mark.parametrize("place", PLACES)
def test_no_command_calls_or_imports_what_the_file_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, module: str, command: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "federation.toml").write_text(HEAD + attacks(module, folder)[place])
    (folder / "agent.toml").write_text('name = "north"\nfederation = "federation.toml"\n')
    done = CliRunner().invoke(app, ["live", *COMMANDS[command]])
    nothing_ran(folder)
    assert done.exit_code == 2, done.output
    assert "federation.toml [" in done.output
    assert "allow" in done.output


@pytest.mark.parametrize("name", ["nearby:Losses", "installed:Losses", "installed:strike"])
def test_a_demonstration_imports_nothing(folder: Path, name: str) -> None:
    path = folder / "federation.toml"
    path.write_text(HEAD + LINKS)
    shops = fb.live.Federation.read(path)
    for demo in (
        {"name": name},
        {"name": "scaled", "low": 0, "high": 1, "problem": {"name": name}},
    ):
        with pytest.raises(ConfigError, match="allow"):
            demo_losses(shops, demo, folder)
    nothing_ran(folder)


def test_only_allowed_modules_are_imported(folder: Path) -> None:
    """Allowing a module allows no other, nor a module inside it; it must be where Python looks."""
    path = folder / "federation.toml"
    path.write_text(f'{HEAD}{LINKS}algorithm = {{name = "installed:FedLeader"}}\n')
    for allowed in ([], ["install"], ["installed.more"], ["*"], [""]):
        with pytest.raises(ConfigError, match=r"\[algorithm\]: .*'installed'.*allow"):
            fb.live.Federation.read(path, allow_modules=allowed)
        nothing_ran(folder)
    with pytest.raises(ConfigError, match=r"installed .* has no FedLeader"):
        fb.live.Federation.read(path, allow_modules=["installed"])
    with pytest.raises(TypeError, match="allow_modules must be a list of names"):
        fb.live.Federation.read(path, allow_modules="installed")
    # Others may write to the folder of the file.
    path.write_text(f'{HEAD}{LINKS}algorithm = {{name = "nearby:FedLeader"}}\n')
    with pytest.raises(ConfigError, match="there is no module nearby where Python looks"):
        fb.live.Federation.read(path, allow_modules=["nearby"])
    assert "nearby" not in sys.modules


@pytest.mark.parametrize("name", ["installed:strike", "installed:ready", "installed:Loud"])
@pytest.mark.parametrize("place", ["network", "gossip", "algorithm", "rate"])
def test_allowed_callables_are_checked_before_they_are_called(
    folder: Path, name: str, place: str
) -> None:
    path = folder / "federation.toml"
    text = attacks("installed", folder)[place].replace("installed:strike", name)
    path.write_text(HEAD + text)
    with pytest.raises(ConfigError, match=f"{name} .*; it must be"):
        fb.live.Federation.read(path, allow_modules=["installed"])
    assert not (folder / "struck").exists()


@pytest.mark.slow
def test_members_import_nothing_from_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` imports from the current folder first, which may be the federation's."""
    (folder / "msgspec.py").write_text(
        f"from pathlib import Path; Path({str(folder / 'struck')!r}).touch()"
    )
    monkeypatch.chdir(folder)
    member = start_member("north", "http://127.0.0.1:1", folder)  # whose file is not there
    assert member.process.wait(60) != 0
    assert "no configuration file at" in (folder / "north.log").read_text()
    nothing_ran(folder)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            'name = "ring"\nagents = 1001',
            "at most 1,000 agents, not 1,001; write members and links",
        ),
        ('name = "grid"\nrows = 100\ncols = 11', "at most 1,000 agents, not 1,100; write members"),
        ('name = "two_clusters"\ncluster = 3000\npath = 0', "at most 1,000 agents, not 3,000"),
        ('name = "two_clusters"\ncluster = 600\npath = 1', "at most 1,000 agents, not 1,201"),
        ('name = "erdos_renyi"\nagents = 3000000\nprobability = 0', "agents, not 3,000,000"),
        ('name = "complete"\nagents = 1000000000', "at most 1,000 agents, not 1,000,000,000"),
        (
            'name = "read_graphml"\npath = "/etc/hosts"',
            "'/etc/hosts' is outside the folder of this",
        ),
        ('name = "read_graphml"\npath = "a/../../b"', "'a/../../b' is outside the folder of this"),
    ],
)
def test_networks_that_are_too_large_or_outside_the_folder(
    folder: Path, text: str, why: str
) -> None:
    path = folder / "federation.toml"
    path.write_text(f'arms = ["a", "b"]\n[network]\n{text}\n')
    with pytest.raises(ConfigError, match=why) as caught:
        fb.live.Federation.read(path)
    assert f"{path} [network]" in str(caught.value)


@pytest.mark.parametrize(
    ("demo", "why"),
    [
        (
            {"name": "cdn", "agents": 3},
            "demo: agents = 3, but the federation has 2; make them equal",
        ),
        ({"name": "cdn", "arms": 10**9}, "demo: arms = 1000000000, but the federation has 2; make"),
        (
            {"name": "activated_bernoulli", "agents": 2, "arms": 2, "horizon": 10**8},
            "demo: 400,000,000 losses are too many; choose a horizon of at most 25,000,000",
        ),
        ({"name": "from_table", "table": "/etc/hosts"}, "is outside the folder of this file"),
    ],
)
def test_demonstrations_that_are_too_large_or_outside_the_folder(
    folder: Path, demo: dict[str, object], why: str
) -> None:
    path = folder / "federation.toml"
    path.write_text(HEAD + LINKS)
    with pytest.raises(ValueError, match=why):
        demo_losses(fb.live.Federation.read(path), demo, folder)
