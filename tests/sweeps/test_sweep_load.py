"""All cells of a sweep as one dataset: its dimensions, what is missing, what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.sweeps import store
from fedbandits.sweeps.plan import make_plan
from fedbandits.sweeps.run import run_sweep
from tests.instances import SMALL_CONFIG


def play(folder: Path, *changes: str, text: str = SMALL_CONFIG) -> Path:
    (folder / "sweep.toml").write_text(text)
    plan = make_plan(folder / "sweep.toml", changes)
    run_sweep(plan, folder / "out", ["fedbandits", "run", "sweep.toml"])
    return folder / "out"


RATES = "algorithm.learning_rate=[0.1, 0.3]"
NETWORKS = 'network=[{name = "grid", rows = 2, cols = 2}, {name = "ring", agents = 4}]'


def test_one_dimension_for_each_axis(tmp_path: Path) -> None:
    out = play(tmp_path, RATES, NETWORKS)
    data = fb.load_experiment(out)
    assert data["regret"].dims == ("network", "learning_rate", "run", "time")
    assert data["learning_rate"].to_numpy().tolist() == [0.1, 0.3]
    assert data["network"].to_numpy().tolist() == ["grid(rows=2, cols=2)", "ring(agents=4)"]
    assert data["recommended_arm"].dtype.kind == "i"
    assert json.loads(data.attrs["config"])["algorithm"]["learning_rate"] == [0.1, 0.3]
    assert (data.attrs["missing"], data.attrs["left_out"]) == (0, "")
    for cell in store.read_manifest(out).cells:
        one = fb.load(store.cell_path(out, cell.hash)).dataset
        there = data.isel(network=cell.position[0], learning_rate=cell.position[1])
        for name, values in one.drop_vars("round_loss").items():
            np.testing.assert_array_equal(there[name], values)
    # As the README has it.
    data.final_regret.mean("run").plot(hue="network")
    np.testing.assert_array_equal(data.final_regret, data.regret.isel(time=-1))

    moving = fb.load_experiment(out, changes=2)
    assert moving.attrs["against"] == "the best sequence with at most 2 changes"
    for cell in store.read_manifest(out).cells:
        one = fb.load(store.cell_path(out, cell.hash)).regret_against(changes=2).dataset
        there = moving.isel(network=cell.position[0], learning_rate=cell.position[1])
        for name in ("regret", "worst_regret", "agent_regret"):
            np.testing.assert_array_equal(there[name], one[name])
    np.testing.assert_array_equal(moving.final_regret, moving.regret.isel(time=-1))
    in_parts = fb.load_experiment(out, ["final_regret"], parts=2)
    assert (in_parts.final_regret >= data.final_regret - 1e-9).all()
    with pytest.raises(TypeError, match="give one of the two"):
        fb.load_experiment(out, changes=2, parts=2)
    with pytest.raises(
        ValueError, match=r"cells.*\.nc: changes in a horizon of \d+ rounds must be"
    ):
        fb.load_experiment(out, changes=10**6)
    with pytest.raises(ValueError, match=r"^parts must be a whole number of at least 1, not 0"):
        fb.load_experiment("not read", parts=0)

    only = fb.load_experiment(out, ["regret"])
    assert list(only.data_vars) == ["regret"]
    assert "arm" not in only.coords
    with pytest.raises(ValueError, match="no variable regrets in a result; there are regret,"):
        fb.load_experiment(out, ["regrets"])

    lost = store.read_manifest(out).cells[1]
    store.cell_path(out, lost.hash).unlink()
    data = fb.load_experiment(out)
    assert data.attrs["missing"] == 1
    gone = data["regret"].isnull().all(["run", "time"])
    np.testing.assert_array_equal(gone, [[False, True], [False, False]])
    assert np.isnan(data["recommended_arm"][0, 1]).all()


ALTERNATIVES = """
[[algorithm]]
name = "FedExp3"
learning_rate = [0.1, 0.3]
exploration = { name = "power", c = [0.01, 0.02], a = 0.5 }

[[algorithm]]
name = "Exp3"
learning_rate = 0.1
"""


@pytest.mark.slow
def test_parameters_of_alternatives_are_coordinates(tmp_path: Path) -> None:
    """The axis has one text for each alternative; each parameter that differs has a coordinate."""
    text = SMALL_CONFIG.partition("[algorithm]")[0] + ALTERNATIVES
    data = fb.load_experiment(play(tmp_path, "seed=[0, 1]", text=text))
    assert data["regret"].dims == ("algorithm", "seed", "run", "time")
    assert data["algorithm"].to_numpy()[-1] == "Exp3(learning_rate=0.1)"
    for name in ("algorithm.name", "learning_rate", "exploration", "c", "a"):
        assert data.coords[name].dims == ("algorithm",)
    assert data["algorithm.name"].to_numpy().tolist() == ["FedExp3"] * 4 + ["Exp3"]
    assert data["learning_rate"].to_numpy().tolist() == [0.1, 0.1, 0.3, 0.3, 0.1]
    np.testing.assert_array_equal(data["c"], [0.01, 0.02, 0.01, 0.02, np.nan])
    assert data["exploration"].to_numpy().tolist() == ["power"] * 4 + [""]
    both = data.isel(algorithm=slice(4)).set_index(algorithm=["learning_rate", "c"])
    table = both.final_regret.mean("run").unstack("algorithm")
    assert table.sizes == {"learning_rate": 2, "c": 2, "seed": 2}


def test_one_coordinate_where_nothing_else_differs(tmp_path: Path) -> None:
    changes = 'algorithm=[{name = "FedExp3"}, {name = "Exp3"}]'
    data = fb.load_experiment(play(tmp_path, changes))
    assert data["algorithm"].to_numpy().tolist() == ["FedExp3", "Exp3"]
    assert "algorithm.name" not in data.coords


def test_zipped_parameters_share_a_dimension(tmp_path: Path) -> None:
    text = SMALL_CONFIG + "learning_rate = [0.1, 0.3]\n"
    text += 'exploration = { name = "power", c = [0.01, 0.02], a = 0.5 }\n'
    text += '[sweep]\nzip = [["algorithm.learning_rate", "algorithm.exploration.c"]]\n'
    data = fb.load_experiment(play(tmp_path, text=text))
    assert data["regret"].dims == ("learning_rate", "run", "time")
    assert data["c"].dims == ("learning_rate",)
    assert data["c"].to_numpy().tolist() == [0.01, 0.02]


@pytest.mark.slow
def test_names_that_are_taken_are_whole_paths(tmp_path: Path) -> None:
    data = fb.load_experiment(play(tmp_path, "seed=[0, 1]", "problem.seed=[5, 6]"))
    assert data["regret"].dims[:2] == ("problem.seed", "seed")


@pytest.mark.slow
def test_other_horizons_and_runs_are_joined(tmp_path: Path) -> None:
    zipped = 'sweep.zip=[["runs", "problem.horizon"]]'
    data = fb.load_experiment(play(tmp_path, "problem.horizon=[10, 20]", "runs=[1, 2]", zipped))
    assert data["time"].to_numpy().tolist() == list(range(1, 21))
    assert data.sizes["run"] == 2
    assert data["horizon"].dims == ("runs",)
    short = data["regret"].sel(runs=1)
    assert np.isfinite(short[0, :10]).all()
    assert np.isnan(short[1:]).all()
    assert np.isnan(short[:, 10:]).all()
    assert np.isfinite(data["regret"].sel(runs=2)).all()
    for name in ("regret", "expected_regret"):
        final = fb.load_experiment(tmp_path / "out", [f"final_{name}"])[f"final_{name}"]
        assert final.dims == ("runs", "run")
        np.testing.assert_array_equal(final, data[f"final_{name}"])
        ends = [[data[name][0, 0, 9], np.nan], data[name][1, :, 19]]
        np.testing.assert_array_equal(final, ends)


@pytest.mark.soak
def test_what_is_kept_for_each_agent_needs_the_same_agents(tmp_path: Path) -> None:
    text = SMALL_CONFIG.replace("agents = 4", "agents = [4, 6]").replace(
        "cols = 2", "cols = [2, 3]"
    )
    text += '[sweep]\nzip = [["problem.agents", "network.cols"]]\n'
    data = fb.load_experiment(play(tmp_path, text=text))
    assert "agent_regret" not in data
    assert "recommended_arm" not in data
    assert data["arm_frequency"].dims == ("agents", "run", "time", "arm")
    assert data.attrs["left_out"] == "what is kept for each agent: cells differ in their agents"
    assert data["cols"].dims == ("agents",)


@pytest.mark.soak
def test_agents_and_arms_with_names(tmp_path: Path) -> None:
    rows = [f"{t},{v},{i},0.5" for t in (1, 2) for v in ("ä", "b") for i in "xy"]
    (tmp_path / "losses.csv").write_text("\n".join(["time,agent,arm,loss", *rows]))
    text = '[problem]\nname = "from_table"\ntable = "losses.csv"\n[algorithm]\nname = "Exp3"\n'
    data = fb.load_experiment(play(tmp_path, "seed=[0, 1]", text=text))
    assert data["agent"].to_numpy().tolist() == ["b", "ä"]
    assert data["arm_loss"].sel(arm="y", time=2).to_numpy().tolist() == [1.0, 1.0]


def test_nothing_is_done(tmp_path: Path) -> None:
    out = play(tmp_path, RATES)
    for path in (out / "cells").iterdir():
        path.unlink()
    with pytest.raises(
        ValueError, match=r"none of the 2 cells in .* play them with fedbandits run"
    ):
        fb.load_experiment(out)


@pytest.mark.soak
def test_cells_with_snapshots(tmp_path: Path) -> None:
    out = play(tmp_path, RATES, "record=agents")
    data = fb.load_experiment(out)
    assert "leading_arm" not in data  # of one cell at a time: they are large
    for cell in store.read_manifest(out).cells:
        one = fb.load(store.cell_path(out, cell.hash))
        assert one.dataset["leading_arm"].dims == ("run", "snapshot", "agent")
        assert one.dataset.sizes["snapshot"] == 20
    plain = make_plan(tmp_path / "sweep.toml", (RATES,))
    kept = {cell.hash for cell in store.read_manifest(out).cells}
    assert not kept & {*plain.hashes}  # what keeps more is another cell
