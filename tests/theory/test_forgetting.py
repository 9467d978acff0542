"""FedExp3 that forgets: the bound of docs/understand/theory.md, and its proof along runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.engine.trajectory import trajectory
from fedbandits.theory import bounds

GRID = fb.gossip.max_degree(fb.networks.grid(3, 3))
SIZES: dict[str, Any] = {"arms": 4, "horizon": 300}
RATES: dict[str, Any] = {"learning_rate": 0.05, "exploration": fb.schedules.power(0.5, 1 / 3)}


def test_who_hardly_forgets_has_the_bound_of_theorem_3() -> None:
    plain = bounds.upper_bound_before_tuning(GRID, **SIZES, **RATES)
    found = bounds.forgetting_bound(GRID, **SIZES, **RATES, memory=1e12)
    assert found == pytest.approx(plain, rel=1e-9)


def test_every_term_by_hand() -> None:
    """K = 2, T = 10, m = 4, η = 0.5, γ = 0.2, S = 1; on one agent C_W = 4."""
    alone = fb.gossip.max_degree(fb.networks.path(1))
    assert alone.c_w(10) == 4
    found = bounds.forgetting_bound(
        alone, arms=2, horizon=10, learning_rate=0.5, exploration=0.2, memory=4, changes=1
    )
    distance = (2 * 0.75 + 10 / 4) * math.log(2) / 0.5
    estimates = 4 / 2 * 0.5 / 0.75 * 10 / 0.2
    consensus = 4 / 0.2 * 4 * 0.5 * 10  # 2 m is 8
    assert found == pytest.approx(distance + 4 + estimates + consensus + 10 * 0.2)


def test_agents_who_never_meet_are_no_further_apart_than_they_remember() -> None:
    silent = fb.gossip.none(fb.networks.ring(5))
    assert math.isfinite(bounds.forgetting_bound(silent, **SIZES, **RATES, memory=10))
    assert math.isinf(
        bounds.forgetting_bound(GRID, **SIZES, learning_rate=0.05, exploration=0.0, memory=10)
    )


@pytest.mark.parametrize(
    "wrong", [{"memory": 1}, {"learning_rate": 0.0}, {"changes": 300}, {"changes": -1}]
)
def test_senseless_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        bounds.forgetting_bound(GRID, **SIZES, **{**RATES, "memory": 10.0, **wrong})


@pytest.mark.slow
@pytest.mark.parametrize("memory", [2.0, 15.0, 100.0])
def test_the_steps_of_the_proof_hold_along_a_run(memory: float) -> None:
    """For every arm and many intervals: nothing here is in expectation."""
    agents, arms, horizon, eta = 9, 4, 300, 0.05
    problem = fb.problems.switching(agents, arms, horizon, parts=3, seed=1)
    algorithm = fb.FedExp3(eta, RATES["exploration"], memory=memory)
    run = trajectory(problem, algorithm, GRID, seed=3)
    losses = np.asarray(problem.block(1, horizon), np.float64)
    chosen = np.arange(arms) == run.action[:, 0, :, None]
    g = np.where(chosen, losses / run.distribution[:, 0], 0)
    z, f = run.messages["z"][:, 0], g.mean(axis=1)
    kept = 1 - 1 / memory
    z_bar = z.mean(axis=1)  # before each round, [T, K]
    z_bar = np.vstack([z_bar, kept * z_bar[-1] + f[-1]])
    np.testing.assert_allclose(z_bar[1:], kept * z_bar[:-1] + f, rtol=1e-9, atol=1e-9)
    gamma = np.minimum(0.5 * np.arange(1, horizon + 1) ** (-1 / 3), 1)
    apart = np.abs(z - z_bar[:-1, None]).max()
    assert apart <= arms / gamma[-1] * min(GRID.c_w(horizon), 2 * memory) + 1e-9
    y = np.exp(-eta * z_bar[:-1])
    y /= y.sum(axis=1, keepdims=True)
    above = (y * f).sum(axis=1)[:, None] - f  # ⟨y_t, f_t⟩ - f_t(i)
    spread = (y * f**2).sum(axis=1)
    rng = np.random.default_rng(0)
    for start, end in [(0, horizon), *np.sort(rng.integers(0, horizon, (40, 2)), axis=1)]:
        length = end - start
        most = (
            (kept + length / memory) * math.log(arms) / eta
            + eta / kept / 2 * spread[start:end].sum()
            + z_bar[start]
        )
        assert (above[start:end].sum(axis=0) <= most + 1e-9).all()


def test_the_third_step_needs_rates_that_never_rise() -> None:
    """For one arm that loses, then another: from it to its bound, over many intervals."""
    horizon, arms = 200, 4
    f = np.zeros((horizon, arms))
    f[:100, 0] = f[100:, 1] = 1
    falling = 2 / np.sqrt(np.arange(1.0, horizon + 1))
    for memory in (2.0, 15.0, 1e6):
        assert _above_its_bound(falling, f, memory) <= 1e-9
    assert _above_its_bound(falling[::-1], f, 1e6) > 1


def _above_its_bound(eta: Any, f: Any, memory: float) -> float:
    """The most by which Σ ⟨y_t, f_t⟩ - f_t(i) exceeds what step 3 says, over arms and intervals."""
    kept, z = 1 - 1 / memory, np.zeros((len(f) + 1, f.shape[1]))
    for t, lost in enumerate(f):
        z[t + 1] = kept * z[t] + lost
    y = np.exp(-eta[:, None] * z[:-1])
    y /= y.sum(axis=1, keepdims=True)
    above = (y * f).sum(axis=1)[:, None] - f
    spread, log = (y * f**2).sum(axis=1), math.log(f.shape[1])
    return max(
        float((above[r:s].sum(axis=0) - z[r]).max())
        - float(kept * log / eta[s - 1])
        - float(log / memory * (1 / eta[r:s]).sum())
        - float((eta[r:s] / kept / 2 * spread[r:s]).sum())
        for r in range(0, len(f), 5)
        for s in range(r + 1, len(f) + 1, 7)
    )
