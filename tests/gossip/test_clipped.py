"""A limit on differences: what it is made of, and what it refuses."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

from fedbandits import gossip, networks

GRID = networks.grid(3, 3)


def test_a_limit_changes_nothing_but_itself() -> None:
    plain = gossip.metropolis(GRID)
    made = gossip.clipped(plain, 10)
    assert (plain.limit, made.limit) == (math.inf, 10.0)
    assert made.network is GRID
    np.testing.assert_array_equal(made.matrix.toarray(), plain.matrix.toarray())
    assert (made.sigma2, made.directed_edges) == (plain.sigma2, plain.directed_edges)
    assert made.name == "clipped(gossip=metropolis, limit=10.0) on grid(rows=3, cols=3)"
    assert json.loads(json.dumps(made.parameters)) == {
        "gossip": {"name": "metropolis"},
        "limit": 10.0,
    }


@pytest.mark.parametrize("rule", ["max_degree", "random_edge", "none"])
def test_every_symmetric_rule_can_have_one(rule: str) -> None:
    plain = gossip.REGISTRY[rule](GRID)
    made = gossip.clipped(plain, math.inf)
    assert (made.random, made.silent) == (plain.random, plain.silent)


ONE_WAY = gossip.from_matrix(np.eye(4)[[1, 2, 3, 0]] / 2 + np.eye(4) / 2)


@pytest.mark.parametrize(
    ("given", "limit", "error", "why"),
    [
        (GRID, 1.0, TypeError, "takes a gossip such as gossip.max_degree(network), not Network"),
        (
            gossip.metropolis(GRID),
            0,
            ValueError,
            "limit must be in (0, inf], not 0; for agents",
        ),
        (gossip.metropolis(GRID), -1.0, ValueError, "limit must be in (0, inf], not -1.0"),
        (gossip.metropolis(GRID), math.nan, ValueError, "limit must be a number, not nan"),
        (gossip.metropolis(GRID), "1", TypeError, "limit must be a number, not '1'"),
        (gossip.clipped(gossip.none(GRID), 1), 2, ValueError, "is clipped already"),
        (ONE_WAY, 1.0, ValueError, "the mean only where both ends of a link give it the same"),
    ],
)
def test_what_cannot_be_clipped_is_refused(
    given: Any, limit: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=re.escape(why)):
        gossip.clipped(given, limit)


def test_a_symmetric_matrix_of_ones_own_can_be_clipped() -> None:
    assert gossip.clipped(gossip.from_matrix([[0.5, 0.5], [0.5, 0.5]]), 3.0).limit == 3.0
