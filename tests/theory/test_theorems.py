"""Which theorem speaks of which algorithm: declared by the algorithm, not matched by its name."""

from __future__ import annotations

import pytest

import fedbandits as fb
from fedbandits.algorithms import REGISTRY
from fedbandits.theory.theorems import THEOREMS, RunFacts, theorem_of

GOSSIP = fb.gossip.max_degree(fb.networks.grid(3, 3))


def test_declared_theorems_are_those_there_are() -> None:
    declared = [kind.theorem for kind in REGISTRY.values() if kind.theorem is not None]
    assert sorted(declared) == sorted(THEOREMS)


def test_an_algorithm_declares_its_theorem(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(fb.FedExp3):
        """Another name, the same theorem."""

    class FedHedge(fb.Uniform):
        """The name of one that has a theorem."""

    monkeypatch.setitem(REGISTRY, "Mine", Mine)
    monkeypatch.setitem(REGISTRY, "FedHedge", FedHedge)
    found = theorem_of(RunFacts(GOSSIP, 3, 400, {"name": "Mine"}))
    assert found is THEOREMS["doubly adversarial"]
    assert theorem_of(RunFacts(GOSSIP, 3, 400, {"name": "FedHedge"})) is None
    assert theorem_of(RunFacts(GOSSIP, 3, 400, {"name": "a user's own"})) is None


def test_a_theorem_may_be_about_some_runs_only() -> None:
    alone = fb.gossip.max_degree(fb.networks.path(1))
    for gossip, speaks in ((alone, True), (GOSSIP, False)):
        found = theorem_of(RunFacts(gossip, 3, 400, {"name": "DelayedFTRL", "hops": 2}))
        assert (found is not None) == speaks
    for regulariser, gossip, speaks in (
        ("minimax", GOSSIP, True),
        ("small_loss", GOSSIP, False),
        ("minimax", fb.gossip.random_edge(GOSSIP.network), False),
    ):
        algorithm = {"name": "BlockGossip", "regulariser": regulariser}
        assert (theorem_of(RunFacts(gossip, 3, 400, algorithm)) is not None) == speaks
