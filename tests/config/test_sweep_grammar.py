"""Sweeps as they are written: which lists are swept, what they make, and what is refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedbandits.common.describe import canonical
from fedbandits.config.document import load_config
from fedbandits.config.expansion import expand, find_axes
from fedbandits.config.experiment import ConfigError
from fedbandits.config.identity import Contents
from fedbandits.sweeps.identity import cell_hash
from fedbandits.sweeps.plan import MOST_CELLS, make_plan
from tests.instances import SMALL_CONFIG

ROOT = Path(__file__).parents[2]
GRID = {"name": "grid", "rows": 2, "cols": 2}
RING = {"name": "ring", "agents": 4}


def config(**changes: Any) -> dict[str, Any]:
    return {
        "runs": 2,
        "problem": {"name": "activated_bernoulli", "agents": 4, "arms": 3, "horizon": 20},
        "network": GRID,
        "gossip": {"name": "max_degree"},
        "algorithm": {"name": "FedExp3"},
        **changes,
    }


def fedexp3(**parameters: Any) -> dict[str, Any]:
    return {"name": "FedExp3", **parameters}


def write(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text)
    return path


def small(old: str = "", new: str = "") -> str:
    assert old in SMALL_CONFIG
    return SMALL_CONFIG.replace(old, new) if old else SMALL_CONFIG


RATES = small('"FedExp3"', '"FedExp3"\nlearning_rate = [0.1, 0.2, 0.3]')


def test_nothing_swept_is_one_cell() -> None:
    sweep = expand(config())
    assert sweep.axes == ()
    assert [cell.config for cell in sweep.cells] == [config()]


def test_axes_are_crossed_in_the_order_of_the_file() -> None:
    sweep = expand(config(seed=[0, 1], algorithm=fedexp3(learning_rate=[0.1, 0.2, 0.3])))
    assert [axis.paths for axis in sweep.axes] == [("algorithm.learning_rate",), ("seed",)]
    assert [cell.title for cell in sweep.cells[:3]] == [
        "learning_rate=0.1, seed=0",
        "learning_rate=0.1, seed=1",
        "learning_rate=0.2, seed=0",
    ]
    assert len(sweep.cells) == 6
    assert sweep.cells[3].config == config(seed=1, algorithm=fedexp3(learning_rate=0.2))
    assert sweep.cells[3].position == (1, 1)


def test_sections_have_alternatives() -> None:
    sweep = expand(config(network=[GRID, RING]))
    assert [cell.config["network"] for cell in sweep.cells] == [GRID, RING]
    assert sweep.cells[1].title == "network=ring(agents=4)"


def test_an_alternative_may_sweep_inside() -> None:
    sweep = expand(config(algorithm=[{"name": "GossipUCB"}, fedexp3(learning_rate=[0.1, 0.2])]))
    assert [cell.title for cell in sweep.cells] == [
        "algorithm=GossipUCB",
        "algorithm=FedExp3(learning_rate=0.1)",
        "algorithm=FedExp3(learning_rate=0.2)",
    ]


def test_keys_of_nested_tables() -> None:
    power = {"name": "power", "c": [0.01, 0.02], "a": 0.5}
    sweep = expand(config(algorithm=fedexp3(exploration=power)))
    assert [cell.config["algorithm"]["exploration"] for cell in sweep.cells] == [
        {**power, "c": 0.01},
        {**power, "c": 0.02},
    ]
    mixed = expand(config(algorithm=fedexp3(exploration=[{"sweep": [0.1]}, power])))
    assert [cell.title for cell in mixed.cells] == [
        "exploration=0.1",
        "exploration=power(c=0.01, a=0.5)",
        "exploration=power(c=0.02, a=0.5)",
    ]


def test_where_a_list_is_a_value_it_takes_the_explicit_form() -> None:
    problem = {"name": "fixed_activation", "agents": 4, "arms": 3, "horizon": 20}
    means, other = [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]
    assert find_axes({"problem": {**problem, "means": means, "active": [0, 1]}}, "here") == {}
    assert find_axes({"problem": {**problem, "means": {"sweep": [means, other]}}}, "here") == {
        "problem.means": [means, other]
    }
    # The kind of problem decides: here `active` is one number.
    named = {**problem, "name": "activated_bernoulli", "active": [1, 2]}
    assert find_axes({"problem": named}, "here") == {"problem.active": [1, 2]}
    either = {**problem, "name": ["fixed_activation", "activated_bernoulli"], "active": [1, 2]}
    assert list(find_axes({"problem": either}, "here")) == ["problem.name"]


def test_the_explicit_form_works_everywhere() -> None:
    assert find_axes({"runs": {"sweep": [1, 2]}, "network": {"sweep": [GRID, RING]}}, "here") == {
        "runs": [1, 2],
        "network": [GRID, RING],
    }


def test_a_problem_inside_a_problem() -> None:
    inner = {"name": "bernoulli", "means": [[0.1, 0.2]], "horizon": [10, 20]}
    found = find_axes({"problem": {"name": "scaled", "problem": inner, "low": 0, "high": 1}}, "x")
    assert found == {"problem.problem.horizon": [10, 20]}


def test_zipped_axes_vary_together() -> None:
    power = {"name": "power", "c": [0.01, 0.02], "a": 0.5}
    algorithm = fedexp3(learning_rate=[0.1, 0.2], exploration=power)
    zipped = {"zip": [["algorithm.exploration.c", "algorithm.learning_rate"]]}
    sweep = expand(config(algorithm=algorithm, seed=[0, 1], sweep=zipped))
    assert [cell.title for cell in sweep.cells] == [
        "c=0.01, learning_rate=0.1, seed=0",
        "c=0.01, learning_rate=0.1, seed=1",
        "c=0.02, learning_rate=0.2, seed=0",
        "c=0.02, learning_rate=0.2, seed=1",
    ]
    assert "sweep" not in sweep.cells[0].config


def test_sections_zip_too() -> None:
    gossips = [{"name": "max_degree"}, {"name": "metropolis"}]
    sweep = expand(
        config(network=[GRID, RING], gossip=gossips, sweep={"zip": [["network", "gossip"]]})
    )
    assert [cell.title for cell in sweep.cells] == [
        "network=grid(rows=2, cols=2), gossip=max_degree",
        "network=ring(agents=4), gossip=metropolis",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": []}, "here: seed is an empty list; give it a value or remove it"),
        ({"seed": [1, 2, 1]}, "here: seed has 1 twice; remove one"),
        ({"runs": [1, 1.0]}, "here: runs has 1.0 twice"),
        ({"network": [GRID, GRID]}, "here: network has grid(rows=2, cols=2) twice"),
        ({"network": []}, "here: network is an empty list"),
        ({"runs": {"sweep": [1], "more": 2}}, "write { sweep = [value, value] } and nothing else"),
        ({"runs": {"sweep": 3}}, "write { sweep = [value, value] }"),
        ({"network": [{"name": "ring", "agents": []}]}, "here: network.agents is an empty list"),
        ({"sweep": 3}, "here [sweep]: expected a table such as zip = "),
        ({"sweep": {"zipp": []}}, "here [sweep]: unknown key 'zipp'; did you mean 'zip'?"),
        ({"sweep": {"zip": ["seed"]}}, "seed is not a list of two or more parameters; write zip"),
        ({"seed": [1, 2], "sweep": {"zip": [["seed"]]}}, "[seed] is not a list of two or more"),
        (
            {"seed": [1, 2], "runs": [1, 2], "sweep": {"zip": [["seed", "run"]]}},
            "unknown swept parameter 'run'; did you mean 'runs'?",
        ),
        (
            {"seed": [1, 2], "runs": [1, 2, 3], "sweep": {"zip": [["seed", "runs"]]}},
            "seed has 2 values, runs has 3 values; what is zipped needs as many of each",
        ),
        (
            {
                "seed": [1, 2],
                "runs": [1, 2],
                "dtype": ["float32", "float64"],
                "sweep": {"zip": [["seed", "runs"], ["dtype", "seed"]]},
            },
            "seed stands in two groups; leave it in one",
        ),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        expand(config(**changes), "here")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (RATES, ["algorithm.learning_rate=[0.1,-1]"], "(cell learning_rate=-1)"),
        (RATES, ["algorithm.lerning_rate=[1,2]"], "did you mean 'learning_rate'?"),
        (RATES, ["algorithm.lerning_rate=[1,2]"], "(cell learning_rate=0.1, lerning_rate=1)"),
        (
            small('name = "grid"', 'name = ["grid", "gird"]'),
            [],
            "[network]: unknown name 'gird'; did you mean 'grid'?",
        ),
        (small("cols = 2", "cols = [2, 3]"), [], "4 agents but [network] has 6"),
        (small("cols = 2", "cols = [2, 3]"), [], "(cell cols=3)"),
        (
            small("runs = 2", "runs = [2, 0]"),
            [],
            "runs must be a whole number of at least 1",
        ),
    ],
)
def test_every_cell_is_checked_before_any_is_played(
    tmp_path: Path, text: str, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_plan(write(tmp_path, text), overrides)


def test_a_sweep_from_the_command_line_is_the_one_in_the_file(tmp_path: Path) -> None:
    there = make_plan(write(tmp_path, RATES))
    typed = make_plan(write(tmp_path, small()), ["algorithm.learning_rate=[0.1, 0.2, 0.3]"])
    assert typed.hashes == there.hashes


def test_one_experiment_is_not_a_sweep(tmp_path: Path) -> None:
    path = write(tmp_path, RATES)
    with pytest.raises(ConfigError, match=r"is a sweep over algorithm\.learning_rate; .* --set"):
        load_config(path)
    assert load_config(path, ["algorithm.learning_rate=0.2"]).simulation.runs == 2


def test_a_hash_is_of_what_is_played() -> None:
    plain = config()
    reordered = dict(reversed(plain.items())) | {"seed": 0, "dtype": "float32"}
    assert canonical(plain) != canonical(reordered)
    here, there = Contents(Path("a")), Contents(Path("b"))
    assert cell_hash(plain, here) == cell_hash(reordered, there)
    for other in (config(seed=1), config(runs=3), config(network=RING)):
        assert cell_hash(other, here) != cell_hash(plain, here)


def test_a_hash_is_of_the_files_contents_wherever_they_are(tmp_path: Path) -> None:
    table = {"problem": {"name": "scaled", "problem": {"name": "from_table", "table": "x.csv"}}}
    for folder, text in {"a": "1", "b": "1", "c": "2"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(text)
    same, moved, changed = (cell_hash(table, Contents(tmp_path / folder)) for folder in "abc")
    assert same == moved != changed
    release = {"problem": {"name": "movielens", "path": "."}}
    folders = [cell_hash(release, Contents(tmp_path / folder)) for folder in "abc"]
    assert folders[0] == folders[1] != folders[2]


def test_two_files_of_one_content_are_one_experiment(tmp_path: Path) -> None:
    rows = ["time,agent,arm,loss", *(f"1,{v},{i},0.5" for v in "ab" for i in "xy")]
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("\n".join(rows))
    text = '[problem]\nname = "from_table"\ntable = ["one.csv", "two.csv"]\n'
    with pytest.raises(ConfigError, match=r"table=one\.csv and table=two\.csv are the same"):
        make_plan(write(tmp_path, text + '[algorithm]\nname = "Exp3"\n'))


def test_batches_hold_what_differs_in_numbers_of_the_algorithm(tmp_path: Path) -> None:
    rates = [round(0.01 * i, 2) for i in range(1, 11)]
    text = small("runs = 2", "runs = 2\nseed = [0, 1]")
    plan = make_plan(write(tmp_path, text), [f"algorithm.learning_rate={rates}"])
    assert plan.batches == (
        tuple(range(8)),
        (8, 9),
        tuple(range(10, 18)),
        (18, 19),
    )
    kinds = 'exploration = [0.1, 0.2, { name = "power", c = 0.1, a = [0.3, 0.5] }]'
    plan = make_plan(write(tmp_path, small('"FedExp3"', f'"FedExp3"\n{kinds}')))
    assert plan.batches == ((0, 1), (2, 3))
    names = 'name = ["FedExp3", "Exp3"]\nlearning_rate = [0.1, 0.2]'
    plan = make_plan(write(tmp_path, small('name = "FedExp3"', names)))
    assert plan.batches == ((0, 1), (2, 3))


def test_large_cells_are_not_played_together(tmp_path: Path) -> None:
    text = small("agents = 4", "agents = 4096").replace("rows = 2", "rows = 2048")
    plan = make_plan(write(tmp_path, text), ["algorithm.learning_rate=[1,2,3,4]", "runs=2000"])
    assert plan.batches == ((0, 1), (2, 3))
    assert MOST_CELLS > 2


def test_a_shared_section_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedbandits import problems

    made: list[int] = []

    def make(agents: int, arms: int, horizon: int, seed: int) -> problems.Problem:
        made.append(seed)
        return problems.activated_bernoulli(agents, arms, horizon, seed=seed)

    monkeypatch.setitem(problems.REGISTRY, "activated_bernoulli", make)
    # Ten problems on the inner axis: each is made once all the same.
    text = "seed = [0, 1, 2]\n" + small("horizon = 20", f"horizon = 20\nseed = {list(range(10))}")
    assert len(make_plan(write(tmp_path, text)).hashes) == 30
    assert sorted(made) == list(range(10))


def test_the_example() -> None:
    plan = make_plan(ROOT / "examples" / "sweep.toml")
    assert [axis.paths for axis in plan.sweep.axes] == [("network",), ("algorithm.learning_rate",)]
    assert plan.batches == ((0, 1, 2), (3, 4, 5))


def test_names_that_are_swept_go_by_their_section() -> None:
    swept = {"name": ["max_degree", "metropolis"]}
    sweep = expand(config(gossip=swept, algorithm={"name": ["FedExp3", "Exp3"]}))
    assert sweep.cells[1].title == "gossip=max_degree, algorithm=Exp3"


def test_what_the_documentation_shows_is_a_sweep() -> None:
    pages = (ROOT / "docs" / "howto" / name for name in ("sweeps.md", "data.md"))
    text = "".join(page.read_text() for page in pages)
    shown = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    sizes = [len(expand(tomllib.loads(block)).cells) for block in shown]
    assert sizes == [18, 6, 2, 3, 1]  # the last names a table and its columns: one value


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"algorithm": {"name": "Exp3", "learning.rate": [1, 2]}}, "a name has no dot"),
        ({"seed": [0, 1], "sweep": {"zip": 5}}, "zip is 5; write zip"),
        ({"seed": [0, 1], "sweep": {"zip": [[["seed"], "runs"]]}}, "not a list of two or more"),
        ({"seed": [10**400, 10**400]}, "twice"),
    ],
)
def test_odd_files_are_refused_in_words(odd: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expand(odd)


def test_a_cell_is_the_same_however_its_numbers_are_written(tmp_path: Path) -> None:
    def name(rate: float) -> str:
        return cell_hash({"algorithm": {"name": "Exp3", "learning_rate": rate}}, Contents(tmp_path))

    assert name(1) == name(1.0)
    assert name(1) != name(2)
    missing = [
        cell_hash({"network": {"name": "read_graphml", "path": file}}, Contents(tmp_path))
        for file in ("a.graphml", "b.graphml")
    ]
    assert missing[0] != missing[1]  # not the same experiment, only both not there
