"""Randomised response wherever simulations are asked for, and what their results say of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.config.document import load_config
from fedbandits.config.experiment import ConfigError
from fedbandits.engine.executors.program import compilations
from fedbandits.sweeps.plan import make_plan
from tests.engine.simulations import simulate_draws, simulate_each
from tests.instances import SMALL_CONFIG
from tests.sweeps.small_sweep import call

PROBLEM = fb.problems.bernoulli([0.1, 0.9, 0.5], horizon=60, agents=4, seed=3)
GOSSIP = fb.gossip.max_degree(fb.networks.ring(4))
ONE = fb.privacy.randomised_response(1.0)
PRIVATE = SMALL_CONFIG + "\n[privacy]\nepsilon = 1\n"
SAID = "ε = 1 per round for the losses of one agent (event level); arms are public"


@pytest.fixture(scope="module")
def plain() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(0.5), GOSSIP, runs=3)


@pytest.fixture(scope="module")
def blurred() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(0.5), GOSSIP, runs=3, privacy=ONE)


@pytest.mark.slow
def test_infinite_epsilon_on_coins_is_the_plain_run_bit_for_bit(plain: fb.Result) -> None:
    endless = fb.privacy.randomised_response(math.inf)
    found = fb.simulate(PROBLEM, fb.FedExp3(0.5), GOSSIP, runs=3, privacy=endless)
    assert found.dataset.drop_attrs().identical(plain.dataset.drop_attrs())
    assert found.guarantee == "no guarantee"


@pytest.mark.slow
def test_a_result_says_what_is_protected_from_whom(plain: fb.Result, blurred: fb.Result) -> None:
    assert plain.epsilon is None
    assert "privacy" not in plain.config
    assert plain.guarantee is None
    assert "privacy" not in repr(plain)
    assert blurred.epsilon == 1.0
    assert blurred.config["privacy"] == {"name": "randomised_response", "epsilon": 1.0}
    assert f"privacy: {SAID}; holds even if all other agents collude" in repr(blurred)
    assert not np.array_equal(plain.dataset["regret"], blurred.dataset["regret"])


@pytest.mark.slow
def test_results_with_different_epsilon_are_told_apart(
    plain: fb.Result, blurred: fb.Result
) -> None:
    alone = fb.simulate(PROBLEM, fb.Exp3(0.5), runs=3)
    assert repr(fb.compare(blurred, plain, alone)).count("FedExp3, ε=1 - ") == 2
    with_twin = fb.compare(blurred, alone)
    assert (with_twin.first, with_twin.others) == ("FedExp3, ε=1", ("Exp3",))
    legend = fb.plot(blurred, plain).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["FedExp3, ε=1", "FedExp3"]
    assert SAID in " ".join(legend.get_title().get_text().split("\n"))
    legend = fb.plot(plain).get_legend()
    assert legend is not None
    assert "ε" not in legend.get_title().get_text()


@pytest.mark.slow
def test_a_guarantee_stands_with_the_curve_that_has_it(
    plain: fb.Result, blurred: fb.Result
) -> None:
    noised = fb.simulate(PROBLEM, fb.PrivateFedExp3(2.0), GOSSIP, runs=3)
    legend = fb.plot(blurred, plain, noised).get_legend()
    assert legend is not None
    title = " ".join(legend.get_title().get_text().split("\n"))
    assert f"FedExp3, ε=1: {blurred.guarantee}" in title
    assert "FedExp3: no privacy guarantee" in title
    assert f"PrivateFedExp3: {noised.guarantee}" in title
    alone = fb.plot(noised).get_legend()
    assert alone is not None
    assert str(noised.guarantee) in " ".join(alone.get_title().get_text().split("\n"))


@pytest.mark.slow
def test_a_curve_for_each_epsilon_has_one_title(blurred: fb.Result) -> None:
    other = fb.simulate(
        PROBLEM, fb.FedExp3(0.5), GOSSIP, runs=3, privacy=fb.privacy.randomised_response(0.1)
    )
    legend = fb.plot(blurred, other).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["FedExp3, ε=1", "FedExp3, ε=0.1"]
    title = " ".join(legend.get_title().get_text().split("\n"))
    assert "ε per round for the losses of one agent (event level); arms are public" in title


@pytest.mark.soak
def test_batches_draws_and_checkpoints_are_what_single_runs_are(tmp_path: Path) -> None:
    """In float64 the same arms: what is rounded otherwise is 1e-13 and flips none of these."""
    settings: dict[str, Any] = {"runs": 2, "seed": 5, "dtype": "float64", "privacy": ONE}
    algorithms = [fb.FedExp3(0.3), fb.FedExp3(0.9)]
    alone = [fb.simulate(PROBLEM, each, GOSSIP, **settings) for each in algorithms]
    before = compilations()
    each = simulate_each(PROBLEM, algorithms, GOSSIP, **settings)
    assert compilations() == before + 1
    for one, other in zip(alone, each, strict=True):
        assert one.config == other.config
        np.testing.assert_array_equal(one.dataset["arm_frequency"], other.dataset["arm_frequency"])
    drawn = fb.simulate(PROBLEM, algorithms[0], GOSSIP, draws=2, checkpoint=tmp_path, **settings)
    assert drawn.epsilon == 1.0
    np.testing.assert_array_equal(drawn.dataset["regret"][0], alone[0].dataset["regret"])
    problems = [PROBLEM, PROBLEM.redraw(drawn.config["loss_seeds"][1])]
    together = simulate_draws(problems, algorithms[0], GOSSIP, **settings)
    np.testing.assert_allclose(
        together["regret"][0].mean("agent"), drawn.dataset["regret"][:, :, -1], rtol=0, atol=1e-9
    )


@pytest.mark.slow
def test_resumed_is_bit_identical_and_another_epsilon_starts_anew(tmp_path: Path) -> None:
    def problem(fail_at: int) -> fb.Problem:
        left = [fail_at]

        def losses(t: int) -> Any:
            if t == left[0]:
                left[0] = -1
                raise RuntimeError("the machine went away")
            return np.random.default_rng(t).uniform(size=(4, 3))

        return fb.problems.from_function(losses, agents=4, arms=3, horizon=1500, host=True)

    def play(losses: fb.Problem, epsilon: float, **more: Any) -> fb.Result:
        privacy = fb.privacy.randomised_response(epsilon)
        return fb.simulate(losses, fb.FedExp3(), GOSSIP, runs=2, privacy=privacy, **more)

    undisturbed = play(problem(-1), 1.0)
    failing = problem(1234)
    with pytest.raises(RuntimeError, match="went away"):
        play(failing, 1.0, checkpoint=tmp_path)
    play(failing, 0.5, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # that of ε = 1, which was not taken for it
    resumed = play(failing, 1.0, checkpoint=tmp_path)
    assert resumed.dataset.identical(undisturbed.dataset)


# Configuration files.


def written(folder: Path, text: str = PRIVATE) -> Path:
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_epsilon(tmp_path: Path) -> None:
    path = written(tmp_path)
    experiment = load_config(path)
    assert experiment.simulation.conditions == (ONE,)
    assert experiment.simulation.describe()["privacy"]["epsilon"] == 1.0
    assert load_config(path, ["privacy.epsilon=0.5"]).simulation.conditions != (ONE,)
    (tmp_path / "plain").mkdir()
    plain = load_config(written(tmp_path / "plain", SMALL_CONFIG), [])
    assert plain.simulation.conditions == ()
    assert "privacy" not in plain.simulation.describe()
    assert load_config(
        tmp_path / "plain/small.toml", ["privacy.epsilon=1"]
    ).simulation.conditions == (ONE,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["privacy={eps=1}"], "did you mean 'epsilon'"),
        (["privacy=1"], "expected a table such as epsilon = 1.0, not 1"),
        (["privacy={}"], "randomised_response needs epsilon"),
        (["privacy.epsilon=0"], r"\[privacy\] with --set privacy.epsilon=0: epsilon must be at"),
        (['algorithm={name="FedHedge"}'], "FedHedge sees the losses of all arms"),
    ],
)
def test_mistakes_are_named_with_their_place(
    changes: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path), changes)


def test_a_cell_is_another_for_another_epsilon_and_the_same_without(tmp_path: Path) -> None:
    path = written(tmp_path)
    hashes = {
        epsilon: make_plan(path, [f"privacy.epsilon={epsilon}"]).hashes[0]
        for epsilon in ("1", "1.0", "2")
    }
    assert hashes["1"] == hashes["1.0"] != hashes["2"]
    plain = make_plan(written(tmp_path, SMALL_CONFIG)).hashes[0]
    assert plain not in hashes.values()


@pytest.mark.slow
def test_run_says_it_and_a_sweep_over_epsilon_compiles_once(tmp_path: Path) -> None:
    path, before = written(tmp_path), compilations()
    ran = call("run", path, "--out", tmp_path / "out")
    assert ran.exit_code == 0
    assert f"privacy: {SAID}" in ran.stderr + ran.stdout
    again = call("run", path, "--out", tmp_path / "out", "--set", "privacy.epsilon=2")
    assert again.exit_code == 2
    assert "privacy.epsilon is 1.0 there and 2.0 here" in again.stderr
    swept = call(
        "run", path, "--out", tmp_path / "sweep", "--set", "privacy.epsilon=[0.1, 1, 10]"
    )  # fmt: skip
    assert swept.exit_code == 0
    assert compilations() == before + 1  # cells that are played alone share the run's program
    listed = call("results", tmp_path / "sweep" / "small")
    for told in (swept, listed):
        assert f"privacy: {SAID.replace(' = 1', '')}" in told.stderr + told.stdout
    data = fb.load_experiment(tmp_path / "sweep" / "small")
    assert data["epsilon"].to_numpy().tolist() == [0.1, 1.0, 10.0]
    alone = fb.load(tmp_path / "out" / "small.nc")
    np.testing.assert_array_equal(data["regret"].sel(epsilon=1.0), alone.dataset["regret"])
    estimated = call("run", path, "--out", tmp_path / "never", "--dry-run")
    assert estimated.exit_code == 0


@pytest.mark.soak
def test_tuning_is_of_the_blurred_losses(tmp_path: Path) -> None:
    path, counts, tried = written(tmp_path), [], []
    for epsilon in ("1", "0.5"):
        out = tmp_path / epsilon
        before = compilations()
        tuned = call(
            *("tune", path, "--out", out, "--budget", "2", "--runs", "1"),
            *("--set", f"privacy.epsilon={epsilon}"),
        )
        assert tuned.exit_code == 0
        assert f"privacy: {SAID.replace('1', epsilon)}" in tuned.stdout
        counts.append(compilations() - before)
        tried.append((out / "small.candidates.csv").read_text())
        assert fb.load(out / "small.fresh.nc").epsilon == float(epsilon)
        assert f"epsilon = {epsilon}" in (out / "small.tuned.toml").read_text()
    assert counts[1] == 0  # ε is traced
    assert tried[0] != tried[1]


def test_list_names_it() -> None:
    shown = call("list").stdout
    assert "[privacy], which needs no name" in shown
    assert "randomised_response(epsilon)" in shown
