"""What commands write over: the same result again, and else nothing without --force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.config.document import load_config
from fedbandits.config.experiment import Experiment
from fedbandits.config.replacing import refuse_other
from fedbandits.engine.play import play
from fedbandits.simulation.simulation import DType, Simulation
from tests.cli.test_cli import call
from tests.instances import ALGORITHMS, SMALL_CONFIG, hand_made

FIX = "choose another --out, or --force to replace it"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fb.Result:
    path = tmp_path_factory.mktemp("first") / "small.toml"
    path.write_text(SMALL_CONFIG)
    return load_config(path).simulate()


@pytest.fixture
def small(tmp_path: Path, result: fb.Result) -> Path:
    """A configuration, and what came of it."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL_CONFIG)
    result.save(tmp_path / "out" / "small.nc")
    return path


@pytest.fixture
def not_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(*args: Any, **more: Any) -> None:
        raise AssertionError("nothing should be played")

    monkeypatch.setattr(Experiment, "simulate", play)


@pytest.mark.slow
@pytest.mark.usefixtures("not_played")
@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("runs=3", "runs is 2 there and 3 here"),
        ("seed=1", "seed is 0 there and 1 here"),
        ("against=final", 'against is "current" there and "final" here'),
        ("problem.horizon=30", "problem.horizon is 20 there and 30 here"),
        (
            "algorithm.learning_rate=0.1",
            "algorithm.learning_rate is mixing_aware there and 0.1 here",
        ),
        ("algorithm={name = 'Exp3'}", "algorithm is FedExp3 there and Exp3 here"),
        ("gossip={name = 'metropolis'}", "gossip is max_degree there and metropolis here"),
    ],
)
def test_a_result_of_another_configuration_is_refused_before_the_run(
    change: str, difference: str, small: Path
) -> None:
    out = small.parent / "out"
    before = (out / "small.nc").read_bytes()
    failed = call("run", small, "--out", out, "--set", change)
    assert failed.exit_code == 2
    said = f"error: {out / 'small.nc'} is of another configuration: {difference}"
    assert failed.stderr.startswith(said)
    assert failed.stderr.endswith(f" here; {FIX}\n")
    assert (out / "small.nc").read_bytes() == before


def test_a_table_with_other_contents_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def experiment(last: float) -> Experiment:
        rows = [(t, "a", arm, 0.5) for t in (1, 2) for arm in "xy"]
        rows[-1] = (2, "a", "y", last)
        frame = pd.DataFrame(rows, columns=["time", "agent", "arm", "reward"])
        return Experiment(Simulation(fb.problems.from_table(frame), fb.Uniform()))

    there = hand_made(np.zeros((1, 2)), experiment(0.25).simulation.describe())
    monkeypatch.setattr("fedbandits.results.result.load", lambda path: there)
    (tmp_path / "sales.nc").touch()
    refuse_other([tmp_path / "sales.nc"], experiment(0.25))
    with pytest.raises(
        FileExistsError, match="another configuration: the contents of the table differ; choose"
    ):
        refuse_other([tmp_path / "sales.nc"], experiment(0.75))


@pytest.mark.usefixtures("not_played")
@pytest.mark.parametrize("ending", ["nc", "png", "pdf"])
def test_what_is_not_a_result_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SMALL_CONFIG)
    mine = tmp_path / f"mine.{ending}"
    mine.write_text("my own")
    failed = call("run", path, "--out", tmp_path)
    assert failed.exit_code == 2
    assert failed.stderr.startswith(f"error: {mine} is ")
    assert failed.stderr.endswith(f"; {FIX}\n")
    assert failed.stderr.count("\n") == 1
    assert mine.read_text() == "my own"


@pytest.mark.slow
def test_the_same_again_and_another_by_force(small: Path) -> None:
    out = small.parent / "out"
    (out / "small.png").write_text("an old picture of it")
    again = call("run", small, "--out", out)
    assert again.exit_code == 0, again.stderr
    assert (out / "small.png").read_bytes().startswith(b"\x89PNG")
    forced = call("run", small, "--out", out, "--set", "seed=1", "--force")
    assert forced.exit_code == 0, forced.stderr
    assert fb.load(out / "small.nc").config["seed"] == 1
    fb.load(out / "small.nc").save(out / "small.nc")  # Python replaces, as NumPy does


def test_a_forced_run_is_resumed_by_force(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Experiment, **more: Any) -> None:
        raise KeyboardInterrupt("stopped after round 10 of 20")

    monkeypatch.setattr(Experiment, "simulate", stop)
    args: tuple[str | Path, ...] = ("run", small, "--out", small.parent / "out", "--set", "seed=1")
    stopped = call(*args, "--checkpoint", small.parent / "kept", "--force")
    assert stopped.stderr.endswith(f" --checkpoint {small.parent / 'kept'} --force\n")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_configuration_is_known_before_the_run(name: str, dtype: DType) -> None:
    problem = fb.problems.bernoulli(np.full((5, 3), 0.5), 12)
    gossip = fb.gossip.max_degree(fb.networks.ring(5))
    simulation = Simulation(problem, ALGORITHMS[name], gossip, 2, 7, dtype)
    described = json.loads(json.dumps(simulation.describe()))
    assert play([simulation])[0].config == described


def test_a_part_of_the_paper_with_other_options_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits import paper

    played: list[int | None] = []

    def part(options: paper.Options) -> paper.Section:
        played.append(options.runs)
        return paper.Section("one", "One", options.command("one"))

    monkeypatch.setattr(paper, "REGISTRY", {"one": part})
    args: tuple[str | Path, ...] = ("reproduce", "one", "--out", tmp_path)
    assert call(*args, "--runs", "100").exit_code == 0
    assert call(*args, "--runs", "100").exit_code == 0
    failed = call(*args)
    assert failed.exit_code == 2
    there = "fedbandits reproduce one --runs 100"
    assert failed.stderr == f"error: {tmp_path} has one by `{there}`; {FIX}\n"
    assert call(*args, "--force").exit_code == 0
    assert played == [100, 100, None]
