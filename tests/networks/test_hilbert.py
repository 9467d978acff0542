"""The Hilbert curve, and networks whose agents are numbered along it."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.config.building import parse_network
from fedbandits.config.schema import configuration_schema
from fedbandits.networks.hilbert import along_hilbert_curve, place_on_curve


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
