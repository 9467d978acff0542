"""float32 stays honest: what it loses is below what chance decides, and no product is in TF32."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

import fedbandits as fb
from benchmarks import precision as measured
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.engine.mixing import matrix_forms
from fedbandits.engine.mixing import mixer as mixing
from fedbandits.simulation import simulation
from fedbandits.sweeps.plan import make_plan
from tests.instances import SMALL_CONFIG

GOSSIP = fb.gossip.max_degree(fb.networks.grid(6, 6))


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", [fb.FedExp3(), fb.GossipUCB()], ids=["FedExp3", "GossipUCB"])
def test_float32_regret_is_float64s_but_for_chance(algorithm: AnyAlgorithm) -> None:
    """Over the paper's longest horizon, with the same losses and uniforms.

    Rounding flips an arm now and then, after which two runs are two draws of one law: null, the 60
    paired differences have the mean 0. Six standard errors, Student's t: 1e-7 for each.
    """
    problem = fb.problems.activated_bernoulli(agents=9, arms=5, horizon=12_800, seed=0)
    gossip = fb.gossip.max_degree(fb.networks.grid(3, 3))
    narrow, wide = (
        fb.simulate(problem, algorithm, gossip, runs=60, seed=0, dtype=dtype).dataset
        for dtype in ("float32", "float64")
    )
    for name in ("regret", "expected_regret"):
        apart = (narrow[name] - wide[name]).isel(time=-1).to_numpy()
        assert abs(apart.mean()) < 6 * apart.std(ddof=1) / np.sqrt(60) + 1e-3, name


@pytest.mark.soak
def test_more_runs_do_not_change_earlier_ones_in_float64() -> None:
    """The arms are equal; expected regret differs by rounding alone.

    In float32 XLA's order of sums for 10 and for 100 runs flips an arm here.
    """
    problem = fb.problems.heterogeneous(agents=10, arms=3, horizon=2000, seed=1)
    gossip = fb.gossip.max_degree(fb.networks.ring(10))
    few, many = (
        fb.simulate(problem, fb.FedExp3(), gossip, runs, dtype="float64").dataset
        for runs in (10, 100)
    )
    many = many.isel(run=slice(10))
    for name in ("arm_frequency", "regret", "expected_regret", "agent_regret"):
        np.testing.assert_allclose(few[name], many[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("draws", [None, 2])
def test_float32_beyond_what_was_measured_warns(
    draws: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, at the caller's line; float64 does not, nor a horizon that was measured."""
    assert simulation.FLOAT32_ROUNDS == measured.FLOAT32_ROUNDS == 1_000_000
    problem = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=12)
    monkeypatch.setattr(simulation, "FLOAT32_ROUNDS", 11)
    with pytest.warns(UserWarning, match=r'12 rounds .* pass dtype="float64"') as said:
        fb.simulate(problem, fb.Exp3(), runs=2, draws=draws)
    assert [warning.filename for warning in said] == [__file__]
    assert not simulation.Simulation(problem, fb.Exp3(), dtype="float64").doubts()
    monkeypatch.setattr(simulation, "FLOAT32_ROUNDS", 12)
    assert not simulation.Simulation(problem, fb.Exp3()).doubts()


def test_sweeps_and_tuning_warn_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is played, once for all cells."""
    monkeypatch.setattr(simulation, "FLOAT32_ROUNDS", 19)
    path = tmp_path / "sweep.toml"
    path.write_text("seed = [0, 1]\n" + SMALL_CONFIG)
    with pytest.warns(UserWarning, match=r'20 rounds .* pass dtype="float64"') as said:
        make_plan(path)
    assert len(said) == 1
    make_plan(path, ["dtype=float64"])
    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=20)
    with (
        pytest.warns(UserWarning, match="20 rounds") as said,
        pytest.raises(ValueError, match="there are no candidates"),
    ):
        fb.tuning.choose(problem, fb.Exp3(), candidates=[])
    assert [warning.filename for warning in said] == [__file__]


def products(lowered: str) -> list[str]:
    """The matrix products of a program."""
    return [line for line in lowered.splitlines() if "dot_general" in line]


@pytest.mark.parametrize("default", [None, "default", "tensorfloat32", "bfloat16"])
def test_a_dense_average_asks_for_full_precision(default: str | None) -> None:
    """TF32 has 11 bits: on GPUs that have it, it is what a product gets unless it asks for more."""
    assert jax.config.values["jax_default_matmul_precision"] is None  # left as it is
    mix = mixing.mixer(GOSSIP, fb.FedExp3(), "float32")
    x = np.zeros((20, 2, 36), np.float32)
    combine = jax.jit(mixing.Mixer.combine, static_argnums=1)
    dense = jax.jit(lambda W, x: matrix_forms.Dense(W).average(x))
    with jax.default_matmul_precision(default):
        for lowered in (
            combine.lower(mix, "average", x, None),
            dense.lower(np.eye(36, dtype=np.float32), x),
        ):
            (product,) = products(lowered.as_text())
            assert "precision = [HIGHEST, HIGHEST]" in product
