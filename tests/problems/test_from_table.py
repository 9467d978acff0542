"""A table as it comes: its own names, rewards, dates, gaps, and errors in its own words."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.config.document import load_config
from fedbandits.results.plots import plot_regret
from fedbandits.sweeps.plan import make_plan
from fedbandits.sweeps.run import run_sweep

NAMES = {"time": "date", "agent": "shop", "arm": "offer", "reward": "revenue"}
DAYS = ["2025-03-29", "2025-03-30", "2025-03-31"]
CONFIG = """
runs = 2

[problem]
name = "from_table"
table = "sales.csv.gz"
columns = { time = "date", agent = "shop", arm = "offer", reward = "revenue" }
low = 0
high = 50
missing = 10

[algorithm]
name = "Exp3"
"""


def sales(days: list[Any] = DAYS) -> pd.DataFrame:
    """Revenues 0, 10, ..., 50 and again: by day, shop (Kiel, Bonn) and offer (tea, jam)."""
    rows = [(day, shop, offer) for day in days for shop in ("Kiel", "Bonn") for offer in "tj"]
    frame = pd.DataFrame(rows, columns=["date", "shop", "offer"])
    frame["offer"] = frame["offer"].map({"t": "tea", "j": "jam"})
    return frame.assign(revenue=[n % 6 * 10.0 for n in range(len(frame))], weather="fair")


def losses(problem: fb.Problem) -> list[Any]:
    """By round, shop (Bonn, Kiel) and offer (jam, tea)."""
    return list(problem.block(1, problem.horizon).tolist())


REVENUES = np.array([[[30, 20], [10, 0]], [[10, 0], [50, 40]], [[50, 40], [30, 20]]])


def make(frame: pd.DataFrame | Path, **options: Any) -> fb.Problem:
    given: dict[str, Any] = {"columns": NAMES, "low": 0, "high": 50} | options
    return fb.problems.from_table(frame, **given)


def play(problem: fb.Problem) -> fb.Result:
    return fb.simulate(problem, fb.Uniform(), runs=2)


def test_columns_by_their_own_names() -> None:
    problem = make(sales())
    assert (problem.agent_names, problem.arm_names) == (("Bonn", "Kiel"), ("jam", "tea"))
    np.testing.assert_allclose(losses(problem), 1 - REVENUES / 50)
    # The range and the sign are said once; what stays as it is goes by the role's own name.
    frame = sales().rename(columns={"date": "time", "shop": "agent", "revenue": "reward"})
    fewer = fb.problems.from_table(frame, columns={"arm": "offer"}, low=0, high=50)
    assert losses(fewer) == losses(problem)


def test_columns_of_losses() -> None:
    columns = {"time": "date", "agent": "shop", "arm": "offer", "loss": "revenue"}
    np.testing.assert_allclose(losses(make(sales(), columns=columns)), REVENUES / 50)
    unscaled = fb.problems.from_table(sales(), columns=columns)
    np.testing.assert_array_equal(losses(unscaled), REVENUES)
    # A range may still be given afterwards, as for any other problem.
    np.testing.assert_allclose(losses(fb.problems.scaled(unscaled, 0, 50)), REVENUES / 50)


def test_a_column_reward_is_recognised() -> None:
    frame = sales().rename(columns={"date": "time", "shop": "agent", "offer": "arm"})
    frame = frame.drop(columns="revenue").assign(reward=0.25)
    assert losses(fb.problems.from_table(frame))[0] == [[0.75, 0.75], [0.75, 0.75]]


def test_a_range_is_given_once() -> None:
    """Scaling what is scaled would flip rewards twice, or take a range of a range."""
    problem = make(sales())
    for options in ({}, {"rewards": True}):
        with pytest.raises(ValueError, match=r"is scaled already, from \[0, 50\].* from_table"):
            fb.problems.scaled(problem, 0, 50, **options)


def test_a_year_of_local_time_is_in_utc(tmp_path: Path) -> None:
    """The clocks change: one column, two offsets, and an hour that is there twice."""
    local = ["2025-10-26T01:30+02:00", "2025-10-26T02:30+02:00", "2025-10-26T02:30+01:00"]
    elsewhere = sales(local).replace({local[2]: "2025-10-26T10:30+09:00"})
    elsewhere = elsewhere.where(elsewhere["shop"] == "Bonn", sales(local))  # the same moment
    utc = np.array(["2025-10-25T23:30", "2025-10-26T00:30", "2025-10-26T01:30"], "datetime64[ns]")
    sales(local).sample(frac=1, random_state=0).to_csv(tmp_path / "local.csv", index=False)
    stamps = [pd.Timestamp(when) for when in local]
    for source in (sales(local), sales(stamps), elsewhere, tmp_path / "local.csv"):
        problem = make(source)
        assert losses(problem) == losses(make(sales()))
        np.testing.assert_array_equal(problem.dates, utc)
    zoned = sales(DAYS).assign(date=pd.to_datetime(sales()["date"]).dt.tz_localize("Europe/Berlin"))
    expected = np.array(["2025-03-28T23", "2025-03-29T23", "2025-03-30T22"], "datetime64[ns]")
    np.testing.assert_array_equal(make(zoned).dates, expected)


def test_some_times_with_an_offset_and_some_without() -> None:
    mixed = sales(["2025-03-29T08:00", "2025-03-30T08:00+02:00", "2025-03-31T08:00"])
    message = r"date '2025-03-30T08:00\+02:00' has an offset from UTC, but '2025-03-29T08:00' has"
    with pytest.raises(ValueError, match=message):
        make(mixed)


@pytest.mark.slow
def test_dates_reach_the_result_and_its_file(tmp_path: Path) -> None:
    result = play(make(sales()))
    expected = np.array(DAYS, "datetime64[ns]")
    result.save(tmp_path / "sales.nc")
    for data in (result.dataset, fb.load(tmp_path / "sales.nc").dataset):
        assert data["time"].to_numpy().tolist() == [1, 2, 3]
        assert data["date"].dims == ("time",)
        np.testing.assert_array_equal(data["date"], expected)
    assert fb.load(tmp_path / "sales.nc").dataset.identical(result.dataset)
    by_day = result.dataset["arm_loss"].swap_dims(time="date").sel(date="2025-03-30")
    np.testing.assert_allclose(by_day, (1 - REVENUES / 50)[:2].mean(axis=1).sum(axis=0))


@pytest.mark.slow
def test_only_recorded_rounds_have_dates_in_a_long_result() -> None:
    days = [day.date() for day in pd.date_range("2020-01-01", periods=1200)]
    data = play(make(sales(days))).dataset
    assert data.sizes["time"] < 1200
    since = (data["date"] - np.datetime64("2019-12-31")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(since, data["time"])


@pytest.mark.slow
def test_times_that_are_numbers_are_no_dates() -> None:
    problem = make(sales([10, 20, 30]))
    assert problem.dates is None
    assert "date" not in play(problem).dataset.coords


@pytest.mark.slow
def test_plots_are_over_dates_where_there_are_some() -> None:
    dated, plain = play(make(sales())), play(make(sales([1, 2, 3])))
    ax = dated.plot()
    assert ax.get_xlabel() == "date"
    drawn = np.asarray(ax.lines[0].get_xdata(), "datetime64[D]").astype(str).tolist()
    assert drawn == DAYS
    days = np.array([DAYS[0], DAYS[-1]], "datetime64[D]").astype(int)  # as matplotlib counts them
    np.testing.assert_array_equal(ax.get_xlim(), days)
    dated.plot(ax)
    assert ax.get_xlabel() == "date"
    for ax in (plot_regret({"a": dated, "b": plain}), dated.plot(plain.plot())):
        assert ax.get_xlabel() == "round $t$"
        assert [np.asarray(line.get_xdata())[-1] for line in ax.lines] == [3, 3]


@pytest.mark.slow
def test_bounds_are_over_rounds() -> None:
    gossip = fb.gossip.max_degree(fb.networks.path(2))
    assert play(make(sales())).plot(bounds=gossip).get_xlabel() == "round $t$"


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ({"missing": 5}, 5),
        ({"fill": 5}, 5),  # on the table's scale, like every value
        ({"missing": "carry"}, 0),  # what Bonn made of tea the day before
        ({"missing": "mean"}, np.mean([0, 20, 40, 0, 20])),  # of tea, wherever and whenever
    ],
)
@pytest.mark.filterwarnings("ignore:missing=")
@pytest.mark.parametrize("how", ["no row", "empty"])
def test_missing_cells(missing: dict[str, Any], expected: float, how: str) -> None:
    """Bonn's revenue of tea on the last day is not known."""
    frame = sales()
    gap = frame.index == 10
    frame = frame[~gap] if how == "no row" else frame.assign(revenue=frame["revenue"].mask(gap))
    whole = REVENUES.astype(float)
    whole[2, 0, 1] = expected
    np.testing.assert_allclose(losses(make(frame, **missing)), 1 - whole / 50)


def test_a_shop_without_any_revenue_stays_a_shop() -> None:
    frame = sales()
    frame.loc[frame["shop"] == "Kiel", "revenue"] = np.nan
    with pytest.warns(UserWarning, match="shop 'Kiel' has 6 of 6 cells filled"):
        problem = make(frame, missing=25)
    assert problem.agent_names == ("Bonn", "Kiel")
    np.testing.assert_allclose(problem.block(1, 3)[:, 1], 0.5)


@pytest.mark.parametrize("missing", [25, "mean", "carry"])
def test_cells_that_are_filled_are_counted(missing: float | str) -> None:
    with pytest.warns(UserWarning, match="filled") as said:
        make(sales().drop(index=[9, 10]), missing=missing)
    assert [str(warning.message) for warning in said] == [
        f"missing={missing!r} filled 2 of 12 cells (17%)"
    ]
    assert said[0].filename == __file__
    assert make(sales(), missing=missing).horizon == 3  # nothing to say


def test_a_misspelt_name_is_suspected() -> None:
    """A name with a blank behind it is another shop, of which next to nothing is known."""
    frame = sales()
    frame.loc[0, "shop"] = "Kiel "
    message = (
        r"filled 6 of 18 cells \(33%\)\. The shop 'Kiel ' has 5 of 6 cells filled and values from "
        r"date 2025-03-29 to 2025-03-29: a misspelt name, or a late start\?$"
    )
    with pytest.warns(UserWarning, match=message):
        make(frame, missing=0)
    other = sales()
    other.loc[0, "offer"] = "jam "
    with pytest.warns(UserWarning, match=r"\. The offer 'jam ' has 5 of 6 cells filled"):
        make(other, missing=0)


def test_compressed_tables(tmp_path: Path) -> None:
    sales().to_csv(tmp_path / "sales.csv.gz", index=False)
    assert losses(make(tmp_path / "sales.csv.gz")) == losses(make(sales()))
    cut = (tmp_path / "sales.csv.gz").read_bytes()[:-12]
    (tmp_path / "cut.csv.gz").write_bytes(cut)
    (tmp_path / "plain.csv.gz").write_text("date,shop\n")
    with gzip.open(tmp_path / "empty.csv.gz", "wt"):
        pass
    for name in ("cut.csv.gz", "plain.csv.gz", "empty.csv.gz"):
        with pytest.raises(ValueError, match=rf"{name} cannot be read as a table"):
            make(tmp_path / name)


def test_agents_that_are_numbers_in_the_table_and_text_in_the_network() -> None:
    network = fb.networks.from_networkx(nx.Graph([(7, 3)]))
    frame = sales().replace({"Kiel": 7, "Bonn": 3})
    problem = make(frame, agents=network.names)
    assert problem.agent_names == ("7", "3")
    np.testing.assert_allclose(problem.block(1, 3), (1 - REVENUES / 50)[:, ::-1])


LAST = r"date 2025-03-31, shop Bonn, offer jam"
FIRST = r"date 2025-03-29 \(round 1\), shop Bonn, offer jam"


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (sales(), {"columns": None}, r"no column 'time'; it has date, shop, .*columns=\{'time'"),
        (sales(), {"columns": NAMES | {"arm": "deal"}}, "no column 'deal', which .* as the arm"),
        (
            sales(),
            {"columns": {k: v for k, v in NAMES.items() if k != "reward"}},
            r"no column 'loss'; .*columns=\{'loss': \.\.\. or 'reward': \.\.\.\}",
        ),
        (sales(), {"columns": {"date": "time"}}, r"unknown key 'date': write \{'time': 'date'\}"),
        (
            sales(),
            {"columns": {"when": "date"}},
            "unknown key 'when'; .* time, agent, arm, loss and reward",
        ),
        (sales(), {"columns": NAMES | {"loss": "revenue"}}, "names a loss and a reward"),
        (sales(), {"columns": NAMES | {"arm": "shop"}}, "one column two roles: date, shop, shop"),
        (sales().replace({"Bonn": None}), {}, r"the table has no shop in row 2 \(counted from 0\)"),
        (
            sales().assign(revenue=["50 EUR", *sales()["revenue"][1:]]),
            {},
            r"revenue in row 0 \(counted from 0\) at date 2025-03-29, .* is '50 EUR', not a n",
        ),
        (
            sales().assign(revenue=[*sales()["revenue"][:-1], np.nan]),
            {},
            r"no value for 1 of 12 cells .* date 2025-03-31 \(round 3\), shop Bonn, offer jam\. ",
        ),
        (
            pd.concat([sales(), sales().tail(1)]),
            {},
            rf"more than one revenue for {LAST}: the second is in row 12 \(",
        ),
        (
            sales().drop(index=3),
            {},
            rf"no value for 1 of 12 cells \(8%\), the first .* {FIRST}\. .* 'mean'",
        ),
        (sales().drop(index=3), {"missing": "carry"}, rf"no earlier value for the .* {FIRST}\. "),
        (
            sales().drop(index=[2, 3]),
            {"missing": "carry"},
            rf"no earlier value for the .* {FIRST}, nor for 1 other cell\. ",
        ),
        (
            sales()[sales()["offer"] == "tea"],
            {"missing": "mean", "arms": ["jam", "tea"]},
            rf"no value of this arm for the revenue at {FIRST}",
        ),
        (sales(), {"missing": "median"}, "missing must be a number, 'mean' or 'carry', not 'med"),
        (sales(), {"missing": 0, "fill": 0}, "give only missing: fill is its older name"),
        (sales(), {"agents": ["Kiel"]}, "has shop 'Bonn' in row 2 .* which agents does not name"),
        (sales(), {"arms": ["jam", "jam"]}, "arms names 'jam' twice"),
        (sales(["a week ago"]), {}, "the table's date 'a week ago' is neither a number nor a date"),
        (sales(), {"low": 50, "high": 0}, "low < high, not low=50, high=0"),
    ],
)
def test_refused_in_the_tables_own_words(
    frame: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(frame, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"columns": "date"}, "columns must be a table such as"), ({"missing": []}, "be a number")],
)
def test_refused_types(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(sales(), **options)


def test_values_outside_the_range_in_the_tables_own_words() -> None:
    place = r"the revenue at date 2025-03-30 \(round 2\), shop Kiel, offer jam is 50"
    with pytest.raises(ValueError, match=place + r" before scaling, not in \[low, high\] = \[0, 4"):
        play(make(sales(), high=40))
    as_losses = {"time": "date", "agent": "shop", "arm": "offer", "loss": "revenue"}
    first = r"the revenue at date 2025-03-29 \(round 1\), shop Bonn, offer jam is 30, not in \[0, "
    with pytest.raises(ValueError, match=first + r"1\]\. .* low and high .*'reward': 'revenue'"):
        play(fb.problems.from_table(sales(), columns=as_losses))


@pytest.mark.filterwarnings("ignore:missing=")
def test_a_configuration_reaches_all_of_it(tmp_path: Path) -> None:
    sales().drop(index=3).to_csv(tmp_path / "sales.csv.gz", index=False)
    (tmp_path / "sales.toml").write_text(CONFIG)
    expected = make(sales().drop(index=3), missing=10)
    assert losses(load_config(tmp_path / "sales.toml").simulation.problem) == losses(expected)
    other = load_config(
        tmp_path / "sales.toml",
        ["problem.columns.reward=weather", "problem.columns.reward=revenue"],
    )
    assert losses(other.simulation.problem) == losses(expected)
    with pytest.raises(ValueError, match=re.escape("[problem] with --set problem.columns.arm=x: ")):
        load_config(tmp_path / "sales.toml", ["problem.columns.arm=x"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:missing=")
def test_a_sweep_over_policies_and_columns(tmp_path: Path) -> None:
    """Lists inside `columns` are swept like all others; the dates stay where cells share them."""
    frame = sales().drop(index=7).assign(margin=lambda f: f["revenue"] / 2)
    frame.to_csv(tmp_path / "sales.csv.gz", index=False)
    text = CONFIG.replace('"revenue"', '["revenue", "margin"]')
    text = text.replace("missing = 10", 'missing = [10, "mean", "carry"]')
    (tmp_path / "sales.toml").write_text(text)
    plan = make_plan(tmp_path / "sales.toml", [])
    run_sweep(plan, tmp_path / "out", ["fedbandits", "run", "sales.toml"])
    data = fb.load_experiment(tmp_path / "out")
    assert data["final_regret"].dims == ("reward", "missing", "run")
    assert data["reward"].to_numpy().tolist() == ["revenue", "margin"]
    np.testing.assert_array_equal(data["date"], np.array(DAYS, "datetime64[ns]"))
    for reward in ("revenue", "margin"):
        for missing in (10, "mean", "carry"):
            alone = make(frame, columns=NAMES | {"reward": reward}, missing=missing)
            total = data["arm_loss"].sel(reward=reward, missing=str(missing)).isel(time=-1)
            expected = alone.block(1, 3).mean(axis=1).sum(axis=0)
            np.testing.assert_allclose(total, expected, rtol=1e-6)
    assert "date" not in fb.load_experiment(tmp_path / "out", ["final_regret"]).coords


@pytest.mark.slow
def test_cells_with_other_dates_have_none_in_common(tmp_path: Path) -> None:
    for name, days in (("spring", DAYS), ("autumn", ["2025-09-01", "2025-09-02", "2025-09-03"])):
        sales(days).to_csv(tmp_path / f"{name}.csv", index=False)
    text = CONFIG.replace('"sales.csv.gz"', '["spring.csv", "autumn.csv"]')
    (tmp_path / "sales.toml").write_text(text)
    plan = make_plan(tmp_path / "sales.toml", [])
    run_sweep(plan, tmp_path / "out", ["fedbandits", "run", "sales.toml"])
    assert "date" not in fb.load_experiment(tmp_path / "out").coords


def one_of_each(**columns: Any) -> pd.DataFrame:
    rows = {"time": [1, 2, 1, 2], "agent": ["a", "a", "b", "b"], "arm": ["x", "x", "x", "x"]}
    table = pd.DataFrame(rows | {"loss": [0.0, 1.0, 0.0, 1.0]} | columns)
    return pd.concat([table, table.assign(arm="y")])


def test_numbers_among_objects_are_numbers() -> None:
    times = pd.Series([2, 1, 2, 1], dtype=object)
    assert fb.problems.from_table(one_of_each(time=times)).block(1, 2)[:, 0, 0].tolist() == [1, 0]


def test_dates_that_files_cannot_hold_are_refused() -> None:
    far = ["3000-01-01", "3000-01-02"] * 2
    with pytest.raises(ValueError, match="3000-01-01 is outside 1678 to 2262"):
        fb.problems.from_table(one_of_each(time=far))


def test_a_label_as_a_number_and_as_text_is_refused() -> None:
    agents = pd.Series([1, 1, "1", "1"], dtype=object)
    with pytest.raises(ValueError, match="has 1 as a number and as text"):
        fb.problems.from_table(one_of_each(agent=agents))


def test_rounds_are_not_drawn_on_axes_with_dates() -> None:
    dated = fb.problems.from_table(one_of_each(time=["2025-01-01", "2025-01-02"] * 2))
    ax = fb.simulate(dated, fb.Uniform(), runs=1).plot()
    plain = fb.simulate(fb.problems.from_table(one_of_each()), fb.Uniform(), runs=1)
    with pytest.raises(ValueError, match="the axes have dates"):
        plain.plot(ax)
