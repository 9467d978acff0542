"""float32 stays honest: what it loses is below what chance decides, and no product is in TF32."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.engine import mixing

GOSSIP = fb.gossip.max_degree(fb.networks.grid(6, 6))


@pytest.mark.parametrize("algorithm", [fb.FedExp3(), fb.GossipUCB()], ids=["FedExp3", "GossipUCB"])
def test_float32_regret_is_float64s_within_monte_carlo_error(algorithm: AnyAlgorithm) -> None:
    """Over the paper's longest horizon, |mean32 - mean64| < the 95% half-width over 10 runs.

    Regret at T, mean over agents, same losses and same seed; the half-width is float64's own.
    """
    problem = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=12_800, seed=0)
    narrow, wide = (
        fb.simulate(problem, algorithm, GOSSIP, runs=10, seed=0, dtype=dtype)
        for dtype in ("float32", "float64")
    )
    for name in ("regret", "expected_regret"):
        low, high = (result.band(name).mean.isel(time=-1) for result in (narrow, wide))
        half_width = wide.band(name).high.isel(time=-1) - high
        assert abs(low - high) < half_width, name


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
    dense = jax.jit(lambda W, x: mixing.Dense(W).average(x, jnp.zeros(2)))
    with jax.default_matmul_precision(default):
        for lowered in (
            combine.lower(mix, "average", x, None),
            dense.lower(np.eye(36, dtype=np.float32), x),
        ):
            (product,) = products(lowered.as_text())
            assert "precision = [HIGHEST, HIGHEST]" in product
