"""Configuration files: what they build, and what each mistake is answered with."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.config.building import parse_network
from fedbandits.config.catalogue import REGISTRIES, catalogue
from fedbandits.config.document import load_config
from fedbandits.config.experiment import ConfigError
from tests.instances import SMALL_CONFIG

EXAMPLE = Path(__file__).parents[2] / "examples" / "grid.toml"

ALONE = """
[problem]
name = "activated_bernoulli"
agents = 4
arms = 3
horizon = 20

[algorithm]
name = "Exp3"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_the_example_is_figure_1() -> None:
    experiment = load_config(EXAMPLE)
    problem, algorithm, gossip = (
        experiment.simulation.problem,
        experiment.simulation.algorithm,
        experiment.simulation.gossip,
    )
    assert (problem.agents, problem.arms, problem.horizon) == (36, 20, 3000)
    assert algorithm == fb.FedExp3(0.1, fb.schedules.power(0.01, 1 / 3))
    assert gossip is not None
    expected = fb.gossip.max_degree(fb.networks.grid(6, 6), lazy=False)
    np.testing.assert_allclose(gossip.matrix.toarray(), expected.matrix.toarray())
    assert (experiment.simulation.runs, experiment.simulation.seed) == (10, 0)
    assert (experiment.simulation.dtype, experiment.against) == ("float32", "current")


@pytest.mark.slow
def test_simulate_is_what_the_same_objects_give(tmp_path: Path) -> None:
    path = write(tmp_path, 'dtype = "float64"\nagainst = "final"\nseed = 7\n' + SMALL_CONFIG)
    result = load_config(path).simulate()
    direct = fb.simulate(
        fb.problems.activated_bernoulli(4, 3, 20),
        fb.FedExp3(),
        fb.gossip.max_degree(fb.networks.grid(2, 2)),
        runs=2,
        seed=7,
        dtype="float64",
        against="final",
    )
    assert result.config == direct.config
    assert result.dataset.identical(direct.dataset)


def test_overrides_reach_every_level() -> None:
    experiment = load_config(
        EXAMPLE,
        ["runs=20", "problem.horizon=50", "algorithm.exploration.c=0.02", "algorithm.name=Exp3"],
    )
    assert experiment.simulation.runs == 20
    assert experiment.simulation.problem.horizon == 50
    assert experiment.simulation.algorithm == fb.Exp3(0.1, fb.schedules.power(0.02, 1 / 3))


def test_an_override_can_replace_a_section() -> None:
    experiment = load_config(EXAMPLE, ['network={name = "ring", agents = 36}'])
    assert experiment.network is not None
    assert experiment.network.degrees.tolist() == [2] * 36


def test_overrides_do_not_need_the_section(tmp_path: Path) -> None:
    experiment = load_config(write(tmp_path, ALONE), ["network.name=ring", "network.agents=4"])
    assert experiment.network is not None
    assert experiment.network.agents == 4


@pytest.mark.slow
def test_no_network_is_needed_when_nothing_is_sent(tmp_path: Path) -> None:
    experiment = load_config(write(tmp_path, ALONE))
    assert experiment.simulation.gossip is None
    assert experiment.simulate().communication["messages"] == 0


def test_the_theorem_rates(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL_CONFIG.replace('"FedExp3"', '"FedHedge"\nfrom_theorem = true'))
    gossip = fb.gossip.max_degree(fb.networks.grid(2, 2))
    expected = fb.FedHedge.from_theorem(gossip, arms=3, horizon=20)
    assert load_config(path).simulation.algorithm == expected


def test_from_theorem_false_changes_nothing() -> None:
    assert load_config(
        EXAMPLE, ["algorithm.from_theorem=false"]
    ).simulation.algorithm == fb.FedExp3(0.1)


def test_files_are_relative_to_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import networkx as nx

    (tmp_path / "data").mkdir()
    rows = ["time,agent,arm,loss"]
    rows += [f"{t},{v},{i},0.5" for t in (1, 2) for v in "012" for i in "xy"]
    (tmp_path / "data" / "losses.csv").write_text("\n".join(rows))
    nx.write_graphml(nx.cycle_graph(3), tmp_path / "data" / "ring.graphml")
    text = '[problem]\nname = "from_table"\ntable = "data/losses.csv"\n'
    text += '[network]\nname = "read_graphml"\npath = "data/ring.graphml"\n'
    text += '[gossip]\nname = "metropolis"\n[algorithm]\nname = "FedExp3"\n'
    monkeypatch.chdir("/")
    experiment = load_config(write(tmp_path, text))
    assert (experiment.simulation.problem.horizon, experiment.simulation.problem.agents) == (2, 3)
    assert experiment.network is not None
    assert len(experiment.network.edges) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("agents =", "agnts =", r"\[problem\]: unknown key 'agnts'; did you mean 'agents'\? Valid"),
        ("[gossip]", "[gosip]", r"unknown section or key 'gosip'; did you mean 'gossip'\? Valid"),
        ("runs =", "rums =", r"unknown section or key 'rums'; did you mean 'runs'\?"),
        ('"grid"', '"gird"', r"\[network\]: unknown name 'gird'; did you mean 'grid'\? Valid"),
        ('"FedExp3"', '"fedexp"', r"\[algorithm\]: unknown name 'fedexp'; did you mean 'FedExp3'"),
        ('"FedExp3"', "3", r"\[algorithm\]: unknown name 3\. Valid: FedExp3, Exp3"),
        ('name = "grid"', "", r"\[network\]: no name; add one of: .*grid"),
        ("horizon = 20", "", r"\[problem\]: activated_bernoulli needs horizon"),
        ("agents = 4\narms = 3", "", r"\[problem\]: activated_bernoulli needs agents, arms"),
        ("arms = 3", 'arms = "3"', r"\[problem\]: arms must be a whole number .* not '3'"),
        ("arms = 3", "arms = 1", r"\[problem\]: arms must be a whole number of at least 2, not 1"),
        ("cols = 2", "cols = 3", r"\[problem\] has 4 agents but \[network\] has 6"),
        ("runs = 2", "runs = 0", r"runs must be a whole number of at least 1, not 0"),
        ("runs = 2", "seed = -1", r"seed must be a whole number of at least 0, not -1"),
        ("runs = 2", 'dtype = "float46"', r"unknown dtype 'float46'; did you mean 'float64'"),
        ("runs = 2", 'against = "best"', r"unknown against 'best'.* Valid: current, final"),
        ("runs = 2", 'record = "agent"', r"unknown record 'agent'; did you mean 'agents'"),
        ('"FedExp3"', '"FedExp3"\nlearning_rate = -1', r"\[algorithm\]: learning_rate must be"),
        (
            '"FedExp3"',
            '"FedExp3"\nlearning_rate = "power"',
            r"\[algorithm\]: learning_rate must be a number, or a table such as "
            r'\{name = "power", c = 0\.01, a = 0\.5\}, not \'power\'; a name is one of: constant, '
            r"power, anytime, small_loss, mixing_aware$",
        ),
        ('"FedExp3"', '"FedExp3"\nfrom_theorm = true', r"did you mean 'from_theorem'\?"),
        ('"FedExp3"', '"FedExp3"\nfrom_theorem = 1', r"from_theorem must be true or false, not 1"),
        (
            '"FedExp3"',
            '"FedExp3"\nfrom_theorem = true\nlearning_rate = 0.1',
            r"from_theorem chooses the rates itself; remove learning_rate",
        ),
        ('"FedExp3"', '"Uniform"\nruns = 3', r"Uniform takes none.* before the first \[section\]"),
        (
            '"FedExp3"',
            '"FedExp3"\nexploration = { name = "pover", c = 1 }',
            r"\[algorithm\] exploration: unknown name 'pover'; did you mean 'power'\?",
        ),
        (
            '"FedExp3"',
            '"FedExp3"\nexploration = { name = "power", c = 1 }',
            r"\[algorithm\] exploration: power needs a",
        ),
    ],
)
def test_mistakes_name_the_place_and_the_fix(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SMALL_CONFIG
    path = write(tmp_path, SMALL_CONFIG.replace(old, new))
    error = refusal(path)
    assert error.startswith(str(path))
    assert re.search(message, error), error


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("runs", "--set runs: expected section.key=value"),
        ("=3", "--set =3: expected section.key=value"),
        ("problem..arms=3", "expected section.key=value"),
        ("runs=many", "with --set runs=many: runs must be a whole number"),
        ("problem.agnts=4", "with --set problem.agnts=4: unknown key 'agnts'; did you mean"),
        ("problm.agents=4", "unknown section or key 'problm'; did you mean 'problem'?"),
        ("runs.many=3", "--set runs.many=3: runs is 2, which has no keys of its own"),
        ("problem=3", "[problem] with --set problem=3: expected a table with a name, not 3"),
        ("problem.means=[0.1,", "[0.1, is not a TOML value"),
        ("network.name=ring", "--set 'network={name = \"ring\"}'"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, message: str) -> None:
    assert message in refusal(write(tmp_path, SMALL_CONFIG), override)


def test_no_toml(tmp_path: Path) -> None:
    path = write(tmp_path, "runs = 2\nseed 3\n")
    assert re.search(rf"{path} is not valid TOML: .*line 2", refusal(path))
    path.write_bytes(b"runs = \xff")
    assert "UTF-8" in refusal(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no configuration file at .*nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")


def test_a_file_named_in_a_configuration_is_missing(tmp_path: Path) -> None:
    text = '[problem]\nname = "from_table"\ntable = "losses.csv"\n[algorithm]\nname = "Exp3"\n'
    error = refusal(write(tmp_path, text))
    assert "[problem]" in error
    assert str(tmp_path / "losses.csv") in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ALONE.replace("Exp3", "FedExp3"), "FedExp3 sends messages, so the file needs [network]"),
        (ALONE.partition("[algorithm]")[0], "has no [algorithm]; add one with a name, one of:"),
        ("[algorithm]" + ALONE.partition("[algorithm]")[2], "has no [problem]; add one"),
        (ALONE + '[gossip]\nname = "max_degree"\n', "[gossip] needs a [network]"),
    ],
)
def test_missing_sections(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(write(tmp_path, text))


@pytest.mark.parametrize(
    ("spec", "agents", "edges"),
    [("grid:2,3", 6, 7), ("ring:5", 5, 5), ("grid:cols=3,rows=2", 6, 7), ("grid: 2, cols=2", 4, 4)],
)
def test_network_specs(spec: str, agents: int, edges: int) -> None:
    network = parse_network(spec)
    assert (network.agents, len(network.edges)) == (agents, edges)


def test_a_network_spec_gives_the_same_graph_as_the_call() -> None:
    expected = fb.networks.random_geometric(36, 0.5, seed=3)
    np.testing.assert_array_equal(
        parse_network("random_geometric:36,0.5,seed=3").edges, expected.edges
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gird:2,2", "unknown name 'gird'; did you mean 'grid'?"),
        ("grid:2", "grid needs cols"),
        ("grid:2,2,2", "too many values; grid takes rows, cols"),
        ("grid:2,colls=2", "unknown key 'colls'; did you mean 'cols'?"),
        ("ring:2", "network ring:2: "),
        ("ring:many", "network ring:many: "),
        ("nowhere.graphml", "nowhere.graphml"),
    ],
)
def test_bad_network_specs(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_network(spec)


@pytest.mark.parametrize("section", REGISTRIES)
def test_the_catalogue_is_complete(section: str) -> None:
    entries = {entry.name: entry for entry in catalogue(section)}
    assert list(entries) == list(REGISTRIES[section])
    assert all(entry.doc for entry in entries.values())


def test_the_catalogue_says_what_leaves() -> None:
    entries: dict[str, Any] = {entry.name: entry for entry in catalogue("algorithm")}
    assert entries["FedExp3"].notes == ["feedback: bandit; leaves the agent: z (estimate, average)"]
    assert entries["Exp3"].notes == ["feedback: bandit; leaves the agent: nothing"]
    assert "from_theorem=False" in entries["FedExp3"].parameters


def test_a_problem_inside_a_problem(tmp_path: Path) -> None:
    stars = np.random.default_rng(0).integers(1, 6, (20, 4, 3))
    np.save(tmp_path / "stars.npy", stars)
    table = '{ name = "from_tensor", tensor = "stars.npy" }'
    text = f'name = "scaled"\nproblem = {table}\nlow = 1\nhigh = 5\nrewards = true'
    config = f'[problem]\n{text}\n[algorithm]\nname = "Uniform"\n'
    problem = load_config(write(tmp_path, config)).simulation.problem
    np.testing.assert_allclose(problem.block(1, 20), (5 - stars) / 4)
    (tmp_path / "stars.npy").unlink()
    assert "[problem] problem: no tensor at" in refusal(tmp_path / "config.toml")
