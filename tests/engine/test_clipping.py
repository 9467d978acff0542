"""Clipped gossip: equal to plain NumPy, mean preserving, the average where there is no limit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.mixing import clipped_form, matrix_forms
from fedbandits.engine.mixing import mixer as mixing
from fedbandits.engine.preparation import precision
from fedbandits.engine.trajectory import trajectory
from tests.instances import connected_networks
from tests.oracles.liars import mixed
from tests.tiers import soak_but

combine = jax.jit(mixing.Mixer.combine, static_argnums=1)


@pytest.mark.parametrize("limit", [0.01, 0.7, 100.0])
@pytest.mark.parametrize(
    ("network", "links"),
    [
        (fb.networks.grid(4, 5), matrix_forms.Neighbours),
        (fb.networks.complete(12), matrix_forms.Neighbours),  # more rows than are unrolled
        (fb.networks.star(30), matrix_forms.Edges),
    ],
)
def test_every_form_is_what_plain_numpy_finds(
    network: fb.Network, links: type, limit: float
) -> None:
    plain = fb.gossip.metropolis(network)
    gossip = fb.gossip.clipped(plain, limit)
    x = np.random.default_rng(0).normal(size=(3, 2, network.agents))
    with precision("float64"):
        mix = mixing.mixer(gossip, fb.FedExp3(), "float64")
        assert isinstance(mix.averages, clipped_form.Clipped)
        assert isinstance(mix.averages.links, links)
        told = x.copy()
        told[..., 1] += 50
        found = np.asarray(combine(mix, "average", x, told)[0])
    for r in range(2):
        expected = mixed(x[:, r].T, told[:, r].T, plain.matrix.toarray(), limit)
        np.testing.assert_allclose(found[:, r].T, expected, rtol=0, atol=1e-13)


@settings(max_examples=25)
@given(st.data())
def test_the_sum_is_kept(data: st.DataObject) -> None:
    """Whatever the limit: what one end gives, the other takes."""
    agents = data.draw(st.sampled_from([2, 5, 8]))
    network = data.draw(connected_networks(agents))
    rule = data.draw(st.sampled_from([fb.gossip.max_degree, fb.gossip.metropolis]))
    gossip = fb.gossip.clipped(rule(network), data.draw(st.floats(1e-3, 1e3)))
    x = np.random.default_rng(data.draw(st.integers(0, 99))).normal(0, 100, size=(3, 2, agents))
    with precision("float64"):
        found = np.asarray(mixing.mixer(gossip, fb.FedExp3(), "float64").combine("average", x)[0])
    assert np.abs(found - x).max() > 0
    np.testing.assert_allclose(found.sum(-1), x.sum(-1), rtol=0, atol=1e-11)


@pytest.mark.slow
def test_the_sum_is_kept_along_a_run() -> None:
    """Σ_v z_t^v = Σ_{s<t} Σ_v g_s^v in float64: 200 rounds of estimates up to some thousands."""
    problem = fb.problems.heterogeneous(9, 4, 200, seed=1)
    gossip = fb.gossip.clipped(fb.gossip.max_degree(fb.networks.grid(3, 3)), 0.5)
    run = trajectory(problem, fb.FedExp3(0.1), gossip, runs=2, seed=4)
    losses = problem.block(1, 200).astype(float)[:, None]
    played = np.arange(4) == run.action[..., None]
    g = np.where(played, losses / run.distribution, 0)
    put_in = np.cumsum(g.sum(axis=2), axis=0)
    kept = run.messages["z"].sum(axis=2)
    np.testing.assert_allclose(kept[1:], put_in[:-1], rtol=1e-13, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", soak_but([fb.gossip.metropolis], [fb.gossip.metropolis, fb.gossip.random_edge])
)
def test_no_limit_is_the_average_bit_for_bit(
    rule: Callable[[fb.Network], fb.Gossip],
) -> None:
    problem = fb.problems.heterogeneous(6, 3, 50, seed=1)
    plain = rule(fb.networks.grid(2, 3))
    alike = [
        fb.simulate(problem, fb.FedExp3(), gossip, 2, progress=False).dataset
        for gossip in (plain, fb.gossip.clipped(plain, math.inf))
    ]
    for data in alike:
        del data.attrs["config"]
    xr.testing.assert_identical(*alike)


def test_a_random_edge_is_clipped_too() -> None:
    network = fb.networks.path(3)
    gossip = fb.gossip.clipped(fb.gossip.random_edge(network), 1.0)
    x = np.array([[[0.0, 10.0, 10.5]] * 2])
    with precision("float64"):
        mix = mixing.mixer(gossip, fb.FedExp3(), "float64")
        found = np.asarray(combine(mix, "average", x, drawn=np.array([0.1, 0.9]))[0])
    np.testing.assert_array_equal(found, [[[0.5, 9.5, 10.5], [0.0, 10.25, 10.25]]])


@pytest.mark.soak
def test_a_sweep_over_limits_compiles_once() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8, 0.5], horizon=37, agents=7)
    plain = fb.gossip.max_degree(fb.networks.ring(7))
    regrets, before = set(), None
    for limit in (0.1, 1.0, 10.0):
        gossip = fb.gossip.clipped(plain, limit)
        result = fb.simulate(problem, fb.FedExp3(), gossip, 2, progress=False)
        regrets.add(float(result.dataset["expected_regret"][0, -1]))
        assert before in (None, compilations())
        before = compilations()
    assert len(regrets) == 3


def test_maxima_and_floods_stay_as_they_are() -> None:
    plain = fb.gossip.max_degree(fb.networks.ring(5))
    made = [
        mixing.mixer(gossip, fb.GossipUCB(), "float32").maxima
        for gossip in (plain, fb.gossip.clipped(plain, 0.1))
    ]
    arrays = [np.asarray(getattr(form, field.name)) for form in made for field in fields(form)]
    assert len(arrays) == 2
    np.testing.assert_array_equal(arrays[0], arrays[1])


def fields(form: object) -> tuple[dataclasses.Field[object], ...]:
    return dataclasses.fields(form)  # type: ignore[arg-type]  # forms are dataclasses


@pytest.mark.slow
def test_bounds_say_that_none_is_known() -> None:
    problem = fb.problems.bernoulli([0.2, 0.8], horizon=20, agents=4)
    gossip = fb.gossip.clipped(fb.gossip.max_degree(fb.networks.ring(4)), 1.0)
    result = fb.simulate(problem, fb.FedExp3(), gossip, 2, progress=False)
    loaded = dataclasses.replace(result, gossip=None)  # as a file gives it back
    for table in (result.bounds(), loaded.bounds()):
        assert not [name for name in table.index if name.startswith("Theorem 3")]
        row = table.loc["upper bound"]
        assert np.isnan(row["value"])
        assert row["remark"] == "none is known where differences between neighbours are clipped"
        assert "none  none is known" in repr(table)
