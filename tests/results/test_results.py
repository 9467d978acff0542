"""Results: bands, tables, files, comparisons, plots."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import fedbandits as fb
from fedbandits.cli.tables import recommendation_line
from fedbandits.common.files import save_figure
from fedbandits.results.plots import plot_regret
from fedbandits.results.result import DIMENSIONS, FORMAT, Unbuilt
from fedbandits.results.summary import COLUMNS, text_table

mpl.use("agg")

PROBLEM = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=90, seed=0)
GOSSIP = fb.gossip.max_degree(fb.networks.ring(6))


@pytest.fixture(scope="module")
def result() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=5)


@pytest.fixture(scope="module")
def other() -> fb.Result:
    return fb.simulate(PROBLEM, fb.Exp3(), GOSSIP, runs=5)


@pytest.mark.slow
def test_dimensions(result: fb.Result) -> None:
    dims = {name: values.dims for name, values in result.dataset.data_vars.items()}
    assert dims == {
        "regret": ("run", "time"),
        "expected_regret": ("run", "time"),
        "worst_regret": ("time",),
        "agent_regret": ("run", "agent"),
        "agent_expected_regret": ("run", "agent"),
        "arm_loss": ("time", "arm"),
        "round_loss": ("round", "arm"),
        "arm_frequency": ("run", "time", "arm"),
        "recommended_arm": ("run", "agent"),
    }
    assert result.dataset["time"].values.tolist() == list(range(1, 91))
    np.testing.assert_allclose(result.dataset["arm_frequency"].sum("arm"), 1, rtol=1e-6)
    np.testing.assert_allclose(
        result.dataset["agent_regret"].mean("agent"),
        result.dataset["regret"].isel(time=-1),
        atol=1e-4,
    )


def test_configuration_says_what_was_run(result: fb.Result) -> None:
    config = result.config
    assert config["version"] == fb.__version__
    assert config["algorithm"]["learning_rate"] == {"name": "MixingAware", "c": 2.0}
    assert config["problem"]["agents"] == 6
    assert (config["network"]["name"], config["gossip"]["name"]) == ("ring", "max_degree")
    assert (config["runs"], config["seed"], config["dtype"]) == (5, 0, "float32")


def test_band_is_students_t(result: fb.Result) -> None:
    mean, low, high = result.band("regret")
    values = result.dataset["regret"].values[:, -1]
    expected = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    np.testing.assert_allclose([low[-1], high[-1]], expected, rtol=1e-9)
    assert float(mean[-1]) == pytest.approx(values.mean())


WHY = "one run has no 95% interval: use at least two runs"


@pytest.mark.slow
def test_one_run_has_no_band() -> None:
    """Values are printed without limits, and with the reason."""
    single = fb.simulate(PROBLEM, fb.Uniform(), runs=1)
    other = fb.simulate(PROBLEM, fb.Exp3(), runs=1)
    shown = [repr(single), repr(fb.compare(single, other))]  # before the dataset is built, and
    assert np.isnan(single.band().low).all()
    shown += [repr(single), repr(fb.compare(single, other, single))]  # after
    assert shown[0] == shown[2]
    assert "Result(Uniform: 1 run, 6 agents" in shown[0]
    for text in shown:
        assert text.count(WHY) == 1
        assert "NaN" not in text
        assert "high 95%" not in text
    assert f"  {float(single.dataset['regret'][0, -1]):.2f}\n" in shown[0]
    title = fb.plot(single, other).get_legend().get_title().get_text()  # type: ignore[union-attr]
    assert title == "no band: one run"
    several = fb.simulate(PROBLEM, fb.Exp3(), runs=2)
    title = fb.plot(single, several).get_legend().get_title().get_text()  # type: ignore[union-attr]
    assert title == "band: 95% over 2 runs on fixed losses\nno band: one run"


@pytest.mark.slow
def test_summary(result: fb.Result) -> None:
    table = result.summary()
    assert list(table.columns) == ["regret", "low 95%", "high 95%"]
    assert table.loc["mean agent", "regret"] == pytest.approx(
        float(result.dataset["regret"].isel(time=-1).mean())
    )
    worst = table[table.index.str.startswith("worst agent")].iloc[0]
    assert worst["regret"] == pytest.approx(
        float(result.dataset["worst_regret"].isel(time=-1)), abs=1e-4
    )
    assert worst["low 95%"] < worst["regret"] < worst["high 95%"]
    uniform = fb.simulate(PROBLEM, fb.Uniform(), runs=2).dataset["expected_regret"]
    assert table.loc["uniform play, exact", "regret"] == pytest.approx(
        float(uniform.isel(time=-1)[0]), abs=1e-4
    )
    assert "mean agent" in repr(result)


def test_against_goes_both_ways(result: fb.Result) -> None:
    final = result.against("final")
    assert final.dataset.attrs["against"] == "final"
    best = int(result.dataset["arm_loss"].isel(time=-1).argmin("arm"))
    gap = result.dataset["arm_loss"].min("arm") - result.dataset["arm_loss"].isel(arm=best)
    np.testing.assert_allclose(final.dataset["regret"] - result.dataset["regret"], [gap] * 5)
    back = final.against("current").dataset
    xr.testing.assert_allclose(back, result.dataset)
    with pytest.raises(ValueError, match="against must be 'current' or 'final', not 'x'"):
        result.against("x")  # type: ignore[arg-type]


def with_names(result: fb.Result, **changes: Any) -> fb.Result:
    """The same result where agents and arms have names."""
    names = {"agent": [f"shop{v}" for v in range(6)], "arm": ["tea", "coffee", "cocoa"]}
    return fb.Result(result.dataset.assign_coords(names).assign(changes), GOSSIP)


def test_agents_and_arms_go_by_name(result: fb.Result) -> None:
    named = with_names(result)
    number = int(result.dataset["agent_expected_regret"].mean("run").argmax("agent"))
    assert (result.worst_agent, named.worst_agent) == (number, f"shop{number}")
    assert named.worst_index == result.worst_index == number
    row = f"worst agent (shop{number}), expected"
    assert row in named.summary().index
    assert row in named.bounds().index
    assert named.bounds()["value"].tolist() == result.bounds()["value"].tolist()


def test_best_arm(result: fb.Result) -> None:
    """Of 90 rounds, in 5 runs of 6 agents: two thirds recommend the best arm."""
    at_end = np.array([[30.0, 9.0, 18.0]])
    losses = np.vstack([np.tile([[0.0, 1.0, 2.0]], (89, 1)), at_end])  # only the end counts
    chosen = np.tile([1, 1, 1, 1, 0, 2], (5, 1))
    changes = {
        "arm_loss": (("time", "arm"), losses),
        "recommended_arm": (("run", "agent"), chosen),
    }
    best = with_names(result, **changes).best_arm
    assert (best.arm, best.second) == ("coffee", "cocoa")
    assert (best.gap, best.agreement) == pytest.approx((0.1, 2 / 3))
    words = "coffee, its mean loss 0.1 below cocoa's; recommended by 67% of agents and runs"
    assert str(best) == words
    assert repr(best) == f"BestArm({words})"
    assert words in repr(with_names(result, **changes))
    line = recommendation_line(with_names(result, **changes))
    assert line == (
        "recommended arm: coffee, by 67% of agents and runs; the best in hindsight, its mean loss "
        "0.1 below cocoa's"
    )
    most = changes | {"recommended_arm": (("run", "agent"), np.where(chosen == 1, 0, chosen))}
    line = recommendation_line(with_names(result, **most))
    assert line == (
        "recommended arm: tea, by 83% of agents and runs; in hindsight coffee, its mean loss 0.1 "
        "below cocoa's; recommended by 0% of agents and runs"
    )
    numbered = fb.Result(result.dataset.assign(changes)).best_arm
    assert (numbered.arm, numbered.second) == (1, 2)
    assert str(numbered).startswith("arm 1, its mean loss 0.1 below arm 2's")
    level = changes | {"arm_loss": (("time", "arm"), losses * [1, 2, 1])}
    assert "coffee, as good as cocoa; recommended by" in str(with_names(result, **level).best_arm)


def test_curves_as_a_table(result: fb.Result, tmp_path: Path) -> None:
    table = result.to_pandas()
    assert table.index.name == "time"
    assert table.index.tolist() == list(range(1, 91))
    limits = ("", "_low", "_high")
    assert list(table) == [
        *(f"{name}{limit}" for name in ("regret", "expected_regret") for limit in limits),
        "worst_regret",
    ]
    for name in ("regret", "expected_regret"):
        for limit, values in zip(limits, result.band(name), strict=True):
            np.testing.assert_array_equal(table[f"{name}{limit}"], values)
    np.testing.assert_array_equal(table["worst_regret"], result.dataset["worst_regret"])
    path = result.to_csv(tmp_path / "new" / "curves.csv")
    assert [file.name for file in path.parent.iterdir()] == ["curves.csv"]
    pd.testing.assert_frame_equal(pd.read_csv(path, index_col="time"), table)
    with pytest.raises(ValueError, match=r"end the name in \.csv, not grid\.nc"):
        result.to_csv(tmp_path / "grid.nc")


def test_what_else_is_known_of_a_round_is_in_the_table(result: fb.Result) -> None:
    days = pd.date_range("2024-01-01", periods=90)
    dated = fb.Result(result.dataset.assign_coords(date=("time", days)))
    table = dated.to_pandas()
    assert list(table)[:2] == ["date", "regret"]
    assert table["date"].tolist() == days.tolist()


def test_saved_and_loaded(result: fb.Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "a" / "grid.nc")
    loaded = fb.load(path)
    assert loaded.dataset.identical(result.dataset)
    assert loaded.config == result.config
    assert [f.name for f in path.parent.iterdir()] == ["grid.nc"]


@pytest.mark.parametrize("name", ["grid.nc", "grid.csv", "grid.pdf"])
def test_a_failed_write_leaves_the_old_file(
    result: fb.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    writers: dict[str, Callable[[Path], object]] = {
        ".nc": result.save,
        ".csv": result.to_csv,
        ".pdf": lambda path: result.plot(path=path),
    }
    write = writers[path.suffix]
    write(path)
    old = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_foreign_and_broken_files(result: fb.Result, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no result file at"):
        fb.load(tmp_path / "none.nc")
    path = result.save(tmp_path / "grid.nc")
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"grid\.nc is not a readable NetCDF file"):
            fb.load(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match="not a readable NetCDF file"):
        fb.load(path)
    xr.Dataset({"x": ("y", [1.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="not a fedbandits result"):
        fb.load(path)
    fb.Result(result.dataset.assign_attrs(fedbandits_format=FORMAT + 1)).save(path)
    with pytest.raises(ValueError, match="of layout 2; this version reads 1"):
        fb.load(path)
    for name in DIMENSIONS:
        fb.Result(result.dataset.drop_vars(name)).save(path)
        with pytest.raises(ValueError, match=f"lacks {name}"):
            fb.load(path)
    damaged = result.dataset.copy()
    del damaged.attrs["config"]
    fb.Result(damaged).save(path)
    with pytest.raises(ValueError, match="lacks config"):
        fb.load(path)
    with pytest.raises(ValueError, match=r"end the name in \.nc, not grid\.pkl"):
        result.save(tmp_path / "grid.pkl")


def test_compare_is_paired(result: fb.Result, other: fb.Result) -> None:
    comparison = fb.compare(result, other)
    difference = (result.dataset["regret"] - other.dataset["regret"]).values[:, -1]
    row = comparison.summary().loc["FedExp3 - Exp3"]
    assert row["difference"] == pytest.approx(difference.mean())
    expected = stats.t.interval(0.95, 4, difference.mean(), stats.sem(difference))
    np.testing.assert_allclose([row["low 95%"], row["high 95%"]], expected, rtol=1e-9)
    assert "FedExp3 - Exp3" in repr(comparison)
    same = fb.compare(result, result).summary().iloc[0]
    assert (same == 0).all()


@pytest.mark.slow
def test_compare_refuses_what_is_not_comparable(result: fb.Result) -> None:
    elsewhere = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=90, seed=1)
    with pytest.raises(ValueError, match="did not face the same losses"):
        fb.compare(result, fb.simulate(elsewhere, fb.Exp3(), runs=5))
    with pytest.raises(ValueError, match="5 and 2 entries along run"):
        fb.compare(result, fb.simulate(PROBLEM, fb.Exp3(), runs=2))
    with pytest.raises(ValueError, match="the current best arm, the other against the final"):
        fb.compare(result, result.against("final"))


@pytest.mark.slow
def test_plot_says_what_it_shows(result: fb.Result, other: fb.Result, tmp_path: Path) -> None:
    ax = plot_regret({"FedExp3": result, "Exp3": other})
    assert ax.get_xlabel() == "round $t$"
    assert "regret" in ax.get_ylabel()
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "band: 95% over 5 runs on fixed losses"
    assert [text.get_text() for text in legend.get_texts()] == ["FedExp3", "Exp3"]
    assert len({line.get_color() for line in ax.lines}) == 2
    assert len(ax.collections) == 2
    result.plot(path=tmp_path / "alone.pdf")
    assert (tmp_path / "alone.pdf").read_bytes().startswith(b"%PDF")
    figure = ax.figure
    save_figure(figure, tmp_path / "a.pdf", tmp_path / "a.png", tmp_path / "a.svg")  # type: ignore[arg-type]
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match=r"cannot save a figure as a\.txt"):
        save_figure(figure, tmp_path / "a.txt")  # type: ignore[arg-type]


@pytest.mark.slow
def test_recommended_arm() -> None:
    problem = fb.problems.bernoulli([0.9, 0.0, 0.8], horizon=2000, agents=6)
    result = fb.simulate(problem, fb.FedExp3(0.5), GOSSIP, runs=3)
    assert result.recommended_arm.dims == ("run", "agent")
    assert (result.recommended_arm == 1).all()
    # Among equals no arm is favoured: uniform play recommends each about as often.
    uniform = fb.simulate(problem, fb.Uniform(), runs=200).recommended_arm
    counts = np.bincount(uniform.values.ravel(), minlength=3)
    # Null: 1,200 independent thirds; six standard errors, 2e-9 for each arm.
    assert np.abs(counts - 400).max() < 6 * np.sqrt(1200 * 2 / 9)


FOUR = fb.gossip.max_degree(fb.networks.ring(4))


def problem(horizon: int = 60, **arguments: Any) -> fb.Problem:
    return fb.problems.activated_bernoulli(agents=4, arms=3, horizon=horizon, **arguments)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one run": {"runs": 1},
    "a liar": {"liars": {0: fb.attacks.swap()}},
    "blurred": {"privacy": fb.privacy.randomised_response(1.0)},
    "against the final arm": {"against": "final"},
    "with snapshots": {"record": "agents"},
    "on draws": {"draws": 2},
    "float64": {"dtype": "float64"},
}


@pytest.mark.parametrize("case", CASES)
def test_it_prints_what_its_dataset_says(case: str) -> None:
    result = fb.simulate(problem(), fb.FedExp3(), FOUR, **{"runs": 3, **CASES[case]})
    before = repr(result)
    assert isinstance(result.dataset, xr.Dataset)
    assert repr(result) == before
    assert repr(fb.Result(result.dataset, result.gossip)) == before


def test_names_are_printed() -> None:
    losses = np.random.default_rng(0).uniform(size=(30, 3, 2))
    named = replace(
        fb.problems.from_tensor(losses), agent_names=tuple("abc"), arm_names=("tea", "coffee")
    )
    result = fb.simulate(named, fb.Exp3(), runs=3)
    before = repr(result)
    assert "worst agent (" in before
    result.summary()
    assert repr(result) == before


def test_where_runs_have_losses_of_their_own() -> None:
    watching = fb.problems.hit_favourite(problem(40))
    result = fb.simulate(watching, fb.FedExp3(), FOUR, runs=3)
    before = repr(result)
    assert "uniform play, on these losses" in before
    result.summary()
    assert repr(result) == before


def test_the_table_is_that_of_pandas() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        scale = 10.0 ** rng.integers(-3, 5)
        values = rng.normal(size=(4, 3)) * scale
        values[rng.uniform(size=values.shape) < 0.2] = rng.choice([np.nan, 0.0, 0.5, 3.0, -1.0])
        rows = {f"row {'x' * i}": tuple(row.tolist()) for i, row in enumerate(values)}
        theirs = pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))
        assert text_table(rows) == theirs.round(2).to_string()


def test_it_is_built_once_and_the_same_when_replaced() -> None:
    result = fb.simulate(problem(), fb.FedExp3(), FOUR, runs=2)
    assert isinstance(result.held, Unbuilt)
    assert result.dataset is result.dataset
    assert replace(result, gossip=None).dataset is result.dataset
    assert result.dataset.attrs == result.held.attrs


@pytest.mark.slow
def test_a_simulation_that_is_printed_loads_no_xarray() -> None:
    code = (
        "import sys, fedbandits as fb\n"
        "problem = fb.problems.bernoulli([0.2, 0.6], horizon=20, agents=3)\n"
        "print(fb.simulate(problem, fb.Exp3(), runs=2))\n"
        "print(*sorted({'xarray', 'pandas', 'dask'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "best in hindsight" in done.stdout
    assert done.stdout.endswith("\n\n"), done.stdout
