"""Own things by name in a configuration: what they build, what each mistake is answered with."""

from __future__ import annotations

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
from fedbandits.common import own_modules
from fedbandits.config.building import build
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.config.document import load_config, read_document
from fedbandits.config.experiment import ConfigError, Experiment
from fedbandits.config.identity import Contents, moved, own_names
from fedbandits.config.own import looking_beside
from fedbandits.config.replacing import refuse_other
from tests.own_things import CONFIG, LEADER, OTHERS, forgotten, own_folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with own_folder(tmp_path) as made:
        yield made


def built(folder: Path, *overrides: str) -> Experiment:
    """Without the checks that play."""
    document = read_document(folder / "own.toml", overrides)
    return build(document.tables, document.source)


def refusal(folder: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        built(folder, *overrides)
    return str(caught.value)


def refused(folder: Path, code: str, name: str, section: str = "algorithm") -> str:
    """The answer to a thing of this code, named in this section."""
    (folder / "leaders.py").write_text(LEADER + OTHERS + code)
    forgotten("leaders")
    return refusal(folder, f'{section}={{name = "{name}"}}')


@pytest.mark.slow
def test_an_own_algorithm_is_played_as_in_python(folder: Path) -> None:
    result = load_config(folder / "own.toml").simulate()
    from leaders import FedLeader  # type: ignore[import-not-found]

    gossip = fb.gossip.max_degree(fb.networks.ring(4))
    problem = fb.problems.activated_bernoulli(4, 3, 20)
    direct = fb.simulate(problem, FedLeader(0.2), gossip, runs=2)
    np.testing.assert_array_equal(result.dataset["regret"], direct.dataset["regret"])
    assert list(result.config["own"]) == ["leaders"]


@pytest.mark.slow
def test_everything_of_ones_own(folder: Path) -> None:
    experiment = load_config(
        folder / "own.toml",
        [
            'problem={name = "leaders:Waves", agents = 6, arms = 3, horizon = 30, period = 7.5}',
            'network={name = "leaders:wheel", spokes = 5}',
            'gossip={name = "leaders:slow", share = 0.5}',
            'algorithm={name = "FedExp3", learning_rate = {name = "leaders:Decaying", c = 0.5}}',
        ],
    )
    assert experiment.simulation.gossip is not None
    assert experiment.simulation.gossip.network is experiment.network
    assert experiment.network is not None
    assert experiment.network.degrees.tolist() == [5, 3, 3, 3, 3, 3]
    result = experiment.simulate()
    assert result.config["problem"]["name"] == "Waves"
    assert result.config["algorithm"]["learning_rate"] == {"name": "Decaying", "c": 0.5}


def test_lists_are_values_where_the_hint_says_so(folder: Path) -> None:
    table = 'problem={name = "leaders:halves", agents = 4, weights = [0.1, 0.9]}'
    document = read_document(folder / "own.toml", [table])
    assert len(document.sweep.cells) == 1
    swept = read_document(folder / "own.toml", [table, "algorithm.exploration=[0.1, 0.2]"])
    assert len(swept.sweep.cells) == 2


def test_own_things_nest(folder: Path) -> None:
    inner = '{name = "leaders:halves", agents = 4, weights = [1.0, 9.0]}'
    made = built(folder, f'problem={{name = "scaled", low = 0, high = 10, problem = {inner}}}')
    assert made.simulation.problem.arms == 2


def test_a_key_that_the_constructor_does_not_take(folder: Path) -> None:
    assert refusal(folder, "algorithm.explorasion=1") == (
        f"{folder / 'own.toml'} [algorithm]: unknown key 'explorasion'; did you mean "
        "'exploration'? Valid: exploration"
    )
    assert "leaders:wheel needs spokes" in refusal(folder, 'network={name = "leaders:wheel"}')


def test_a_module_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PYTHONPATH", "")
    words = refusal(folder, "algorithm.name=leader:FedLeader")
    assert f"there is no module leader in {folder} and where Python looks" in words
    assert "put it into that folder, install it, or name its folder in PYTHONPATH" in words
    (elsewhere / "strays.py").write_text(LEADER)
    monkeypatch.chdir(elsewhere)
    words = refusal(folder, "algorithm.name=strays:FedLeader")
    assert "it is in the current folder, which is not looked into" in words
    assert f'PYTHONPATH={elsewhere}, or write modules = "elsewhere"' in words


def test_the_folder_modules(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "strays.py").write_text(LEADER)
    built(folder, 'modules="src"', "algorithm.name=strays:FedLeader")
    assert "modules is the folder of own modules, a text" in refusal(folder, "modules=3")


def test_a_part_of_a_package(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("from .inside import FedLeader\n")
    (folder / "pack" / "inside.py").write_text(LEADER)
    built(folder, "algorithm.name=pack.inside:FedLeader")
    with looking_beside({}, folder / "own.toml"):
        told = Contents(folder).identity({"algorithm": {"name": "pack:FedLeader"}})
    assert list(told["algorithm"]["name"]["sources"]) == ["pack", "pack.inside"]
    words = refusal(folder, "algorithm.name=pack.missing:FedLeader")
    assert "there is no module pack.missing" in words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_thing\n", "strays imports no_such_thing, which is not installed ("),
        ("1 / 0\n", "importing strays fails: ZeroDivisionError: division by zero ("),
        ("def f(:\n", "importing strays fails: SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "importing strays fails: SystemExit: 3 ("),
    ],
)
def test_a_module_that_cannot_be_imported(folder: Path, code: str, words: str) -> None:
    (folder / "strays.py").write_text(code)
    found = refusal(folder, "algorithm.name=strays:FedLeader")
    assert words in found
    assert "strays.py, line 1" in found
    assert "[algorithm]" in found


def test_a_module_that_another_hides(folder: Path) -> None:
    (folder / "json.py").write_text(LEADER)
    words = refusal(folder, "algorithm.name=json:FedLeader")
    assert f"{folder / 'json'} is hidden by {json.__file__}" in words
    assert "give it another name" in words


def test_a_module_that_is_a_link(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    shared = tmp_path_factory.mktemp("shared") / "strays.py"
    shared.write_text(LEADER)
    (folder / "strays.py").symlink_to(shared)
    built(folder, "algorithm.name=strays:FedLeader")


def test_what_is_not_in_the_module(folder: Path) -> None:
    words = refusal(folder, "algorithm.name=leaders:FedLeeder")
    assert f"leaders ({folder / 'leaders.py'}) has no FedLeeder; did you mean 'FedLeader'?" in words
    assert words.endswith("It has FedLeader")
    words = refusal(folder, 'network={name = "leaders:weel", spokes = 3}')
    assert "has no weel; did you mean 'wheel'?" in words
    (folder / "empty.py").write_text("x = 1\n")
    words = refusal(folder, "algorithm.name=empty:FedLeader")
    assert "Nothing in it is a subclass of fb.Algorithm, a frozen dataclass" in words


def test_a_module_without_a_file(folder: Path) -> None:
    (folder / "bare").mkdir()
    words = refusal(folder, "algorithm.name=bare:FedLeader")
    assert "bare (without a file) has no FedLeader" in words
    assert "sys (without a file) has no FedLeader" in refusal(
        folder, "algorithm.name=sys:FedLeader"
    )


def test_what_is_ours_is_not_own(folder: Path) -> None:
    table = 'problem={name = "fedbandits.problems:bernoulli", means = [0.1, 0.2], horizon = 20}'
    made = built(folder, table.replace("horizon", "agents = 4, horizon"))
    assert own_modules.sources_of(made.simulation.problem) == {}


@pytest.mark.parametrize("name", ["leaders:", ":FedLeader", "leaders.py:FedLeader()", "a/b:C"])
def test_what_is_no_name(folder: Path, name: str) -> None:
    words = refusal(folder, f"algorithm.name='{name}'")
    assert "write it as module:attribute, such as my_package.algorithms:MyLeader" in words


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        ("", "leaders:wheel", "leaders:wheel is a function; it must be a subclass of fb.Algorithm"),
        ("", "leaders:Waves", "leaders:Waves is a class that is no Algorithm; it must be"),
        ("x = 3\n", "leaders:x", "leaders:x is 3 (int); it must be a subclass of fb.Algorithm"),
        (
            "made = FedLeader()\n",
            "leaders:made",
            "Name what makes it, such as leaders:FedLeader, and write its parameters beside",
        ),
        (
            "class Half(fb.Algorithm):\n    def init(self): ...\n",
            "leaders:Half",
            "leaders:Half lacks distribution, update; write them",
        ),
        (
            "class Loose(fb.Algorithm):\n    init = distribution = update = None\n",
            "leaders:Loose",
            "Loose must be a frozen dataclass; write @dataclass(frozen=True) above it",
        ),
        (
            "class FedExp3(FedLeader): ...\n",
            "leaders:FedExp3",
            "leaders:FedExp3: fedbandits has a FedExp3 already; give the class another name",
        ),
        (
            "from fedbandits import Exp3\n",
            "leaders:Exp3",
            'leaders:Exp3: fedbandits has a Exp3 already; write name = "Exp3"',
        ),
        (
            "class Bare(FedLeader):\n    def __init__(self, rate): ...\n",
            "leaders:Bare",
            "leaders:Bare: its parameter rate has no type hint",
        ),
        (
            "class Loose(FedLeader):\n    def __init__(self, **rates: float): ...\n",
            "leaders:Loose",
            "leaders:Loose takes **rates: float, and a configuration gives parameters by their",
        ),
        (
            "class Odd(FedLeader):\n    def __init__(self, rate: 'int | 3' = 1): ...\n",
            "leaders:Odd",
            "the type hints of Odd cannot be read",
        ),
    ],
)
def test_what_is_no_algorithm(folder: Path, code: str, name: str, words: str) -> None:
    found = refused(folder, code, name)
    assert found.startswith(f"{folder / 'own.toml'} [algorithm]")
    assert words in found


@pytest.mark.parametrize(
    ("section", "code", "words"),
    [
        (
            "problem",
            "def make() -> fb.problems.Problem:\n    return {}\n",
            "leaders:make gave {} (dict), not a Problem",
        ),
        (
            "network",
            "def make() -> fb.networks.Network:\n    return 3\n",
            "leaders:make gave 3 (int), not a Network",
        ),
        (
            "network",
            "def make() -> fb.networks.Network:\n"
            "    return fb.networks.Network(4, np.array([[0, 1]]), 'mine', {})\n",
            "of which results could not say what it is; make it with fb.networks.from_edges",
        ),
        (
            "gossip",
            "def make(share: float = 1.0) -> fb.gossip.Gossip: ...\n",
            "leaders:make does not take a network",
        ),
        (
            "gossip",
            "def make(network: fb.networks.Network) -> fb.gossip.Gossip:\n"
            "    return fb.gossip.max_degree(fb.networks.ring(4))\n",
            "is not on the network that it was given, ring(agents=4); make it on that",
        ),
        (
            "gossip",
            "def make(network: fb.networks.Network) -> fb.gossip.Gossip:\n"
            "    return fb.gossip.Gossip(network, 'mine', {}, 0.1)\n",
            "make it with fb.gossip.from_matrix(W, network)",
        ),
        (
            "problem",
            "def make() -> fb.problems.Problem:\n    return {}['x']\n",
            "leaders:make: KeyError: 'x' (",
        ),
        (
            "problem",
            "class make(fb.problems.Problem): ...\n",
            "leaders:make lacks losses; write it",
        ),
    ],
)
def test_what_a_constructor_gives(folder: Path, section: str, code: str, words: str) -> None:
    found = refused(folder, code, "leaders:make", section)
    assert found.startswith(f"{folder / 'own.toml'} [{section}]")
    assert words in found


def test_a_rate_that_is_none(folder: Path) -> None:
    table = '{name = "Exp3", learning_rate = {name = "leaders:wheel", spokes = 3}}'
    words = refusal(folder, f"algorithm={table}")
    assert "it must be a frozen dataclass that is called as rate(t, state)" in words


def test_privacy_and_attacks_have_no_own_things(folder: Path) -> None:
    words = refusal(folder, 'liars.1={name = "leaders:wheel"}')
    assert "unknown name 'leaders:wheel'" in words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'return {"z": state.z}',
            'return {"y": state.z}',
            "FedLeader.message sends ['y'], but its leaves declare ['z']",
        ),
        (
            'return LeaderState(received["z"]',
            'return LeaderState(received["z"].mean(axis=-1, keepdims=True)',
            "FedLeader is not federated: agent",
        ),
        (
            "xp = p.__array_namespace__()",
            "xp = p.__array_namespace__(); p.no_such_attribute",
            "AttributeError: ",
        ),
        (
            "xp = p.__array_namespace__()",
            "xp = p.__array_namespace__(); raise ValueError('no')",
            "no (",
        ),
    ],
)
def test_an_algorithm_that_breaks_the_contract(
    folder: Path, old: str, new: str, words: str
) -> None:
    (folder / "leaders.py").write_text((LEADER + OTHERS).replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_config(folder / "own.toml")
    assert str(caught.value).startswith(
        f"{folder / 'own.toml'}: leaders:FedLeader cannot be played: {words}"
    )
    # The line of own code, where that raised it.
    assert ("leaders.py, line " in str(caught.value)) == ("xp = " in old)
    assert "JAX has removed" not in str(getattr(caught.value, "__notes__", ""))


@pytest.mark.slow
def test_losses_that_are_the_same_in_every_round(folder: Path) -> None:
    code = OTHERS.replace("t / self.period", "0 / self.period")
    (folder / "leaders.py").write_text(LEADER + code)
    table = 'problem={name = "leaders:Waves", agents = 4, arms = 3, horizon = 20}'
    with pytest.raises(ConfigError) as caught:
        load_config(folder / "own.toml", [table])
    assert "leaders:Waves and leaders:FedLeader cannot be played" in str(caught.value)
    assert "If they are meant to be constant" in str(caught.value)


def identity(folder: Path) -> dict[str, object]:
    document = read_document(folder / "own.toml")
    with looking_beside(document.config, document.source):
        return Contents(folder).identity(document.tables)


def test_what_it_is_depends_on_its_source(folder: Path) -> None:
    before = identity(folder)
    assert identity(folder) == before
    (folder / "leaders.py").write_text(LEADER + OTHERS + "# another\n")
    forgotten("leaders")
    assert identity(folder) != before


def test_what_it_is_does_not_depend_on_the_folder(folder: Path, tmp_path: Path) -> None:
    before = identity(folder)
    forgotten("leaders")
    (folder / "src").mkdir()
    (folder / "leaders.py").rename(folder / "src" / "leaders.py")
    (folder / "own.toml").write_text('modules = "src"\n' + CONFIG)
    assert identity(folder) == before


def test_a_module_that_changes_after_it_was_imported(folder: Path) -> None:
    built(folder)
    (folder / "leaders.py").touch()
    built(folder)  # written anew, and the same
    (folder / "leaders.py").write_text(LEADER + OTHERS + "# another\n")
    words = refusal(folder)
    assert f"{folder / 'leaders.py'} was changed after this process had imported it" in words
    (folder / "leaders.py").unlink()
    assert "leaders.py is gone (No such file or directory); put it back" in refusal(folder)


@pytest.mark.slow
def test_a_result_of_another_source_is_not_replaced(folder: Path) -> None:
    experiment = load_config(folder / "own.toml")
    experiment.simulate().save(folder / "own.nc")
    refuse_other([folder / "own.nc"], experiment)
    (folder / "leaders.py").write_text(LEADER + OTHERS + "# another\n")
    forgotten("leaders")
    with pytest.raises(FileExistsError, match="the source of leaders differs"):
        refuse_other([folder / "own.nc"], load_config(folder / "own.toml"))


def test_a_configuration_moved(folder: Path) -> None:
    config = read_document(folder / "own.toml").tables
    assert moved(config, folder, folder / "out")["modules"] == ".."
    assert own_names(config) == ["leaders:FedLeader"]
    assert "modules" not in moved({"algorithm": {"name": "Exp3"}}, folder, folder / "out")


def test_lists_import_nothing(folder: Path) -> None:
    """What only lists runs no code of anybody's."""
    for section in REGISTRIES:
        assert not any(":" in name for name in REGISTRIES[section])
    code = "import sys; from fedbandits.cli.commands import app; app()"
    (folder / "leaders.py").write_text("raise SystemExit('imported')\n")
    here = {**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-c", code, "list"], cwd=folder, env=here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "FedExp3" in done.stdout


def test_sources_of_what_is_not_ours(folder: Path) -> None:
    assert own_modules.sources_of(fb.FedExp3()) == {}
    with looking_beside({}, folder / "own.toml"):
        module = own_modules.load("leaders")
    rate = fb.FedExp3(lambda t, state: 0.1)
    assert own_modules.sources_of(rate) == {}
    assert list(own_modules.sources_of(fb.FedExp3(module.Decaying(0.1)))) == ["leaders"]


@pytest.mark.slow
def test_commands(folder: Path) -> None:
    config = str(folder / "own.toml")
    plain = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner(env=plain).invoke(app, ["bounds", config])
    assert done.exit_code == 0, done.output
    assert "FedLeader" in done.output
    done = CliRunner(env=plain).invoke(app, ["run", config, "--set", "algorithm.name=leaders:No"])
    assert done.exit_code == 2
    assert "[algorithm]" in done.output
    assert "has no No" in done.output
    assert "Traceback" not in done.output
