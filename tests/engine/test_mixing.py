"""Forms of the matrix: whichever is chosen, W z and the neighbours' maximum are what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.common.backend import playing_on
from fedbandits.engine.devices import spread
from fedbandits.engine.mixing import gather_kernel, linked_maximum, matrix_forms, row_form
from fedbandits.engine.mixing import mixer as mixing
from fedbandits.engine.trajectory import trajectory
from tests.instances import connected_networks

from .half_precision import needs_float16


def hub_graph(agents: int) -> fb.Network:
    return fb.networks.preferential_attachment(agents, 2, seed=1)


@pytest.fixture
def accelerator() -> Iterator[None]:
    with playing_on("gpu"):
        yield


@pytest.mark.parametrize(
    ("network", "form"),
    [
        (fb.networks.grid(4, 5), matrix_forms.Dense),
        (fb.networks.complete(300), matrix_forms.Complete),
        (fb.networks.grid(20, 15), matrix_forms.Neighbours),
        (fb.networks.random_geometric(1000, 0.08, seed=2), row_form.Rows),
        (fb.networks.random_geometric(3000, 0.06, seed=2, numbering="hilbert"), row_form.Rows),
        (fb.networks.random_geometric(300, 0.6, seed=0), matrix_forms.Dense),
        (fb.networks.star(300), matrix_forms.Edges),
        (hub_graph(1500), matrix_forms.Edges),
    ],
)
def test_every_form_is_the_matrix(network: fb.Network, form: type) -> None:
    gossip = fb.gossip.metropolis(network)
    mix = mixing.mixer(gossip, fb.GossipUCB(), "float32")
    assert isinstance(mix.averages, form)
    x = np.random.default_rng(0).normal(size=(3, 2, network.agents)).astype(np.float32)
    combine = jax.jit(mixing.Mixer.combine, static_argnums=1)
    averaged = np.asarray(combine(mix, "average", x)[0])
    np.testing.assert_allclose(averaged, x @ gossip.matrix.toarray(), rtol=1e-4, atol=1e-5)
    linked = network.adjacency.toarray() + np.eye(network.agents) > 0
    for values in (x, np.round(x)):  # all different, and few levels as in play counts
        largest = np.asarray(combine(mix, "maximum", values)[0])
        for v in range(0, network.agents, 7):
            np.testing.assert_array_equal(largest[..., v], values[..., linked[v]].max(axis=-1))


@pytest.mark.parametrize(
    ("agents", "most", "rest"),
    [
        (50, 3, (2, 0, 0)),  # all lists are short
        (300, 12, (2, 56, 1)),  # room for the most that anyone hears would take longer
        (300, 40, (3, 9, 10)),  # nine agents hear more than fits in the lists of all
    ],
)
@pytest.mark.parametrize("cells", [1, 6 * 7, 2**18])  # agent by agent, in sevens, all at once
def test_rows_take_any_matrix_and_any_number_of_agents(
    agents: int, most: int, rest: tuple[int, ...], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that differ by direction, an agent that hears nobody; runs beside each other."""
    monkeypatch.setattr(row_form, "_CELLS", cells)
    rng = np.random.default_rng(agents)
    degrees = rng.integers(0, min(most, row_form.GROUP) + 1, agents)
    degrees[5], degrees[30:39] = 0, most
    W = np.zeros((agents, agents))
    for v, degree in enumerate(degrees):
        others = np.delete(np.arange(agents), v)
        W[rng.choice(others, degree, replace=False), v] = rng.uniform(0.1, 1, degree)
    W += np.diag(rng.uniform(size=agents))
    form = row_form.rows(sp.csr_array(W.T), "float64")
    assert form.rest_index.shape == rest
    x = rng.normal(size=(3, 2, agents)).astype(np.float32)
    np.testing.assert_allclose(form.average(jnp.asarray(x)), x @ W, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(form.diagonal, W.diagonal())
    x[..., 0] = np.inf  # is heard by those who listen to agent 0, and by nobody else
    heard = np.asarray(form.average(jnp.asarray(x)))
    np.testing.assert_array_equal(np.isfinite(heard), np.broadcast_to(W[0] == 0, x.shape))


def test_rows_of_agents_most_of_whom_hear_nobody() -> None:
    """There is no place in the lists of all, and what the others hear is the rest."""
    rng = np.random.default_rng(0)
    W = np.diag(rng.uniform(size=40))
    W[:15, 20:24] = rng.uniform(0.1, 1, (15, 4))
    form = row_form.rows(sp.csr_array(W.T), "float64")
    assert (form.index.shape, form.rest_index.shape) == ((2, 40, 0), (2, 4, 8))
    x = rng.normal(size=(3, 2, 40)).astype(np.float32)
    np.testing.assert_allclose(form.average(jnp.asarray(x)), x @ W, rtol=1e-5, atol=1e-5)


@given(st.data())
def test_what_an_agent_hears_weighs_one_in_float32(data: st.DataObject) -> None:
    """To the last bit, or a million rounds would add what is missing to everything averaged."""
    network = data.draw(connected_networks(data.draw(st.sampled_from([2, 5, 8]))))
    rules: list[Callable[[fb.Network], fb.Gossip]] = [
        fb.gossip.max_degree,
        fb.gossip.metropolis,
        partial(fb.gossip.max_degree, lazy=False),  # someone may keep nothing to themselves
    ]
    gossip = data.draw(st.sampled_from(rules))(network)
    held = mixing.mixer(gossip, fb.FedExp3(), "float32").averages
    assert isinstance(held, matrix_forms.Dense)
    W = np.asarray(held.matrix, np.float64)  # sums of these are exact
    np.testing.assert_array_equal(W.sum(axis=0), 1)
    np.testing.assert_array_equal(W.sum(axis=1), 1)
    np.testing.assert_allclose(W, gossip.matrix.toarray(), rtol=0, atol=8 * 2.0**-24)
    assert W.min() >= 0


def test_an_estimate_without_news_is_what_was_heard() -> None:
    """GossipUCB's ϑ of an arm not played, in float32 to the last bit: no rounding on the way."""
    algorithm, arms = fb.GossipUCB(), 3
    heard = np.random.default_rng(0).uniform(0.5, 1, arms).astype(np.float32)
    state = algorithm.init(arms, 4)._replace(mean=heard[::-1].copy(), n=np.full(arms, 7, "f4"))
    after = algorithm.update(
        *(state, {"theta": heard, "n_most": state.n}, np.int32(1), np.float32(0.3)),
        *(np.full(arms, 1 / 3, "f4"), np.int32(30)),
    )
    np.testing.assert_array_equal(after.theta[[0, 2]], heard[[0, 2]])
    assert after.theta[1] != heard[1]


@needs_float16
@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("lazy", [True, False])
def test_tensor_cores_average_as_exactly_as_float32(lazy: bool) -> None:
    """The form of accelerators, here on whatever there is; 150 terms of 1e-7 each at most."""
    gossip = fb.gossip.max_degree(fb.networks.random_geometric(300, 0.5, seed=0), lazy=lazy)
    mix = mixing.mixer(gossip, fb.FedExp3(), "float32")
    assert isinstance(mix.averages, matrix_forms.EqualWeights)
    assert mix.averages.adjacency.shape == (384, 384)
    assert mix.averages.adjacency.dtype == jnp.float16
    x = np.random.default_rng(0).exponential(1e3, size=(3, 2, 300)).astype(np.float32)
    x[1] *= 1e-9  # every arm and run in its own scale
    combine = jax.jit(mixing.Mixer.combine, static_argnums=1)
    exact = x.astype(np.float64) @ gossip.matrix.toarray()
    np.testing.assert_allclose(combine(mix, "average", x)[0], exact, rtol=1e-6)
    metropolis = fb.gossip.metropolis(gossip.network)  # weights differ: no such form
    assert isinstance(
        mixing.mixer(metropolis, fb.FedExp3(), "float32").averages, matrix_forms.Dense
    )
    assert isinstance(mixing.mixer(gossip, fb.FedExp3(), "float64").averages, matrix_forms.Dense)


@pytest.mark.parametrize(
    ("network", "form"),
    [
        (fb.networks.grid(20, 15), matrix_forms.Shifts),
        (fb.networks.path(300), matrix_forms.Shifts),
        (fb.networks.ring(300), gather_kernel.NeighbourSums),  # its ends are too far apart to shift
        pytest.param(
            fb.networks.random_geometric(300, 0.5, seed=0),
            matrix_forms.EqualWeights,
            marks=needs_float16,
        ),
    ],
)
@pytest.mark.usefixtures("accelerator")
def test_forms_of_accelerators_are_the_matrix(network: fb.Network, form: type) -> None:
    gossip = fb.gossip.max_degree(network)
    mix = mixing.mixer(gossip, fb.GossipUCB(), "float32")
    assert isinstance(mix.averages, form)
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(3, 2, 300)).astype(np.float32)
    combine = jax.jit(mixing.Mixer.combine, static_argnums=1)
    averaged = np.asarray(combine(mix, "average", x)[0])
    np.testing.assert_allclose(averaged, x @ gossip.matrix.toarray(), rtol=1e-5)
    linked = network.adjacency.toarray() + np.eye(300) > 0
    counts = rng.integers(90, 98, size=x.shape).astype(np.float32)
    for values in (x, counts):
        largest = np.asarray(combine(mix, "maximum", values)[0])
        for v in range(0, 300, 7):
            np.testing.assert_array_equal(largest[..., v], values[..., linked[v]].max(axis=-1))


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("runs", [1, 11])  # rows of one block, and of two
def test_one_kernel_sums_neighbours_as_lists_do(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here by Triton's interpreter; also where agents are no whole number of blocks."""
    network = fb.networks.random_geometric(1000, 0.1, seed=2, numbering="hilbert")
    gossip = fb.gossip.max_degree(network)
    mix = mixing.mixer(gossip, fb.FedExp3(), "float32")
    assert isinstance(mix.averages, gather_kernel.NeighbourSums)
    x = np.random.default_rng(0).uniform(size=(3, runs, 1000)).astype(np.float32)
    averaged = jax.jit(mixing.Mixer.combine, static_argnums=1)(mix, "average", x)[0]
    np.testing.assert_allclose(averaged, x @ gossip.matrix.toarray(), rtol=1e-5)
    # Several games at once, as in a batch.
    batch = jax.jit(jax.vmap(lambda y: mix.combine("average", y)[0]))(np.stack([x, x + 1]))
    np.testing.assert_allclose(batch[1], (x + 1) @ gossip.matrix.toarray(), rtol=1e-5)
    exact = mixing.mixer(gossip, fb.FedExp3(), "float64").averages
    assert isinstance(exact, matrix_forms.Neighbours)
    spread_out = mixing.mixer(gossip, fb.FedExp3(), "float32", devices=2).averages
    assert isinstance(spread_out, matrix_forms.Neighbours)
    monkeypatch.setattr(mixing, "_NEAR", 99)  # agents numbered at random are farther apart
    at_random = fb.gossip.max_degree(fb.networks.random_geometric(1000, 0.1, seed=2))
    for numbered, form in (
        (at_random, matrix_forms.Neighbours),
        (fb.gossip.max_degree(network), gather_kernel.NeighbourSums),
    ):
        assert isinstance(mixing.mixer(numbered, fb.FedExp3(), "float32").averages, form)
    metropolis = fb.gossip.metropolis(network)  # weights differ: no such form
    other = mixing.mixer(metropolis, fb.FedExp3(), "float32").averages
    assert isinstance(other, matrix_forms.Neighbours)


@pytest.mark.usefixtures("accelerator")
def test_no_edges_are_no_matter_on_accelerators() -> None:
    mix = mixing.mixer(fb.gossip.none(fb.networks.ring(300)), fb.GossipUCB(), "float32")
    x = np.random.default_rng(0).uniform(size=(3, 2, 300)).astype(np.float32)
    for how in ("average", "maximum"):
        np.testing.assert_array_equal(mix.combine(how, x, x, np.zeros(2))[0], x)


@pytest.mark.parametrize("spread", [1, 5, 11, 12, 500])
def test_counts_far_apart_are_compared_too(spread: int) -> None:
    """One product tells counts apart that are near the largest; others take the long way."""
    network = fb.networks.random_geometric(300, 0.3, seed=1)
    mix = mixing.mixer(fb.gossip.max_degree(network), fb.GossipUCB(), "float32")
    assert isinstance(mix.maxima, linked_maximum.LinkedMatrix)
    x = np.random.default_rng(spread).integers(0, spread + 1, size=(2, 1, 300)).astype(np.float32)
    x[0, 0, 0] = 10_000  # far above everyone but its neighbours
    largest = np.asarray(jax.jit(mixing.Mixer.combine, static_argnums=1)(mix, "maximum", x)[0])
    linked = network.adjacency.toarray() + np.eye(300) > 0
    expected = np.stack([x[..., linked[v]].max(axis=-1) for v in range(300)], axis=-1)
    np.testing.assert_array_equal(largest, expected)


def test_a_flood_that_reaches_everyone_makes_no_list_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a list fills a machine's memory from some 30,000 agents on."""
    gossip = fb.gossip.max_degree(fb.networks.grid(15, 20))  # of diameter 33
    flood = partial(mixing._form_of_floods, gossip, dtype="float32", alone=True)
    assert not isinstance(flood(32), matrix_forms.Everyone)
    monkeypatch.setattr(fb.Network, "within", None)
    assert isinstance(flood(33), matrix_forms.Everyone)
    assert isinstance(flood(34), matrix_forms.Everyone)


def test_forms_are_made_once_for_each_gossip() -> None:
    gossip = fb.gossip.max_degree(fb.networks.random_geometric(300, 0.5, seed=0))
    first, again, other = (
        mixing.mixer(gossip, algorithm, dtype)
        for algorithm, dtype in (
            (fb.GossipUCB(), "float32"),
            (fb.FedExp3(), "float32"),
            (fb.FedExp3(), "float64"),
        )
    )
    assert again.averages is first.averages
    assert again.maxima is None
    assert other.averages is not first.averages


@pytest.mark.parametrize("agents", [5, 400])
def test_a_matrix_that_is_not_symmetric_is_read_as_the_paper_writes_it(agents: int) -> None:
    """z^v ← Σ_u W_uv z^u: what v hears is column v."""
    shift = np.roll(np.eye(agents), 1, axis=1)
    W = 0.5 * np.eye(agents) + 0.5 * shift
    gossip = fb.gossip.from_matrix(W)
    mix = mixing.mixer(gossip, fb.FedExp3(), "float64")
    x = np.random.default_rng(0).normal(size=(2, 1, agents)).astype(np.float32)
    np.testing.assert_allclose(mix.combine("average", x)[0], x @ W, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_random_edge_averages_one_edge_a_round() -> None:
    network = fb.networks.path(5)
    gossip = fb.gossip.random_edge(network)
    losses = np.random.default_rng(0).uniform(size=(60, 5, 2))
    run = trajectory(fb.problems.from_tensor(losses), fb.FedHedge(0.5), gossip, runs=3, seed=1)
    z = run.messages["z"]
    mixed = z[1:] - losses[:-1, None]
    used = set()
    for t in range(59):
        for r in range(3):
            moved = np.flatnonzero(np.abs(mixed[t, r] - z[t, r]).max(axis=-1) > 1e-9)
            if t == 0:
                assert moved.size == 0  # all zeros average to zeros
                continue
            u, v = moved
            assert v == u + 1
            used.add((r, int(u)))
            middle = (z[t, r, u] + z[t, r, v]) / 2
            np.testing.assert_allclose(mixed[t, r, [u, v]], [middle, middle], rtol=1e-12)
    assert {edge for _, edge in used} == {0, 1, 2, 3}
    # Each run draws its own edges.
    assert run.uniforms.links is not None
    assert (run.uniforms.links[:, 0] != run.uniforms.links[:, 1]).all()


@pytest.mark.parametrize("cells", [row_form._CELLS, 768])
def test_rows_leave_runs_on_their_devices(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is gathered from other devices: each has runs of its own; at once or in parts."""
    monkeypatch.setattr(row_form, "_CELLS", cells)
    network = fb.networks.random_geometric(1000, 0.1, seed=2, numbering="hilbert")
    mix = mixing.mixer(fb.gossip.max_degree(network), fb.FedExp3(), "float32")
    assert isinstance(mix.averages, row_form.Rows)
    where = spread(2, 4, 1000)
    assert where.mesh.size == 2
    x = where.put(np.ones((3, 4, 1000), np.float32))
    average = jax.jit(lambda form, x: where.keep(form.average(x)))
    assert "all-gather" not in str(average.lower(mix.averages, x).compile().as_text())
