"""`fedbandits tune`: what it prints and writes, and how it fails."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.config.document import load_config
from fedbandits.tuning import files
from tests.cli.test_cli import call
from tests.instances import SMALL_CONFIG, random_losses

ENDINGS = ("tuned.toml", "candidates.csv", "fresh.csv", "fresh.nc")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_CONFIG)
    return path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A folder with a configuration and what was found for it, and what was said."""
    folder = tmp_path_factory.mktemp("tuned")
    path = folder / "small.toml"
    path.write_text("# mine\n" + SMALL_CONFIG)
    changes = ["--set", "algorithm.learning_rate=0.001", "--set", "against=final"]
    said = call("tune", path, "--out", folder / "out", "--budget", "7", *changes)
    return folder, said


@pytest.mark.slow
def test_tune(tuned: tuple[Path, Result]) -> None:
    folder, done = tuned
    assert done.exit_code == 0, done.stderr
    assert "7 candidates on 3 draws of the losses" in done.stdout
    assert "FedExp3: 10 fresh draws of the losses, 2 runs on each" in done.stdout
    assert "Bands are over draws." in done.stdout
    assert done.stdout.count("as in the file") == 1
    assert done.stderr == (
        "tuning: 7 candidates, 2 runs, on 3 draws of the losses\n"
        "report: 2 runs, on 10 draws of the losses\n"
    )
    for ending in ENDINGS:
        assert f"wrote {folder / 'out' / f'small.{ending}'}\n" in done.stdout
    assert len(list((folder / "out").iterdir())) == len(ENDINGS)


@pytest.mark.slow
def test_the_tables_are_those_that_are_printed(tuned: tuple[Path, Result]) -> None:
    folder, done = tuned
    tried = pd.read_csv(folder / "out" / "small.candidates.csv")
    assert tried["given"].sum() == 1
    best = tried.iloc[tried["regret"].to_numpy().argmin()]
    lines = done.stdout.splitlines()
    first_row = lines[[("───" in line) for line in lines].index(True) + 1].split()
    assert [float(first_row[0]), float(first_row[2])] == pytest.approx(
        [best["learning_rate"], round(best["regret"], 2)]
    )
    fresh = pd.read_csv(folder / "out" / "small.fresh.csv")
    assert len(fresh) == 10
    difference = (fresh["tuned, mean agent"] - fresh["given, mean agent"]).mean()
    assert f" {difference:,.2f} " in done.stdout


@pytest.mark.slow
def test_the_new_configuration_is_whole(tuned: tuple[Path, Result]) -> None:
    folder, done = tuned
    path = folder / "out" / "small.tuned.toml"
    before, after = tomllib.loads(SMALL_CONFIG), tomllib.loads(path.read_text())
    for key in ("runs", "problem", "network", "gossip"):
        assert after[key] == before[key]
    assert after["against"] == "final"  # changes with --set are in it
    assert "\n# mine\n" in path.read_text()  # and the user's own comments
    tried = pd.read_csv(folder / "out" / "small.candidates.csv")
    best = tried.iloc[tried["regret"].to_numpy().argmin()]
    experiment = load_config(path)
    assert experiment.simulation.algorithm == fb.FedExp3(
        best["learning_rate"], fb.schedules.power(best["exploration.c"], 1 / 3)
    )
    printed = done.stdout[done.stdout.index("[algorithm]") : done.stdout.index("wrote ")]
    assert tomllib.loads(printed)["algorithm"] == after["algorithm"]
    result = fb.load(folder / "out" / "small.fresh.nc")
    assert result.dataset.attrs["against"] == "final"
    fresh = pd.read_csv(folder / "out" / "small.fresh.csv")
    assert result.config["seed"] == fresh["seed"][0]
    assert float(result.dataset["expected_regret"][:, -1].mean()) == pytest.approx(
        fresh["tuned, mean agent"][0]
    )


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tuning finds turns out to be worse on fresh seeds: the two change places there."""

    def report(*args: Any, **more: Any) -> fb.tuning.Report:
        said = fb.tuning.report(*args, **more)
        return replace(said, tuned=said.given, given=said.tuned)

    monkeypatch.setattr("fedbandits.tuning.fresh_seeds.report", report)


@pytest.mark.usefixtures("losing")
@pytest.mark.slow
def test_another_setting_is_written_only_if_it_wins(tuned: tuple[Path, Result]) -> None:
    """The same tuning as above, but for its outcome."""
    folder, won = tuned
    out = folder / "lost"
    changes = ["--set", "algorithm.learning_rate=0.001", "--set", "against=final"]
    lost = call("tune", folder / "small.toml", "--out", out, "--budget", "7", *changes)
    assert lost.exit_code == 0, lost.stderr
    stays = "on fresh seeds what tuning found is worse than the file's own setting, which stays"
    assert stays in lost.stdout
    assert "on fresh seeds what tuning found is better than the file's own setting" in won.stdout
    own = {**tomllib.loads(SMALL_CONFIG)["algorithm"], "learning_rate": 0.001}
    text = (out / "small.tuned.toml").read_text()
    assert tomllib.loads(text)["algorithm"] == own
    assert "# small.toml as it was: nothing that was tried is clearly better;" in text
    printed = lost.stdout[lost.stdout.index("[algorithm]") : lost.stdout.index("wrote ")]
    assert tomllib.loads(printed)["algorithm"] == own
    # The result is that of the configuration that is written.
    kept = fb.load(out / "small.fresh.nc")
    fresh = pd.read_csv(out / "small.fresh.csv")
    assert float(kept.dataset["expected_regret"][:, -1].mean()) == pytest.approx(
        fresh["given, mean agent"][0]
    )


@pytest.mark.soak
def test_the_files_own_setting_is_a_candidate_under_its_own_name(small: Path) -> None:
    """FedExp3's default learning rate is a schedule, and no constant of the grid is."""
    out = small.parent / "out"
    done = call("tune", small, "--out", out, "--budget", "3", "--runs", "1")
    assert done.exit_code == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "as in the file" in line]
    assert "mixing_aware(c=2)" in line
    assert "nan" not in done.stdout
    tried = pd.read_csv(out / "small.candidates.csv")
    assert tried.loc[tried["given"], "learning_rate"].tolist() == ["mixing_aware(c=2)"]
    for name in ("MixingAware", "Constant", "Power"):
        assert name not in done.stdout


@pytest.mark.slow
def test_nothing_is_replaced_without_force(
    tuned: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = tuned
    again: list[str | Path] = [
        "tune",
        folder / "small.toml",
        "--out",
        folder / "out",
        "--budget",
        "4",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(files, "choose", None)  # refused before anything is played
        failed = call(*again)
    assert failed.exit_code == 2
    there = folder / "out" / "small.tuned.toml"
    said = f"error: {there} is there already; choose another --out, or --force to replace it\n"
    assert failed.stderr == said
    there.write_text("")
    done = call(*again, "--force")
    assert done.exit_code == 0, done.stderr
    assert load_config(there)


@pytest.mark.slow
def test_losses_that_tuning_has_seen(tmp_path: Path) -> None:
    """And a file that is named relative to the configuration, which moves."""
    np.save(tmp_path / "losses.npy", random_losses(5, 3, 12, seed=1))
    path = tmp_path / "stored.toml"
    path.write_text(
        'runs = 2\n[problem]\nname = "from_tensor"\ntensor = "losses.npy"\n'
        '[algorithm]\nname = "Exp3"\nlearning_rate = 0.1\n'
    )
    out = tmp_path / "deep" / "out"
    done = call("tune", path, "--out", out, "--budget", "2", "--range", "learning_rate=0.5:2")
    assert done.exit_code == 0, done.stderr
    assert "2 candidates on these losses" in done.stdout
    assert "what was tuned has seen them" in done.stdout
    assert "Bands are over runs." in done.stdout
    text = (out / "stored.tuned.toml").read_text()
    assert 'tensor = "../../losses.npy"' in text
    assert load_config(out / "stored.tuned.toml").simulation.problem.horizon == 12


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "problem.agnts=4"], "did you mean 'agents'?"),
        (["--set", "algorithm.learning_rate=[0.1, 0.2]"], "is a sweep over algorithm.learning"),
        (["--set", "algorithm.name=GossipUCB"], "GossipUCB has nothing to tune"),
        (["--range", "learning_rate=1"], "--range learning_rate=1: expected KNOB=LOW:HIGH"),
        (["--range", "rate=1:9"], "FedExp3 has no rate to tune, only learning_rate, explor"),
        (["--range", "block=1:9"], "FedExp3 has no block to tune, only learning_rate, explor"),
    ],
)
def test_errors_are_one_line(small: Path, args: list[str], message: str) -> None:
    failed = call("tune", small, "--out", small.parent / "out", *args)
    assert failed.exit_code == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith("error: ")
    assert message in failed.stderr
    assert failed.stderr.count("\n") == 1


@pytest.mark.filterwarnings("default:the theorem's")
def test_the_theorems_rates_are_not_tuned(small: Path) -> None:
    failed = call("tune", small, "--set", "algorithm.from_theorem=true")
    assert failed.exit_code == 2
    assert "from_theorem chooses the rates itself; remove it to tune them" in failed.stderr


def test_an_unwritable_folder_is_refused_before_anything_is_played(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "choose", None)
    failed = call("tune", small, "--out", small)
    assert failed.exit_code == 2
    assert failed.stderr.startswith(f"error: the folder {small} cannot be made (")


def test_interrupted(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt("stopped after round 10 of 20")

    monkeypatch.setattr(files, "choose", stop)
    out = small.parent / "out"
    stopped = call("tune", small, "--out", out)
    assert stopped.exit_code == 130
    said = "stopped after round 10 of 20; nothing is kept, tuning starts anew\n"
    assert stopped.stderr == said
    assert list(out.iterdir()) == []


@pytest.mark.slow
def test_what_is_at_an_edge_is_said() -> None:
    """Nearly uniform play is worst: the largest rate of three wins, and more are proposed."""
    from fedbandits import tuning
    from fedbandits.cli import tables

    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=20)
    gossip = fb.gossip.max_degree(fb.networks.grid(2, 2))
    given = fb.FedExp3(0.001, fb.schedules.power(0.01, 1 / 3))
    narrow = {"learning_rate": (0.001, 0.1)}
    choice = tuning.choose(problem, given, gossip, ranges=narrow, budget=4, runs=2)
    said = tuning.report(problem, choice.winner, given, gossip, runs=2, draws=2)
    found = files.Tuned(choice, said, "", files.Files(*[Path()] * 4))
    (edge,) = [line for line in tables.tuning_warnings(found) if "tried" in line]
    assert re.fullmatch(
        r"learning_rate 0\.1 is the largest tried, better ones may lie beyond: "
        r"--range learning_rate=0\.01:1",
        edge,
    )


def test_help_and_page_name_all_that_can_be_tuned() -> None:
    said = call("tune", "--help").stdout
    page = Path(__file__).parents[2] / "docs" / "howto" / "tuning.md"
    table = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    known = {name for algorithm in REGISTRY.values() for name in algorithm.tunable}
    assert {name for name in known if not re.search(rf"\b{name}\b", said)} == set()
    named = {name for line in table for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == known


@pytest.mark.soak
def test_a_memory_is_tuned_with_a_range(small: Path) -> None:
    """The file has none: to remember forever is one more candidate."""
    out = small.parent / "out"
    asked = ["--budget", "5", "--runs", "1", "--range", "memory=2:8"]
    done = call("tune", small, "--out", out, *asked)
    assert done.exit_code == 0, done.stderr
    tried = pd.read_csv(out / "small.candidates.csv")
    given = tried["given"]
    assert tried.loc[given, "memory"].isna().all()
    assert tried.loc[~given, "memory"].between(2, 8).all()
    assert load_config(out / "small.tuned.toml")


def test_help_has_an_example() -> None:
    assert "  fedbandits tune" in call("tune", "--help").stdout.split("Usage")[1]
