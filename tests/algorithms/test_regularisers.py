"""The regularised leader solves its own optimality conditions, whatever the losses and weights."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.algorithms.regularisers import regularised_leader
from tests.oracles.paper import Float


def bisected(losses: Float, a: Float, b: Float, c: Float) -> Float:
    """The same by two nested bisections, `[K, n]`: slow, and sure to converge."""
    gaps = losses - losses.min(axis=0)

    def inverse(y: Float) -> Float:
        low, high = np.full(y.shape, -740.0), np.zeros(y.shape)
        for _ in range(65):
            middle = (low + high) / 2
            root = np.exp(-middle / 2)
            below = -a * root + b * middle - c * root * root < y
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        out: Float = low
        return out

    arms = len(losses)
    low, high = -a * np.sqrt(arms) - b * np.log(arms) - c * arms, -a - c
    for _ in range(65):
        middle = (low + high) / 2
        below = np.exp(inverse(middle - gaps)).sum(axis=0) < 1
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    x = np.exp(inverse(low - gaps))
    out: Float = x / x.sum(axis=0)
    return out


def instances(arms: int, number: int) -> tuple[Float, Float]:
    """Gaps from 0 to 1e6 of three shapes; weights from 1e-3 to 1e5, each 0 in a third of cases."""
    random = np.random.default_rng(arms)
    size = 10 ** random.uniform(-3, 6, number)
    spread = random.uniform(size=(arms, number)) ** random.uniform(0.3, 6, number) * size
    mixed = 10 ** random.uniform(-6, 6, (arms, number)) * random.integers(0, 2, (arms, number))
    leaders = np.arange(arms)[:, None] < random.integers(1, arms, number)
    losses = np.concatenate([spread, mixed, np.where(leaders, 0.0, size)], axis=1)
    losses[:, 0] = 0
    weights = 10 ** random.uniform(-3, 5, (3, 3 * number))
    weights *= random.uniform(size=weights.shape) < 2 / 3
    weights[random.integers(0, 3, 3 * number), np.arange(3 * number)] += 1e-3  # one is positive
    # Numbers that float32 holds too: what is compared is the solver, not the rounding of its input.
    return losses.astype(np.float32).astype(float), weights.astype(np.float32).astype(float)


def solved(losses: Float, weights: Float) -> Float:
    a, b, c = weights
    out: Float = regularised_leader(losses, tsallis=a, entropy=b, barrier=c)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("arms", [2, 5, 20, 60])
def test_equals_nested_bisection(arms: int) -> None:
    losses, weights = instances(arms, 100)
    expected = bisected(losses, *weights)
    x = solved(losses, weights)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-12)
    seen = expected > 1e-200  # importance weights need the small ones too
    np.testing.assert_allclose(x[seen], expected[seen], rtol=1e-11)
    single = solved(losses.astype(np.float32), weights.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=0, atol=5e-6)
    seen = expected > 1e-25
    np.testing.assert_allclose(single[seen], expected[seen], rtol=3e-5)


def test_many_arms_are_stationary_points() -> None:
    """With 1000 arms bisection is slow, but L + f(ln x) must be the same for every arm."""
    losses, (a, b, c) = instances(1000, 20)
    x = solved(losses, np.stack([a, b, c]))
    np.testing.assert_allclose(x.sum(axis=0), 1, rtol=1e-12)
    seen = np.where(x > 1e-200, x, np.nan)
    level = losses - a / np.sqrt(seen) + b * np.log(seen) - c / seen
    slope = a / np.sqrt(seen) / 2 + b + c / seen
    off = (level - np.nanmax(np.where(x == x.max(axis=0), level, np.nan), axis=0)) / slope
    assert np.nanmax(abs(off)) < 1e-8  # as an error of ln x


def test_closed_forms() -> None:
    losses = np.array([0.0, 1.0, 3.0])
    weights = np.exp(-losses / 0.7)
    np.testing.assert_allclose(
        regularised_leader(losses, entropy=0.7), weights / weights.sum(), rtol=1e-14
    )
    even = np.full(7, 5.0)
    np.testing.assert_allclose(
        regularised_leader(even, tsallis=2.0, entropy=0.3, barrier=0.1), 1 / 7, rtol=1e-14
    )
    # Two arms, barrier: 1/x - 1/(1 - x) = -gap.
    x = regularised_leader(np.array([0.0, 1.5]), barrier=1.0)
    np.testing.assert_allclose(1 / x[1] - 1 / x[0], 1.5, rtol=1e-13)
    np.testing.assert_array_equal(
        regularised_leader(losses + 100, tsallis=1.0), regularised_leader(losses, tsallis=1.0)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_never_nan_however_extreme(dtype: type) -> None:
    losses: Float = np.array([[0.0, 1e30], [1e-30, 1e30], [1e30, 0.0], [5.0, 0.0]], dtype)
    for name in ("tsallis", "entropy", "barrier"):
        for weight in (1e-8, 1.0, 1e8):
            x = regularised_leader(losses, **{name: weight})
            assert np.isfinite(x).all()
            np.testing.assert_allclose(x.sum(axis=0), 1, rtol=1e-5)


def test_jax_and_one_agent_equal_a_batch() -> None:
    import jax

    losses, (a, b, c) = instances(20, 12)
    expected = solved(losses, np.stack([a, b, c]))
    with jax.enable_x64(True):
        traced = jax.jit(lambda z, a, b, c: regularised_leader(z, tsallis=a, entropy=b, barrier=c))
        np.testing.assert_allclose(traced(losses, a, b, c), expected, rtol=1e-10, atol=1e-300)
    one = regularised_leader(losses[:, 3], tsallis=a[3], entropy=b[3], barrier=c[3])
    np.testing.assert_allclose(one, expected[:, 3], rtol=1e-13)
