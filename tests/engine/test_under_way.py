"""Messages passed on over several hops: they arrive on time, from those in reach, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import DTypeLike

import fedbandits as fb
from fedbandits.algorithms.base import Leaf
from fedbandits.arrays import Array, played
from fedbandits.engine.mixing import mixer as mixing
from fedbandits.engine.trajectory import trajectory
from tests.instances import sent_by


class Heard(NamedTuple):
    own: Array
    heard: Array


@dataclass(frozen=True)
class Listener(fb.Algorithm[Heard]):
    """Sends the arm it played last, plays uniformly, and keeps what it heard."""

    hops: int = field(default=1, metadata={"static": True})

    leaves: ClassVar[Mapping[str, Leaf]] = {"arm": Leaf("raw", "flood", one_hot=True)}

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> Heard:
        zeros = np.zeros((arms, *batch), dtype)
        return Heard(zeros, zeros)

    def distribution(self, state: Heard, t: Array) -> Array:
        weights = 1.0 + state.heard
        return weights / weights.sum(axis=0)

    def message(self, state: Heard) -> dict[str, Array]:
        return {"arm": state.own}

    def update(
        self,
        state: Heard,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> Heard:
        return Heard(played(action, like=p).astype(p.dtype), received["arm"])


@pytest.mark.slow
@pytest.mark.parametrize("hops", [1, 2, 3, 6])
def test_what_is_flooded_arrives_from_everyone_in_reach(hops: int) -> None:
    network = fb.networks.path(6)
    gossip = fb.gossip.max_degree(network)
    problem = fb.problems.bernoulli([0.1, 0.5, 0.6], horizon=12, agents=6)
    seen = trajectory(problem, Listener(hops), gossip, runs=2)
    arms = np.eye(3)[seen.action]  # [T, R, N, K]
    near = network.distances() <= hops
    for t in range(1, 13):
        heard = np.zeros((2, 6, 3))
        # Played in round s, sent in s + 1, due in s + hops, used in s + hops + 1.
        if (s := t - 1 - hops) >= 1:
            heard = np.einsum("uv,ruk->rvk", near, arms[s - 1])
        expected = (1 + heard) / (1 + heard).sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(seen.distribution[t - 1], expected, rtol=1e-12)


@pytest.mark.parametrize("hops", [1, 2, 5])
def test_a_flood_is_federated(hops: int) -> None:
    fb.check_federated(Listener(hops), fb.networks.path(6))


@pytest.mark.parametrize("hops", [1, 3, 40])
@pytest.mark.parametrize("family", ["grid", "star"])
def test_large_networks_flood_like_small_ones(
    hops: int, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = fb.networks.grid(5, 8) if family == "grid" else fb.networks.star(40)
    x = np.random.default_rng(0).uniform(size=(3, 2, 40))
    near = network.distances() <= hops
    monkeypatch.setattr(mixing, "DENSE_AGENTS", 10)
    mix = mixing.mixer(fb.gossip.max_degree(network), Listener(hops), "float64")
    np.testing.assert_allclose(mix.combine("flood", x)[0], x @ near, rtol=1e-6)


def test_nothing_is_flooded_without_a_network() -> None:
    gossip = fb.gossip.none(fb.networks.path(4))
    problem = fb.problems.bernoulli([0.1, 0.5, 0.6], horizon=5, agents=4)
    mix = mixing.mixer(gossip, Listener(2), "float64")
    x = np.arange(8.0).reshape(2, 1, 4)
    np.testing.assert_array_equal(mix.combine("flood", x)[0], x)
    assert sent_by(problem, Listener(2), gossip).bytes == 0


def test_bytes_of_a_flood_count_every_record_passed_on() -> None:
    """Path of 4, two hops: ends pass 2 records to 1 neighbour, the others 3 records to 2."""
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    problem = fb.problems.bernoulli([0.1, 0.5, 0.6], horizon=5, agents=4)
    sent = sent_by(problem, Listener(2), gossip)
    record = 4 + 4 + 8  # the arm's number, its value, agent and round
    assert sent.messages == 6 / 4
    assert sent.bytes == (2 * 2 + 2 * 3 * 2) * record / 4


def test_a_flood_knows_how_far() -> None:
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    problem = fb.problems.bernoulli([0.1, 0.5], horizon=5, agents=4)
    with pytest.raises(ValueError, match="hops must be a whole number of at least 1, not 0"):
        fb.simulate(problem, Listener(0), gossip, runs=1)


def test_an_average_is_never_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listener, "leaves", {"arm": Leaf("raw", "average", one_hot=True)})
    gossip = fb.gossip.max_degree(fb.networks.path(4))
    problem = fb.problems.bernoulli([0.1, 0.5], horizon=5, agents=4)
    with pytest.raises(ValueError, match=r"'arm'\] is one_hot, but its combine is 'average'"):
        fb.simulate(problem, Listener(2), gossip, runs=1)
