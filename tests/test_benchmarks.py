"""The benchmark harness, untimed: its baseline is the paper, and its table survives failures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import fedbandits as fb
from benchmarks import baseline, bench, compare, exchanging, forms, rows, scaling, startup, timing
from benchmarks.rows import Measure, Measured, NotInstalled
from fedbandits.engine.checkpoint import Checkpoint
from tests.instances import random_losses
from tests.oracles import paper as oracle


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_baseline_is_algorithm_1(form: Callable[[Any], Any]) -> None:
    """The same arms and, to rounding, the same distributions as the oracle's single loops."""
    agents, arms, horizon = 6, 4, 60
    # Not symmetric, so that a W read the wrong way round would show.
    W = 0.5 * fb.gossip.max_degree(fb.networks.grid(2, 3)).matrix.toarray()
    W += 0.5 * np.roll(np.eye(agents), 1, axis=1)
    losses = random_losses(agents, arms, horizon, seed=3)
    u = np.random.default_rng(4).uniform(size=(horizon, agents))

    def eta(t: int) -> float:
        return 0.7 / math.sqrt(t)

    def gamma(t: int) -> float:
        return 1.5 * math.pow(t, -1 / 3)  # above 1 at first: clipped

    exact = oracle.fedexp3(losses, W, eta, gamma, u)
    played = baseline.fedexp3(
        lambda t: losses[t - 1], form(W), arms, lambda t: u[t - 1], eta, gamma
    )
    for t, now in enumerate(islice(played, horizon)):
        np.testing.assert_array_equal(now.action, exact.action[t])
        np.testing.assert_allclose(now.p, exact.p[t], rtol=1e-11)
        np.testing.assert_allclose(now.z, exact.z[t], rtol=1e-11, atol=1e-12)


def test_losses_of_the_baseline_are_the_problems() -> None:
    """As many activated agents, and the means within 5 standard errors."""
    means = np.array([0.0, 0.5, 1.0])
    activated = baseline.activated_coins(means, agents=7)
    tables = np.array([activated(t) for t in range(1, 1001)])
    np.testing.assert_array_equal(tables[:, :, 2].sum(axis=1), 4)
    np.testing.assert_allclose(tables.mean(axis=(0, 1)), means * 4 / 7, atol=5 * 0.5 / 7000**0.5)
    drawn = baseline.coins(means, agents=1000)(1)
    np.testing.assert_allclose(drawn.mean(axis=0), means, atol=5 * 0.5 / 1000**0.5)


# Rows and their table.


def groups(*measures: Measure) -> tuple[Any, ...]:
    return (SimpleNamespace(measures=lambda quick: list(measures)),)


def fixed(name: str, *values: float, **against: Any) -> Measure:
    return Measure(name, "s", lambda: Measured(min(values), values, **against))


def broken() -> Measured:
    raise ValueError("no such luck")


def uninstalled() -> Measured:
    raise NotInstalled("a library")


def not_a_number() -> Measured:
    return Measured(float("nan"), (1.0,))


def stop() -> Measured:
    raise KeyboardInterrupt


def test_a_row_has_its_ratios() -> None:
    row = rows.take(fixed("a", 2.0, 2.2, 9.0, goal=1.0, baseline=8.0, floor=0.5))
    assert (row.value, row.n, row.over_goal, row.times_faster, row.times_floor) == (2, 3, 2, 4, 4)
    assert row.spread == pytest.approx(0.1)
    assert rows.take(fixed("a", 2.0, goal=1.0), goals=False).over_goal is None


def test_a_failing_row_is_reported_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_to_come = (
        Measure("first", "s", broken),
        fixed("second", 1.0, goal=0.5),
        Measure("third", "s", uninstalled),
        Measure("fourth", "s", not_a_number),
    )
    monkeypatch.setattr(bench, "GROUPS", groups(*rows_to_come))
    out, page = tmp_path / "deep" / "table.json", tmp_path / "table.md"
    assert bench.main(["--out", str(out), "--markdown", str(page)]) == 0
    saved = json.loads(out.read_text())
    statuses = [row["status"] for row in saved["rows"]]
    assert statuses == ["failed", "measured", "not installed", "failed"]
    assert "ValueError: no such luck (test_benchmarks.py:" in saved["rows"][0]["note"]
    printed = capsys.readouterr().out
    assert page.read_text() == printed
    assert "missed by 100%" in printed
    assert "not installed" in printed
    assert [path.name for path in out.parent.iterdir()] == ["table.json"]  # nothing unfinished


def test_an_interruption_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, never = fixed("done", 1.0), fixed("never", 1.0)
    monkeypatch.setattr(bench, "GROUPS", groups(done, Measure("stop", "s", stop), never))
    out = tmp_path / "table.json"
    assert bench.main(["--out", str(out)]) == 130
    assert [row["name"] for row in json.loads(out.read_text())["rows"]] == ["done"]


def test_a_name_that_is_no_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "GROUPS", groups(fixed("a/b", 1.0), fixed("c", 1.0)))
    assert [m.name for m in bench.chosen(bench.GROUPS[0].measures(False), ["a"])] == ["a/b"]
    with pytest.raises(SystemExit, match="no row starts with 'b'; the rows are a/b, c"):
        bench.main(["--only", "b"])


@pytest.mark.soak
def test_a_real_row_in_quick_mode(tmp_path: Path) -> None:
    out = tmp_path / "table.json"
    assert bench.main(["--only", "small", "--quick", "--out", str(out)]) == 0
    saved = json.loads(out.read_text())
    assert [row["status"] for row in saved["rows"]] == ["measured"] * 3
    row, _, default = saved["rows"]
    assert (row["name"], row["goal"], default["baseline"]) == ("small/10 runs", None, None)
    assert min(row[key] for key in ("value", "baseline", "times_faster", "times_floor")) > 0
    assert saved["quick"]
    facts = saved["machine"]
    for fact in ("cpu", "os", "python", "jax", "numpy", "date", "commit", "backend", "device"):
        assert facts[fact], fact
    assert facts["cores"] >= 1
    assert facts["memory_gib"] > 0


@pytest.mark.soak
def test_the_first_result_of_a_process_is_split_into_its_parts() -> None:
    *_, first, second = startup.measures(quick=True)
    for measure in (first, second):
        row = rows.take(measure)
        assert row.status == "measured", row.note
        assert row.goal == (2.5 if measure is first else 1.5)  # on the CPU that tests run on
        parts = [float(part) for part in re.findall(r"(\d+\.\d+) s ", row.note)]
        assert row.value == pytest.approx(sum(parts), abs=0.02)  # each is rounded


@pytest.mark.slow
def test_forms_are_held_against_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a run that does not go on where it was stopped is told."""
    grid = next(m for m in forms.measures(quick=True) if m.name == "forms/grid, losses known")
    row = rows.take(grid)
    assert row.status == "measured", row.note
    assert row.goal == 5
    assert row.over_goal is not None
    assert row.over_goal < 1
    monkeypatch.setattr(forms, "_stopped_and_gone_on", lambda play, _: play(seed=1))
    row = rows.take(grid)
    assert row.status == "failed"
    assert "agent_expected_regret" in row.note
    monkeypatch.undo()
    monkeypatch.setattr(Checkpoint, "save", lambda *_: None)  # then all is played again
    row = rows.take(grid)
    assert row.status == "failed"
    assert "nothing was stopped" in row.note
    monkeypatch.undo()
    regret = forms._regret

    def lower(result: fb.Result) -> Any:
        return regret(result) - (1e-4 if result.dataset["round_loss"].dtype == np.float32 else 0)

    monkeypatch.setattr(forms, "_regret", lower)
    row = rows.take(grid)
    assert row.over_goal is not None
    assert row.over_goal > 1


def test_every_row_has_a_name_of_its_own() -> None:
    names = [m.name for group in bench.GROUPS for m in group.measures(False)]
    assert len(set(names)) == len(names)
    assert {name.partition("/")[0] for name in names} == {
        *("small", "links", "figure 1", "import fedbandits", "fedbandits --help"),
        "README example",
        *("regret_against", "forms", "live", "movielens", "million", "exponent"),
    }


@pytest.mark.soak
def test_agents_in_several_processes_exchange(tmp_path: Path) -> None:
    out = tmp_path / "table.json"
    assert bench.main(["--only", "live/16 agents", "--quick", "--out", str(out)]) == 0
    found = json.loads(out.read_text())["rows"]
    assert {row["status"] for row in found} == {"measured"}
    assert min(row[key] for row in found for key in ("value", "times_floor")) > 0


def test_neighbours_that_exchange_are_in_different_processes() -> None:
    process = {name: i for i in range(exchanging.PROCESSES) for name in exchanging.agents_of(i)}
    edges = exchanging.federation().edges()
    assert len(process) == 16
    assert all(process[u] != process[v] for u, v, _ in edges)


# Arithmetic.


def test_the_slope_of_a_power_is_its_exponent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        scaling, "in_turns", lambda plays, _: {n: play() for n, play in plays.items()}
    )
    plays: dict[int, Any] = {n: (lambda n=n: (3e-6 * n**1.5, 4e-6 * n**1.5)) for n in (10, 20, 80)}
    found = scaling._slope("edges", plays, 2)
    assert found.value == pytest.approx(1.5)
    assert found.repeats == pytest.approx((1.5, 1.5))


def test_a_size_that_costs_nothing_has_no_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "in_turns", lambda *_: {10: (2.0,), 20: (1.9,), 40: (1.8,)})
    with pytest.raises(RuntimeError, match="more edges took no longer"):
        scaling._slope("edges", {}, 1)


def test_what_is_done_once_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of set-up and 0.1 s a round, on a clock of its own."""
    now = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def play(horizon: int) -> None:
        now[0] += 1 + 0.1 * horizon

    assert timing.a_round(play, 10, 3) == pytest.approx((0.1, 0.1, 0.1))


def test_what_slows_the_machine_for_a_while_slows_all_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the sixth second on every call takes three times as long; the first ones compile."""
    now = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def take(seconds: float) -> None:
        now[0] += seconds * (3 if now[0] >= 6 else 1)

    calls = {1: lambda: take(1.0), 2: lambda: take(2.0)}
    assert timing.in_turns(calls, 9, 6) == {1: (1.0, 3.0), 2: (2.0, 6.0)}
    assert timing.repeated(calls[1], 9, 7.0) == (3.0, 3.0, 3.0)


# Two tables.


def saved_table(path: Path, found: dict[str, tuple[float | None, float]], cores: int = 2) -> str:
    lines = [
        {
            **{"name": name, "unit": "s", "value": value, "spread": spread},
            "status": "failed" if value is None else "measured",
        }
        for name, (value, spread) in found.items()
    ]
    path.write_text(json.dumps({"machine": {"cores": cores}, "quick": False, "rows": lines}))
    return str(path)


def test_compare_marks_what_got_worse_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    was = {"slow": (1.0, 0.01), "noisy": (1.0, 0.3), "gone": (1.0, 0.0)}
    now = {"slow": (1.2, 0.02), "noisy": (1.2, 0.01), "added": (1.0, 0.0)}
    old = saved_table(tmp_path / "old.json", {**was, "broke": (1.0, 0.0), "fast": (2.0, 0.1)})
    new = saved_table(tmp_path / "new.json", {**now, "broke": (None, 0.0), "fast": (1.0, 0.1)}, 4)
    assert compare.main([old, new]) == 1
    printed = capsys.readouterr().out
    verdicts = {
        cells[1].strip(): cells[-2].strip()
        for cells in (line.split("|") for line in printed.splitlines()[2:] if "|" in line)
    }
    assert verdicts == {
        **{"slow": "WORSE", "noisy": "same", "gone": "MISSING"},
        **{"added": "new", "broke": "FAILED", "fast": "better"},
    }
    assert "not the same machine: cores: 2 and 4" in printed


def test_compare_of_a_table_with_itself_is_calm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = saved_table(tmp_path / "table.json", {"a": (1.0, 0.0), "b": (0.0, 0.0)})
    assert compare.main([table, table]) == 0
    assert compare.main([table, str(tmp_path / "none.json")]) == 2
    assert "none.json is not there" in capsys.readouterr().err
