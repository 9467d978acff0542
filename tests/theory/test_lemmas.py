"""The lemmas of the paper's appendix, on runs of the engine itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedbandits as fb
from fedbandits.algorithms.exponential_weights import (
    LossEstimates,
    exponential_weights,
    importance_weighted,
)
from fedbandits.arrays import sample
from fedbandits.engine.trajectory import trajectory
from fedbandits.schedules import constant
from tests.tiers import soak_but

Float = np.ndarray[Any, Any]

estimates = arrays(np.float64, 4, elements=st.floats(0, 1e4))
rates = st.floats(1e-4, 10)


def x_of(z: Float, eta: float) -> Float:
    x: Float = exponential_weights(LossEstimates(z, np.float64(1)), constant(eta), 5)
    return x


def play(network: fb.Network, arms: int, horizon: int, c: float) -> tuple[Float, ...]:
    """z, g and p of a run of FedExp3 with γ_t = c · t^(-1/3), each [T, N, K], and W."""
    problem = fb.problems.activated_bernoulli(network.agents, arms, horizon, seed=1)
    gossip = fb.gossip.max_degree(network)
    run = trajectory(problem, fb.FedExp3(0.1, fb.schedules.power(c, 1 / 3)), gossip, seed=3)
    losses = problem.block(1, horizon)
    chosen = np.arange(arms) == run.action[:, 0, :, None]
    g = np.where(chosen, losses / run.distribution[:, 0], 0)
    return run.messages["z"][:, 0], g, run.distribution[:, 0], gossip.matrix.toarray()


@pytest.mark.slow
def test_mean_z_advances_by_the_mean_loss_estimate() -> None:
    z, g, p, _ = play(fb.networks.path(9), 4, 200, 0.5)
    z_bar, f = z.mean(axis=1), g.mean(axis=1)
    np.testing.assert_allclose(z_bar[1:], z_bar[:-1] + f[:-1], rtol=1e-10, atol=1e-10)
    gamma = 0.5 * np.arange(1, len(g) + 1) ** (-1 / 3)
    assert (g.max(axis=(1, 2)) <= 4 / gamma + 1e-9).all()  # ‖g_t‖ <= K/γ_t
    assert (p >= gamma[:, None, None] / 4 - 1e-12).all()


@given(arrays(np.float64, 5, elements=st.floats(0, 1)), st.integers(0, 10**6))
def test_the_estimator_is_unbiased(loss: Float, seed: int) -> None:
    """Σ_a p(a) g(a) = ℓ exactly: an expectation over K arms needs no sampling."""
    p = np.random.default_rng(seed).dirichlet(np.ones(5)) * 0.9 + 0.02
    mean = sum(p[a] * importance_weighted(loss[a], np.int64(a), p) for a in range(5))
    np.testing.assert_allclose(mean, loss, rtol=1e-12, atol=1e-15)


def test_arms_are_drawn_with_their_probabilities() -> None:
    """Over an even grid of M uniforms each arm is drawn M·p times, give or take the two ends."""
    p = np.array([0.13, 0.0, 0.5, 0.07, 0.3])
    grid = (np.arange(100_000) + 0.5) / 100_000
    drawn = np.bincount(sample(np.repeat(p[:, None], grid.size, axis=1), grid), minlength=5)
    np.testing.assert_allclose(drawn, p * grid.size, rtol=0, atol=1)


def test_compiled_and_plain_sampling_agree() -> None:
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(20, 0.3), size=(3, 500)).transpose(2, 0, 1).astype(np.float32)
    u = rng.uniform(size=(3, 500)).astype(np.float32)
    compiled = np.asarray(sample(jnp.asarray(p), jnp.asarray(u)))
    # Sums in another order may move a boundary by a rounding; 1,500 draws meet none of them.
    np.testing.assert_array_equal(compiled, sample(p, u))


@given(estimates, rates)
def test_x_is_the_entropic_ftrl_solution(z: Float, eta: float) -> None:
    """x minimises ⟨x, z⟩ + ψ_η(x) on the simplex: its gradient z + ln(x)/η is level (KKT)."""
    x = x_of(z, eta)
    assert x.sum() == pytest.approx(1, abs=1e-12)
    inside = x > 1e-290
    level = (z + np.log(np.where(inside, x, 1)) / eta)[inside]
    assert np.ptp(level) <= 1e-9 * (1 + np.abs(z).max() + 700 / eta)

    def objective(y: Float) -> float:
        entropy = np.where(y > 0, y * (np.log(np.where(y > 0, y, 1)) - 1), 0)
        return float(y @ z + entropy.sum() / eta)

    rng = np.random.default_rng(0)
    slack = 1e-9 * (1 + np.abs(z).max() + 1 / eta)
    assert all(objective(x) <= objective(y) + slack for y in rng.dirichlet(np.ones(4), 50))


@given(estimates, estimates, rates)
def test_the_softmax_map_is_eta_lipschitz(z: Float, other: Float, eta: float) -> None:
    """‖x - y‖₁ <= η ‖z - z'‖∞."""
    distance = np.abs(x_of(z, eta) - x_of(other, eta)).sum()
    assert distance <= eta * np.abs(z - other).max() * (1 + 1e-9) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "arms", "horizon", "c"),
    soak_but(
        ["path"],
        {
            "path": (fb.networks.path(9), 4, 200, 0.5),
            "the paper's instance": (fb.networks.grid(6, 6), 20, 1000, 0.01),
        },
    ),
)
def test_disagreement_stays_below_both_bounds(
    network: fb.Network, arms: int, horizon: int, c: float
) -> None:
    """Below the sum over past estimates of how far W^(t-1-s) is from 1/N, and the paper's lemma."""
    z, g, _, W = play(network, arms, horizon, c)
    power, spread = np.eye(network.agents), np.zeros((horizon, network.agents))
    for k in range(horizon):  # ‖row_v(W^k) - 1/N‖₁
        spread[k] = np.abs(power - 1 / network.agents).sum(axis=0)
        power = power @ W
    largest = g.max(axis=(1, 2))
    disagreement = np.abs(z - z.mean(axis=1, keepdims=True)).max(axis=2)  # [T, N]
    tight = np.zeros_like(disagreement)
    for t in range(1, horizon):  # z_{t+1} = Σ_{s<=t} W^(t-s) g_s
        tight[t] = largest[:t] @ spread[:t][::-1]
    assert (disagreement <= tight + 1e-9).all()
    paper = arms / (c * horizon ** (-1 / 3)) * fb.gossip.max_degree(network).c_w(horizon)
    assert disagreement.max() <= paper


@pytest.mark.slow
@pytest.mark.parametrize("arms", [5, 64, 65, 1000])
def test_an_arm_of_probability_zero_is_never_drawn(arms: int) -> None:
    """Also not where rounding moves a sum over many arms: u is put just beside every sum."""
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(sample)
    rng = np.random.default_rng(arms)
    p = rng.exponential(size=(arms, 200)) * (rng.uniform(size=(arms, 200)) < 0.5)
    p[rng.integers(arms), :] += 0.1
    p = (p / p.sum(axis=0)).astype(np.float32)
    sums = np.asarray(jnp.cumulative_sum(jnp.asarray(p), axis=0))
    for k in range(0, arms, max(1, arms // 50)):
        for nudge in (-1e-7, 0.0, 1e-7):
            u = np.clip(sums[k] / sums[-1] + nudge, 0, 1 - 1e-7).astype(np.float32)
            drawn = np.asarray(compiled(p, u))
            assert (p[drawn, np.arange(200)] > 0).all()
