"""Networks against closed forms, dense eigenvalues and networkx; every refusal by its message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits import networks
from fedbandits.config.building import parse_network
from fedbandits.config.schema import configuration_schema
from fedbandits.networks import Network, base, spectra
from fedbandits.networks.hilbert import along_hilbert_curve, place_on_curve

MILLION = 1_000_000

CLOSED = [
    *(networks.complete(n) for n in (1, 2, 3, 7, 20)),
    *(networks.ring(n) for n in (3, 4, 5, 10, 31)),
    *(networks.path(n) for n in (1, 2, 3, 10, 31)),
    *(networks.star(n) for n in (1, 2, 3, 4, 20)),
    *(networks.grid(r, c) for r, c in ((1, 1), (1, 6), (6, 1), (2, 2), (3, 5), (6, 6), (7, 4))),
]

TWINS: list[tuple[Network, Any]] = [
    (networks.complete(7), nx.complete_graph(7)),
    (networks.ring(9), nx.cycle_graph(9)),
    (networks.path(9), nx.path_graph(9)),
    (networks.star(9), nx.star_graph(8)),
    (networks.grid(4, 6), nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 6))),
    (networks.two_clusters(5, 3), nx.barbell_graph(5, 3)),
    (networks.two_clusters(4, 0), nx.barbell_graph(4, 0)),
    (networks.preferential_attachment(50, 3, seed=7), nx.barabasi_albert_graph(50, 3, seed=7)),
    (networks.erdos_renyi(40, 0.15, seed=3), nx.fast_gnp_random_graph(40, 0.15, seed=3)),
    (networks.erdos_renyi(40, 0.0, seed=3), nx.empty_graph(40)),
    *(
        (networks.random_geometric(n, r, seed=s), nx.random_geometric_graph(n, r, seed=s))
        for n, r, s in ((1, 0.5, 0), (36, 0.3, 0), (36, 0.9, 0), (300, 0.1, 5), (50, 0.0, 1))
    ),
]


def dense_laplacian(network: Network) -> np.ndarray[Any, Any]:
    return np.linalg.eigvalsh(network.laplacian.toarray())


@st.composite
def graphs(draw: st.DrawFn) -> Network:
    agents = draw(st.integers(1, 12))
    pairs = [(u, v) for u in range(agents) for v in range(u + 1, agents)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return networks.from_edges(agents, edges)


@pytest.mark.parametrize("network", CLOSED, ids=str)
def test_closed_forms_equal_what_is_computed(network: Network) -> None:
    plain = networks.from_edges(network.agents, network.edges)
    assert network.closed_form is not None
    assert plain.connected
    assert network.connected
    assert network.diameter == plain.diameter
    if network.agents > 1:
        spectrum = dense_laplacian(network)
        assert network.algebraic_connectivity == pytest.approx(spectrum[1], abs=1e-12)
        assert network.largest_laplacian_eigenvalue == pytest.approx(spectrum[-1], abs=1e-12)
        assert plain.algebraic_connectivity == pytest.approx(spectrum[1], abs=1e-12)
        assert plain.largest_laplacian_eigenvalue == pytest.approx(spectrum[-1], abs=1e-12)
    else:
        assert network.algebraic_connectivity == network.largest_laplacian_eigenvalue == 0


def test_a_name_says_nothing_of_the_spectrum() -> None:
    star = replace(networks.star(5), family="ring", closed_form=None)
    assert star.diameter == 2
    assert star.largest_laplacian_eigenvalue == pytest.approx(5)


@pytest.mark.parametrize(("network", "twin"), TWINS, ids=str)
def test_same_graph_as_networkx(network: Network, twin: Any) -> None:
    assert network.agents == twin.number_of_nodes()
    assert network.edges.tolist() == sorted(sorted(edge) for edge in twin.edges)
    assert network.edges.dtype == np.int64
    assert network.degrees.tolist() == [twin.degree[v] for v in range(network.agents)]
    assert network.max_degree == max(dict(twin.degree).values())
    np.testing.assert_array_equal(
        network.adjacency.toarray(), nx.to_numpy_array(twin, nodelist=range(network.agents))
    )
    assert network.connected == nx.is_connected(twin)
    assert nx.utils.graphs_equal(network.to_networkx(), networks.from_networkx(twin).to_networkx())


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_distances_diameter_and_connectivity_agree_with_networkx(network: Network) -> None:
    twin = network.to_networkx()
    expected = np.full((network.agents, network.agents), -1)
    for u, reached in nx.all_pairs_shortest_path_length(twin):
        for v, distance in reached.items():
            expected[u, v] = distance
    np.testing.assert_array_equal(network.distances(), expected)
    assert network.components == nx.number_connected_components(twin)
    if network.connected:
        assert network.diameter == nx.diameter(twin)
        if network.agents > 1:
            assert network.algebraic_connectivity == pytest.approx(
                nx.algebraic_connectivity(twin, method="tracemin_lu"), rel=1e-5
            )
    else:
        assert network.algebraic_connectivity == 0
        with pytest.raises(ValueError, match=r"components, so no diameter; take a connected"):
            _ = network.diameter


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        networks.random_geometric(1200, 0.07, seed=1),  # multigrid
        networks.preferential_attachment(1000, 3),  # diagonal
        networks.preferential_attachment(1500, 1),  # a tree, too deep or not
        networks.erdos_renyi(900, 0.02),
        networks.two_clusters(300, 200),
        networks.two_clusters(300, 1),
        networks.from_edges(900, networks.ring(900).edges),
        networks.from_edges(900, networks.grid(30, 30).edges),
        networks.from_edges(800, networks.star(800).edges),
        networks.from_edges(700, networks.complete(700).edges),
    ],
    ids=str,
)
def test_sparse_eigenvalues_and_diameter_equal_dense_ones(network: Network) -> None:
    assert network.connected
    assert network.agents > spectra.DENSE_AGENTS
    spectrum = dense_laplacian(network)
    # dense eigenvalues are themselves only good to about 1e-12 of the largest
    error = 1e-12 * spectrum[-1]
    assert network.algebraic_connectivity == pytest.approx(spectrum[1], rel=1e-6, abs=error)
    assert network.largest_laplacian_eigenvalue == pytest.approx(spectrum[-1], rel=1e-6)
    assert network.diameter == network.distances().max()


@pytest.mark.slow
@pytest.mark.parametrize("with_pyamg", [True, False])
def test_eigenvalues_against_a_closed_form_beyond_dense(
    with_pyamg: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_pyamg:
        monkeypatch.setattr(spectra, "installed", lambda _: False)
        monkeypatch.setitem(sys.modules, "pyamg", None)  # an import of it fails
    shape = networks.grid(150, 200)
    computed = networks.from_edges(shape.agents, shape.edges)
    assert computed.algebraic_connectivity == pytest.approx(shape.algebraic_connectivity, rel=1e-6)
    assert computed.diameter == shape.diameter


@pytest.mark.parametrize(
    "network",
    [
        networks.preferential_attachment(1500, 1),  # a tree
        networks.from_edges(900, networks.ring(900).edges),
        networks.random_geometric(600, 0.08, seed=0),
    ],
    ids=str,
)
def test_without_pyamg_eigenvalues_are_the_same(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = spectra.smooth_modes(network.laplacian, 3)[0]
    monkeypatch.setattr(spectra, "installed", lambda _: False)
    found = spectra.smooth_modes(network.laplacian, 3)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_where_no_eigenvalue_is_found_pyamg_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "installed", lambda _: False)
    monkeypatch.setattr(spectra, "_lobpcg", lambda *_: (np.zeros(1), np.zeros((600, 1)), False))
    network = networks.from_edges(600, networks.ring(600).edges)
    with pytest.raises(RuntimeError, match=r"pyamg may find it: pip install 'fedbandits\[solv"):
        spectra.smooth_modes(network.laplacian)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "edges"),
    [
        (lambda: networks.ring(MILLION), MILLION),
        (lambda: networks.grid(1000, 1000), 2 * 1000 * 999),
        (lambda: networks.random_geometric(MILLION, 0.002523, seed=0), 9_980_000),
    ],
    ids=["ring", "grid", "random_geometric"],
)
def test_a_million_agents(make: Callable[[], Network], edges: int) -> None:
    network = make()
    assert network.agents == MILLION
    exact = network.family != "random_geometric"
    assert len(network.edges) == pytest.approx(edges, rel=0 if exact else 1e-3)
    assert network.degrees.sum() == 2 * len(network.edges)
    assert (np.diff(network.edges[:, 0]) >= 0).all()
    if exact:
        assert 0 < network.algebraic_connectivity < 1e-5
        assert network.diameter > 1000


def test_two_clusters_is_the_graph_of_the_lower_bound() -> None:
    network = networks.two_clusters(12, 12)
    assert network.agents == 36
    assert network.distances()[:12, 24:].min() == 13
    stretched = np.sqrt((1 + network.max_degree) / network.algebraic_connectivity) * np.sqrt(2) / 3
    assert stretched == pytest.approx(16.1, abs=0.05)


def test_every_registered_constructor_describes_itself() -> None:
    made: dict[str, dict[str, Any]] = {
        "complete": {"agents": 4},
        "grid": {"rows": 2, "cols": 3},
        "square_grid": {"agents": 7},
        "ring": {"agents": 4},
        "path": {"agents": 4},
        "star": {"agents": 4},
        "random_geometric": {"agents": 5, "radius": 0.5, "seed": 2, "numbering": "hilbert"},
        "erdos_renyi": {"agents": 5, "probability": 0.5, "seed": 2},
        "two_clusters": {"cluster": 3, "path": 2},
        "preferential_attachment": {"agents": 5, "links": 2, "seed": 1},
    }
    assert set(networks.REGISTRY) == {*made, "from_edges", "read_graphml"}
    for name, arguments in made.items():
        network = networks.REGISTRY[name](**arguments)
        assert network.family == name
        assert json.loads(json.dumps(network.parameters)) == arguments
        written = ", ".join(f"{key}={value}" for key, value in arguments.items())
        assert network.name == repr(network) == f"{name}({written})"
        assert not network.edges.flags.writeable


def test_given_networks_are_named_by_a_hash_of_their_edges() -> None:
    first = networks.from_edges(3, [(1, 0), (2, 1)])
    same = networks.from_edges(3, np.array([[1, 2], [0, 1]]))
    other = networks.from_edges(3, [(0, 1), (0, 2)])
    assert first.parameters == same.parameters
    assert first.parameters != other.parameters
    assert json.dumps(first.parameters)
    assert len(first.parameters["edges_sha256"]) == 64
    assert first.name == f"from_edges(agents=3, edges={len(first.edges)})"
    assert len(first.name) < 50


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, sp.csr_matrix, np.ndarray.tolist])
def test_from_adjacency_takes_dense_and_sparse(wrap: Callable[[Any], Any]) -> None:
    network = networks.grid(3, 4)
    again = networks.from_adjacency(wrap(network.adjacency.toarray()))
    np.testing.assert_array_equal(again.edges, network.edges)


def test_from_networkx_keeps_the_order_of_nodes() -> None:
    graph = nx.Graph([("c", "a"), ("a", "b")])
    assert networks.from_networkx(graph).edges.tolist() == [[0, 1], [1, 2]]


def test_graphml_round_trip(tmp_path: Path) -> None:
    network = networks.two_clusters(3, 2)
    nx.write_graphml(network.to_networkx(), tmp_path / "net.graphml")
    again = networks.read_graphml(tmp_path / "net.graphml")
    np.testing.assert_array_equal(again.edges, network.edges)
    assert again.family == "read_graphml"
    assert again.parameters["path"].endswith("net.graphml")


@pytest.mark.parametrize("text", ["not xml", "<graphml></graphml>", "<a></a>"])
def test_foreign_graphml(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.graphml").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.graphml is not a GraphML file"):
        networks.read_graphml(tmp_path / "bad.graphml")


def test_missing_graphml(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.graphml"):
        networks.read_graphml(tmp_path / "none.graphml")


@pytest.mark.parametrize(
    "network",
    [
        networks.path(1),
        networks.from_networkx(nx.Graph([("Oslo", "Bergen")])),
        networks.grid(6, 6),
        networks.two_clusters(6, 3),
        networks.preferential_attachment(30, 2),
        networks.preferential_attachment(1000, 2),
        networks.star(100),
    ],
    ids=str,
)
def test_draw(network: Network, tmp_path: Path) -> None:
    ax = network.draw(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").stat().st_size > 1000
    labels = network.names or tuple(map(str, range(network.agents)))
    assert tuple(text.get_text() for text in ax.texts) == (labels if network.agents <= 60 else ())
    assert network.draw(ax=ax) is ax


def test_draw_to_show() -> None:
    from matplotlib import pyplot as plt

    ax = networks.ring(5).draw()
    (number,) = plt.get_fignums()
    assert plt.figure(number).axes == [ax]
    plt.close(number)


def test_two_clusters_is_drawn_with_the_path_between_its_cliques() -> None:
    spots = networks.two_clusters(5, 3).positions
    assert spots is not None
    np.testing.assert_allclose(spots[4:9, 1], 0, atol=1e-12)
    assert (np.diff(spots[4:9, 0]) > 0).all()


def test_importing_loads_numpy_only() -> None:
    code = "import fedbandits.networks, fedbandits.gossip, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"scipy", "networkx", "matplotlib", "cvxpy", "pyamg", "jax"}


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: networks.complete(0), ValueError, r"agents must be .* at least 1, not 0"),
    (lambda: networks.path(-3), ValueError, r"agents must be .* not -3"),
    (lambda: networks.star(2.5), TypeError, r"agents must be a whole number .* not 2\.5"),  # type: ignore[arg-type]
    (lambda: networks.star(True), TypeError, r"agents must be a whole number .* not True"),
    (lambda: networks.ring(2), ValueError, r"ring needs at least 3 agents, not 2; .* path\(2\)"),
    (lambda: networks.grid(0, 3), ValueError, r"rows must be .* not 0"),
    (lambda: networks.grid(3, 0), ValueError, r"cols must be .* not 0"),
    (
        lambda: networks.random_geometric(5, cast(Any, "a")),
        TypeError,
        "radius must be a number, not 'a'",
    ),
    (lambda: networks.random_geometric(5, True), TypeError, "radius must be a number, not True"),
    (lambda: networks.erdos_renyi(5, cast(Any, [0.5])), TypeError, "probability must be a number"),
    (lambda: networks.random_geometric(5, -0.1), ValueError, r"radius must be .* not -0\.1"),
    (lambda: networks.random_geometric(5, float("nan")), ValueError, r"radius must .* not nan"),
    (lambda: networks.random_geometric(5, 0.1, seed=-1), ValueError, r"seed must be .* not -1"),
    (
        lambda: networks.random_geometric(5, 0.1, numbering=cast(Any, "Hilbert")),
        ValueError,
        "numbering must be 'networkx' or 'hilbert', not 'Hilbert'",
    ),
    (lambda: networks.erdos_renyi(5, 1.5), ValueError, r"probability must be in \[0, 1\].* 1\.5"),
    (lambda: networks.erdos_renyi(5, -0.5), ValueError, r"probability must be in \[0, 1\]"),
    (lambda: networks.two_clusters(0, 3), ValueError, r"cluster must be .* not 0"),
    (lambda: networks.two_clusters(3, -1), ValueError, r"path must be .* not -1"),
    (lambda: networks.preferential_attachment(5, 0), ValueError, r"links must be .* not 0"),
    (
        lambda: networks.preferential_attachment(5, 5),
        ValueError,
        r"links must be below .* 5, not 5",
    ),
    (
        lambda: networks.from_edges(3, [(0, 1), (1, 1)]),
        ValueError,
        r"edge 1, \(1, 1\), is a self l",
    ),
    (lambda: networks.from_edges(3, [(0, 1), (1, 0)]), ValueError, r"edge \(0, 1\) is given twice"),
    (lambda: networks.from_edges(3, [(0, 3)]), ValueError, r"edge 0, \(0, 3\), leaves .* 0 … 2"),
    (lambda: networks.from_edges(3, [(-1, 2)]), ValueError, r"edge 0, \(-1, 2\), leaves"),
    (lambda: networks.from_edges(3, [(0, 1, 2)]), ValueError, r"\[E, 2\], not of shape \(1, 3\)"),
    (lambda: networks.from_edges(3, [(0.0, 1.0)]), TypeError, r"whole numbers, not float64"),
    (lambda: networks.from_edges(0, []), ValueError, r"agents must be"),
    (lambda: networks.from_edges(2**31, []), ValueError, "agents must be at most 2,147,483,647"),
    (lambda: networks.from_adjacency(np.ones((2, 3))), ValueError, r"square.* shape \(2, 3\)"),
    (lambda: networks.from_adjacency(np.zeros((0, 0))), ValueError, r"square"),
    (lambda: networks.from_adjacency([[0, 0.5], [0.5, 0]]), ValueError, r"\[0, 1\] must be 0 or 1"),
    (lambda: networks.from_adjacency([[0, np.nan], [1, 0]]), ValueError, r"0 or 1: nan"),
    (lambda: networks.from_adjacency([[0, 1], [1, 1]]), ValueError, r"\[1, 1\] is a self loop"),
    (
        lambda: networks.from_adjacency([[0, 1], [0, 0]]),
        ValueError,
        r"\[0, 1\] differs from its mi",
    ),
    (lambda: networks.from_networkx(nx.DiGraph([(0, 1)])), ValueError, r"directed; .*nx\.Graph"),
    (lambda: networks.from_networkx(nx.MultiGraph([(0, 1)])), ValueError, r"a multigraph"),
    (lambda: networks.from_networkx(nx.Graph([(0, 0)])), ValueError, r"self loop"),
    (lambda: networks.from_networkx(nx.Graph()), ValueError, r"number of nodes must be"),
    (lambda: networks.from_networkx([(0, 1)]), TypeError, r"networkx graph, not list"),  # type: ignore[arg-type]
    (lambda: networks.path(3).distances(3), ValueError, r"agent must be below 3 .* not 3"),
    (lambda: networks.path(3).distances(-1), ValueError, r"agent must be .* not -1"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refusals(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("order", range(8))
def test_the_curve_visits_every_cell_once_each_beside_the_last(order: int) -> None:
    column, row = np.divmod(np.arange(4**order), 2**order)
    place = place_on_curve(column, row, order)
    way = np.argsort(place)
    np.testing.assert_array_equal(place[way], np.arange(4**order))
    steps = np.abs(np.diff(column[way])) + np.abs(np.diff(row[way]))
    np.testing.assert_array_equal(steps, 1)


@pytest.mark.parametrize("order", [1, 3, 6])
def test_a_finer_curve_goes_through_the_same_cells(order: int) -> None:
    """Its four cells in a coarser one are visited together, so that agents follow either."""
    column, row = np.divmod(np.arange(4 ** (order + 1)), 2 ** (order + 1))
    fine = place_on_curve(column, row, order + 1)
    np.testing.assert_array_equal(fine // 4, place_on_curve(column // 2, row // 2, order))


def test_the_corners_of_the_square_are_in_it() -> None:
    corners = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(along_hilbert_curve(corners), [3, 2, 1, 0])


def test_numbering_is_all_that_changes() -> None:
    plain = fb.networks.random_geometric(500, 0.1, seed=3)
    curve = fb.networks.random_geometric(500, 0.1, seed=3, numbering="hilbert")
    assert plain.positions is not None
    assert curve.positions is not None
    order = along_hilbert_curve(plain.positions)
    np.testing.assert_array_equal(curve.positions, plain.positions[order])
    renumbered = plain.adjacency.toarray()[np.ix_(order, order)]
    np.testing.assert_array_equal(curve.adjacency.toarray(), renumbered)
    assert (order != np.arange(500)).any()


def test_it_is_part_of_what_a_network_is() -> None:
    """Where it is not the default: networks described before it was there are the same still."""
    curve = fb.networks.random_geometric(36, 0.5, seed=3, numbering="hilbert")
    plain = fb.networks.random_geometric(36, 0.5, seed=3, numbering="networkx")
    assert curve.parameters == {**plain.parameters, "numbering": "hilbert"}
    assert plain.parameters == {"agents": 36, "radius": 0.5, "seed": 3}
    written = parse_network("random_geometric:36,0.5,seed=3,numbering=hilbert")
    np.testing.assert_array_equal(written.edges, curve.edges)
    result = fb.simulate(
        fb.problems.bernoulli([0.2, 0.8], 5, agents=36),
        *(fb.FedExp3(0.1), fb.gossip.max_degree(curve)),
        runs=1,
    )
    assert result.config["network"]["numbering"] == "hilbert"
    told = configuration_schema()["$defs"]["network.random_geometric"]["properties"]["numbering"]
    assert "'enum': ['networkx', 'hilbert']" in str(told)


@given(
    st.sampled_from(
        [
            fb.networks.path(1),
            fb.networks.star(9),
            fb.networks.grid(4, 5),
            fb.networks.ring(11),
            fb.networks.erdos_renyi(24, 0.08, seed=3),  # in several parts
        ]
    ),
    st.integers(0, 12),
)
def test_both_ways_agree_with_the_distances(network: fb.Network, hops: int) -> None:
    distances = network.distances()
    expected = (distances >= 0) & (distances <= hops)
    for few in (0, 10**6):  # never by searches, and from two hops on
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(base, "_FEW", few)
            np.testing.assert_array_equal(network.within(hops).toarray(), expected)
            np.testing.assert_array_equal(network.reached(hops), expected.sum(axis=1))


def test_far_floods_are_counted_by_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step by step, all pairs of 3,364 agents took half a minute before the first round."""
    network = fb.networks.square_grid(3364)
    monkeypatch.setattr(base, "near_by_steps", None)
    assert network.reached(network.diameter - 1).tolist().count(3363) == 4  # the corners
