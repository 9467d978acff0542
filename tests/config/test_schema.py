"""The schema of configurations: examples fit it, mistakes do not, and it knows what we know."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedbandits.cli.commands import app
from fedbandits.config.building import construct
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.config.experiment import ConfigError, Place
from fedbandits.config.schema import SMALLEST, configuration_schema
from fedbandits.live.federation.federation_file import KEYS, RULES, federation_schema
from fedbandits.live.operations.agent_file import agent_schema
from fedbandits.networks import ring
from tests.accepted import faults
from tests.instances import SMALL_CONFIG

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.toml")), ids=lambda path: path.name)
def test_examples_fit(path: Path) -> None:
    config = tomllib.loads(path.read_text(encoding="utf-8"))
    make = federation_schema if "arms" in config else configuration_schema
    assert faults(make, config) == []


def blocks(page: str) -> list[str]:
    """The TOML of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "docs/howto/sweeps.md"])
def test_what_pages_show_fits(page: str) -> None:
    """Parts of files, so that what a section lacks is not looked at."""
    whole = tomllib.loads(SMALL_CONFIG)
    for text in blocks(page):
        config = tomllib.loads(text)
        if "arms" not in config:
            assert faults(configuration_schema, whole | config) == [], text


@pytest.mark.parametrize(
    "change",
    [
        "runs = 0",
        'runs = "ten"',
        "runs = [2, 0]",
        "runs = { sweep = 2 }",
        "seed = -1",
        'dtype = "float16"',
        "rounds = 3",
        "modules = 3",
        "sweep = { zip = [['seed']] }",
        "sweep = { zapp = [] }",
        'network = { name = "ring" }',
        'network = { name = "ring", agents = 0 }',
        'network = { name = "ring", agents = 2.5 }',
        'network = { name = "ring", agents = 4, rows = 2 }',
        'network = [{ name = "ring", agents = 4 }, { name = "rung", agents = 4 }]',
        "network = { agents = 4 }",
        "network = []",
        'network = [[{ name = "ring", agents = 4 }]]',
        'network = { sweep = [{ name = "rung", agents = 4 }] }',
        'network = { sweep = [{ name = "ring", agents = 4 }], agents = 4 }',
        'gossip = { name = "max_degree", lazy = "no" }',
        'gossip = { name = "max_degree", network = "ring" }',
        'gossip = { name = "clipped", limit = 1.0, gossip = { name = "max_degre" } }',
        'algorithm = { name = "FedExp4" }',
        'algorithm = { name = ["FedExp3", "FedExp4"] }',
        'algorithm = { name = "FedExp3", learning_rate = -0.1 }',
        'algorithm = { name = "FedExp3", learning_rate = "small_loss" }',
        'algorithm = { name = "FedExp3", learning_rate = [0.1, { name = "pover", c = 1, a = 1 }] }',
        'algorithm = { name = "FedExp3", learning_rates = [0.1] }',
        'algorithm = { name = "my-package:Leader" }',
        'algorithm = { name = "my_package:Leader()" }',
        'algorithm = { name = "BlockGossip", regulariser = "minmax" }',
        "privacy = { epsilon = 0 }",
        "privacy = { delta = 1 }",
        'liars = { 1 = { name = "promote" } }',
    ],
)
def test_mistakes_do_not(change: str) -> None:
    config = tomllib.loads(SMALL_CONFIG) | tomllib.loads(change)
    assert faults(configuration_schema, config) != []


def test_a_mistake_is_marked_where_it_is() -> None:
    config = tomllib.loads(SMALL_CONFIG)
    config["algorithm"] |= {"learning_rates": 0.1}
    [fault] = faults(configuration_schema, config)
    assert fault.startswith("$.algorithm: Additional properties are not allowed ('learning_rates'")
    config["algorithm"] = [{"name": "FedExp3"}, {"name": "FedExp3", "exploration": -1}]
    [fault] = faults(configuration_schema, config)
    assert fault.startswith("$.algorithm[1].exploration: -1 is not valid")
    config["algorithm"] = {"name": "FedExp4"}
    [fault] = faults(configuration_schema, config)
    assert fault.startswith("$.algorithm.name: 'FedExp4' is not valid")


@pytest.mark.parametrize("missing", ["problem", "algorithm"])
def test_sections_that_must_be_there(missing: str) -> None:
    config = {k: v for k, v in tomllib.loads(SMALL_CONFIG).items() if k != missing}
    assert faults(configuration_schema, config) == [f"$: '{missing}' is a required property"]


@pytest.mark.parametrize(
    "change",
    [
        'modules = "../src"',
        'algorithm = { name = "my_package.algorithms:MyLeader", anything = [1, 2] }',
        'algorithm = { name = ["FedExp3", "my_package.algorithms:MyLeader"] }',
        'algorithm = { name = "FedExp3", learning_rate = { name = "my:Rate", c = 1 } }',
        'problem = { name = "scaled", low = 0, high = 1, problem = { name = "my:Losses" } }',
        'network = [{ name = "my:wheel" }, { name = { sweep = ["ring", "path"] }, agents = 4 }]',
        'gossip = { name = "my:slow", share = 0.5 }',
    ],
)
def test_own_names_fit(change: str) -> None:
    config = tomllib.loads(SMALL_CONFIG) | tomllib.loads(change)
    assert faults(configuration_schema, config) == []


def entries(schema: dict[str, Any], section: str) -> dict[str, Any]:
    start = f"{section}."
    return {k.removeprefix(start): v for k, v in schema["$defs"].items() if k.startswith(start)}


@pytest.mark.parametrize("section", ["problem", "network", "gossip", "algorithm", "schedule"])
def test_every_name_and_parameter_is_in_it(section: str) -> None:
    known = entries(configuration_schema(), section)
    for name, make in REGISTRIES[section].items():
        given = {"network"} if section == "gossip" else set()
        theorem = {"from_theorem"} if hasattr(make, "from_theorem") else set()
        takes = {*inspect.signature(make).parameters} - given | theorem | {"name"}
        assert {*known[name]["properties"]} == takes
        assert known[name]["description"]


def test_what_is_told_of_a_parameter() -> None:
    rate = entries(configuration_schema(), "algorithm")["FedExp3"]["properties"]["learning_rate"]
    assert rate["description"].startswith("η, a number or a schedule")
    assert rate["default"] == {"name": "mixing_aware", "c": 2.0}


NEEDED: dict[str, Any] = {
    "agents": 4,
    "arms": 3,
    "horizon": 12,
    "rows": 2,
    "cols": 2,
    "cluster": 2,
    "block": 2,
    "path": 0,
    "links": 1,
    "radius": 0.9,
    "probability": 0.9,
    "dimension": 2,
    "epsilon": 1.0,
    "arm": 0,
    "gossip": {"name": "max_degree"},
}


def bounded() -> list[tuple[str, str, str]]:
    return [
        (section, name, key)
        for section, registry in REGISTRIES.items()
        for name, make in registry.items()
        for key, parameter in inspect.signature(make).parameters.items()
        if key in SMALLEST and "int" in str(parameter.annotation)
        if {k for k, p in inspect.signature(make).parameters.items() if p.default is p.empty}
        <= {*NEEDED, "network"}
        # These read files, or take lists of names there.
        if name not in ("from_table", "bernoulli", "from_edges", "movielens_generated")
    ]


@pytest.mark.parametrize(("section", "name", "key"), bounded())
def test_limits_are_those_of_the_constructors(section: str, name: str, key: str) -> None:
    parameters = inspect.signature(REGISTRIES[section][name]).parameters
    table: dict[str, Any] = {"name": name} | {
        k: NEEDED[k] for k, p in parameters.items() if p.default is p.empty and k != "network"
    }
    if name == "linear":
        table["dimension"] = 2
    if key in ("up", "down"):
        table |= {"up": 2, "down": 2}
    given = {"network": ring(4)}
    construct(REGISTRIES[section], table, Place("here"), given)
    with pytest.raises(ConfigError):
        construct(REGISTRIES[section], {**table, key: SMALLEST[key] - 1}, Place("here"), given)


def test_federations_and_agents() -> None:
    shops = {"arms": ["tea", "coffee"], "network": {"name": "ring", "agents": 3}}
    assert faults(federation_schema, shops) == []
    assert faults(federation_schema, shops | {"arms": ["tea"]}) != []
    assert faults(federation_schema, shops | {"gossip": {"name": "random_edge"}}) != []
    assert faults(federation_schema, shops | {"algorithm": {"name": ["FedExp3", "Exp3"]}}) != []
    assert faults(federation_schema, shops | {"algorithm": {"name": "my:Leader"}}) == []
    assert faults(federation_schema, shops | {"demo": {"means": [0.1, 0.9]}}) == []
    for pace, ok in ((0.01, True), (0.009, False)):  # as demo_pace has it
        for demo in ({"means": [0.1, 0.9]}, {"name": "cdn"}):
            assert (faults(federation_schema, shops | {"demo": demo | {"pace": pace}}) == []) == ok
    assert {*federation_schema()["properties"]} == {*KEYS}
    assert {*entries(federation_schema(), "gossip")} == {*RULES}
    north = {"name": "north", "federation": "federation.toml", "service": {"tls": True}}
    assert faults(agent_schema, north) == []
    assert faults(agent_schema, north | {"service": {"tsl": True}}) != []
    assert faults(agent_schema, {"name": "north"}) != []


@pytest.mark.parametrize(
    ("kind", "make"),
    [("run", configuration_schema), ("federation", federation_schema), ("agent", agent_schema)],
)
def test_the_command_prints_it(kind: str, make: Any) -> None:
    done = CliRunner().invoke(app, ["schema", "--kind", kind])
    assert done.exit_code == 0
    assert json.loads(done.output) == json.loads(json.dumps(make()))


def test_a_configuration_with_the_line_for_editors_is_read(tmp_path: Path) -> None:
    from fedbandits.config.document import load_config

    path = tmp_path / "small.toml"
    path.write_text("#:schema ./fedbandits.schema.json\n" + SMALL_CONFIG)
    assert load_config(path).simulation.runs == 2
