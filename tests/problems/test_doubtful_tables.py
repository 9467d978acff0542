"""Tables with many missing cells: the error or warning names the likely cause and its fix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.config.document import load_config
from fedbandits.config.experiment import ConfigError

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo")
POLICIES = (None, "mean", "carry")


def table(rows: Iterable[tuple[Any, Any, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=["time", "agent", "arm"])
    return frame.assign(loss=np.arange(len(frame)) % 5 / 4)


def nine_in_the_morning(days: int = 40, shops: int = 12) -> pd.DataFrame:
    """Shops in three zones report each day at 09:00 of the local clock."""
    return table(
        (
            pd.Timestamp(day).replace(hour=9).tz_localize(ZONES[shop % 3]).isoformat(),
            f"shop{shop:02}",
            arm,
        )
        for day in pd.date_range("2024-03-01", periods=days)
        for shop in range(shops)
        for arm in ("jam", "tea")
    )


def log_of_choices() -> pd.DataFrame:
    """One arm for each agent and time, and the probability of that choice."""
    choices = np.random.default_rng(0).integers(2, size=240)
    log = table(
        (day, f"shop{shop}", ("jam", "tea")[choices[4 * day + shop]])
        for day in range(60)
        for shop in range(4)
    )
    return log.assign(propensity=0.5)


def sampled(periods: Iterable[int], rounds: int = 48) -> pd.DataFrame:
    """Agents that report every `period` rounds."""
    return table(
        (t, f"sensor{v}", arm)
        for v, period in enumerate(periods)
        for t in range(0, rounds, period)
        for arm in ("a", "b")
    )


LOG = "This looks like a log of choices: 240 of 240 pairs of time and agent have a single arm"


@pytest.mark.parametrize("missing", POLICIES)
def test_a_log_of_choices_is_rejected(missing: str | None) -> None:
    with pytest.raises(ValueError, match=LOG) as error:
        fb.problems.from_table(log_of_choices(), missing=missing)
    assert "240 of 480 cells (50%)" in str(error.value)
    assert "missing= " not in str(error.value)


def test_a_log_of_choices_with_empty_values_is_rejected() -> None:
    log = log_of_choices()
    wide = log.pivot_table(index=["time", "agent"], columns="arm", values="loss").reset_index()
    with pytest.raises(ValueError, match=LOG):
        fb.problems.from_table(wide.melt(["time", "agent"], value_name="loss"))


def test_a_number_for_unplayed_arms_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=LOG) as said:
        fb.problems.from_table(log_of_choices(), missing=1)
    assert str(said[0].message).startswith("missing=1 filled 240 of 480 cells (50%). ")
    assert said[0].filename == __file__


def test_a_large_log_is_rejected_before_its_tensor_is_made() -> None:
    """100,000 events of as many users would need 800 GB."""
    events = np.arange(100_000)
    log = pd.DataFrame({"time": events, "agent": events, "arm": events % 10, "loss": 0.5})
    with pytest.raises(ValueError, match="log of choices"):
        fb.problems.from_table(log)
    with pytest.raises(ValueError, match=r"100,000 rounds, .* GiB of memory"):
        fb.problems.from_table(log, missing=0)


@pytest.mark.parametrize("missing", POLICIES)
def test_local_times_that_were_compared_as_instants_are_rejected(missing: str | None) -> None:
    with pytest.raises(ValueError, match="different offsets from UTC") as error:
        fb.problems.from_table(nine_in_the_morning(), missing=missing)
    message = str(error.value)
    assert "1920 of 2880 cells (67%)" in message.replace(",", "")
    assert "they make 120 rounds" in message
    assert "40 rounds with 0% of the cells empty" in message
    assert "pass clock='local'" in message


def test_local_times_are_compared_by_the_clock() -> None:
    problem = fb.problems.from_table(nine_in_the_morning(), clock="local")
    assert (problem.horizon, problem.agents) == (40, 12)
    assert problem.dates is not None
    expected = np.arange("2024-03-01T09", "2024-04-10T09", 24, dtype="datetime64[h]")
    np.testing.assert_array_equal(problem.dates, expected)
    zoned = pd.DataFrame({"time": expected.repeat(4), "agent": ["a", "a", "b", "b"] * 40})
    zoned = zoned.assign(arm=["x", "y"] * 80, loss=0.5, time=zoned["time"].dt.tz_localize(ZONES[0]))
    named = fb.problems.from_table(zoned, clock="local")
    np.testing.assert_array_equal(named.dates, expected)


def test_an_hour_that_a_local_clock_has_twice_is_a_duplicate() -> None:
    hours = [f"2025-10-26T02:30:00+0{offset}:00" for offset in (2, 1)]
    frame = table((hour, "a", arm) for hour in hours for arm in ("x", "y"))
    assert fb.problems.from_table(frame).horizon == 2
    with pytest.raises(ValueError, match="more than one loss for time 2025-10-26T02:30:00"):
        fb.problems.from_table(frame, clock="local")


def test_zones_that_share_an_offset_in_summer_are_recognised() -> None:
    zones = {"leeds": "Europe/London", "lagos": "Africa/Lagos"}
    frame = table(
        (day.replace(hour=9).tz_localize(zone).isoformat(), shop, arm)
        for day in pd.date_range("2024-01-01", periods=366)
        for shop, zone in zones.items()
        for arm in ("jam", "tea")
    )
    with pytest.raises(ValueError, match="366 rounds with 0% of the cells empty"):
        fb.problems.from_table(frame, missing="mean")


@pytest.mark.parametrize("missing", POLICIES)
def test_agents_without_common_times_are_rejected(missing: str | None) -> None:
    """The same shops after a conversion to UTC, without offsets."""
    frame = nine_in_the_morning()
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    message = r"Each agent has values at 40 of 120 times\. Are they local times .*\? .* round them"
    with pytest.raises(ValueError, match=message) as error:
        fb.problems.from_table(frame, missing=missing)
    assert "clock" not in str(error.value)


def test_no_agent_has_most_of_the_times() -> None:
    frame = table((3 * t + v, f"a{v}", arm) for v in range(3) for t in range(10) for arm in "xy")
    with pytest.raises(ValueError, match=r"No agent has values at more than 10 of 29 times"):
        fb.problems.from_table(frame[frame["time"] != 1])


def test_different_sampling_periods_may_be_carried() -> None:
    """One sensor reports each round, eleven every sixth: carrying is meant, a mean is not."""
    frame = sampled([1, *[6] * 11])
    with pytest.warns(UserWarning, match=r"missing='carry' filled 880 of 1,152 cells \(76%\)"):
        problem = fb.problems.from_table(frame, missing="carry")
    assert problem.horizon == 48
    with pytest.raises(ValueError, match=r"missing='mean' would fill 880 of 1,152 cells \(76%\)"):
        fb.problems.from_table(frame, missing="mean")
    with pytest.raises(ValueError, match=r"880 of 1,152 cells \(76%\)") as error:
        fb.problems.from_table(frame)
    assert "'mean'" not in str(error.value)


def test_an_agent_that_starts_late_is_named_with_its_times() -> None:
    frame = table((t, v, arm) for v in "abcd" for t in range(1, 11) for arm in "xy")
    late = frame[(frame["agent"] != "c") | (frame["time"] > 7)]
    message = (
        r"missing=0.5 filled 14 of 80 cells \(18%\)\. The agent 'c' has 14 of 20 cells filled and "
        r"values from time 8 to 10: a misspelt name, or a late start\?$"
    )
    with pytest.warns(UserWarning, match=message):
        fb.problems.from_table(late, missing=0.5)
    with pytest.raises(ValueError, match="The agent 'c' has 14 of 20 cells empty"):
        fb.problems.from_table(late)
    with pytest.raises(ValueError, match="leave out the earlier times") as error:
        fb.problems.from_table(late, missing="carry")
    assert "mean" not in str(error.value)


def test_a_few_missing_cells_may_be_filled() -> None:
    frame = sampled([1] * 5).drop(index=[30, 77])
    with pytest.raises(ValueError, match=r"2 of 480 cells \(<1%\).* set missing= to a number"):
        fb.problems.from_table(frame)


def test_the_share_of_filled_cells_is_shown() -> None:
    frame = sampled([1] * 5).drop(index=range(48))
    with pytest.warns(UserWarning, match=r"48 of 480 cells \(10%\)"):
        problem = fb.problems.from_table(frame, missing=0.5)
    assert problem.filled == 0.1
    assert repr(problem) == "Table(48 rounds, 5 agents, 2 arms, 10% of losses filled)"
    described = problem.describe()
    assert (described["missing"], described["filled"]) == (0.5, 0.1)
    scaled = fb.problems.scaled(problem, 0, 2)
    assert repr(scaled) == "Scaled(48 rounds, 5 agents, 2 arms, 10% of losses filled)"
    whole = fb.problems.from_table(sampled([1] * 5))
    assert (whole.filled, repr(whole)) == (0.0, "Table(48 rounds, 5 agents, 2 arms)")
    assert "filled" not in whole.describe()


def test_a_configuration_names_the_clock(tmp_path: Path) -> None:
    nine_in_the_morning().to_csv(tmp_path / "sales.csv", index=False)
    config = tmp_path / "sales.toml"
    text = """[problem]\nname = "from_table"\ntable = "sales.csv"\n[algorithm]\nname = "Exp3"\n"""
    config.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"sales.toml \[problem\].*pass clock='local'"):
        load_config(config)
    with pytest.raises(ConfigError, match="clock must be 'utc' or 'local', not 'berlin'"):
        load_config(config, ["problem.clock=berlin"])
    assert load_config(config, ["problem.clock=local"]).simulation.problem.horizon == 40


def lines(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("time,agent,arm,loss", *lines, "")), encoding="utf-8")
    return path


GOOD = ("1,a,x,0.5", "1,a,y,0.5")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((*GOOD, "2,a,x,high"), "loss in line 4 .* 'high', not a number"),
        ((*GOOD, "", "  ", '"2",a,x,high'), "loss in line 6 "),
        (("1,a,x,0.5", '1,"a\nb",x,0.5', "2,a,x,high"), "loss in line 5 "),
        ((*GOOD, "2,,x,0.5"), "no agent in line 4.* such as NA"),
        ((*GOOD, "2,NA,x,0.5"), "no agent in line 4.* such as NA"),
        ((*GOOD, "1,a,y,0.5"), "the second is in line 4"),
    ],
)
def test_errors_name_the_line_of_a_csv_file(
    tmp_path: Path, rows: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fb.problems.from_table(lines(tmp_path / "t.csv", *rows))
    frame = pd.read_csv(tmp_path / "t.csv")
    frame.to_csv(tmp_path / "t.csv.gz", index=False)
    zipped = re.sub(r"line \d", r"line \\d", message)
    with pytest.raises(ValueError, match=zipped):
        fb.problems.from_table(tmp_path / "t.csv.gz")


def test_errors_name_the_row_of_a_data_frame(tmp_path: Path) -> None:
    frame = sampled([1]).assign(loss=lambda f: f["loss"].astype(object))
    frame.loc[82, "loss"] = "high"
    with pytest.raises(ValueError, match=r"loss in row 82 \(counted from 0\) at time 41, "):
        fb.problems.from_table(frame)
    named = frame.set_axis([f"r{i}" for i in range(len(frame))])
    with pytest.raises(ValueError, match=r"loss in row 82 \(counted from 0, index 'r82'\) at time"):
        fb.problems.from_table(named)
    frame.astype(str).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"loss in row 82 \(counted from 0\) at time 41, "):
        fb.problems.from_table(tmp_path / "t.parquet")


def test_a_loss_and_a_reward_are_not_both_played_for() -> None:
    both = sampled([1]).assign(reward=0.5)
    message = r"both a loss and a reward.*columns=\{'loss': 'loss'\} or columns=\{'reward': 'rew"
    with pytest.raises(ValueError, match=message):
        fb.problems.from_table(both)
    for role in ("loss", "reward"):
        assert fb.problems.from_table(both, columns={role: role}).horizon == 48
