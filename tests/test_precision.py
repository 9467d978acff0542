"""float32 stays honest: what it loses is below what chance decides, and no product is in TF32."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import t as student_t

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.engine import mixing

GOSSIP = fb.gossip.max_degree(fb.networks.grid(6, 6))


@pytest.mark.parametrize(
    ("algorithm", "runs", "half_widths"),
    [(fb.FedExp3(), 10, 1), (fb.GossipUCB(), 5, 2)],
    ids=["FedExp3", "GossipUCB"],
)
def test_float32_regret_is_float64s_within_monte_carlo_error(
    algorithm: AnyAlgorithm, runs: int, half_widths: int
) -> None:
    """Over the paper's longest horizon, |mean32 - mean64| < the 95% half-width over runs.

    Regret at T, mean over agents, same losses and same seed; the half-width is float64's own.
    GossipUCB's ties fall another way after some rounding, and from there on its runs are different
    runs: the means of two independent sets stay within twice the half-width 995 times in 1000.
    """
    problem = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=12_800, seed=0)
    narrow, wide = (
        fb.simulate(problem, algorithm, GOSSIP, runs=runs, seed=0, dtype=dtype).dataset
        for dtype in ("float32", "float64")
    )
    for name in ("regret", "expected_regret"):
        low, high = (np.asarray(data[name].isel(time=-1)) for data in (narrow, wide))
        half_width = student_t.ppf(0.975, runs - 1) * high.std(ddof=1) / runs**0.5
        assert abs(low.mean() - high.mean()) < half_widths * half_width, name


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
