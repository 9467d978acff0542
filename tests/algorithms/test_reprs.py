"""What an algorithm and a rate look like can be pasted, and is what users call them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import fedbandits as fb
from fedbandits import schedules
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.algorithms.base import Setting

NAMES = {name: getattr(fb, name) for name in dir(fb)} | schedules.REGISTRY | {"array": np.array}
SETTING = Setting(3, 5, fb.gossip.max_degree(fb.networks.ring(5)), np.eye(3))


@pytest.mark.parametrize(
    "algorithm",
    [
        *(make() for make in fb.algorithms.REGISTRY.values()),
        fb.FedExp3(0.1, fb.schedules.anytime()),
        fb.FedExp3(memory=300),
        fb.FedFTRL("published", tsallis_start=0),
        fb.BlockGossip(0.1, block=3, regulariser="small_loss", best_loss=2.0),
        fb.Exp3Coop(hops=2).set_up(SETTING),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_an_algorithm_is_made_again_from_what_it_looks_like(algorithm: AnyAlgorithm) -> None:
    assert eval(repr(algorithm), NAMES) == algorithm


def test_what_the_network_decided_is_not_shown_among_the_parameters() -> None:
    looks = {repr(make().set_up(SETTING)) for make in (fb.FedFTRL, fb.LinearBlockGossip)}
    assert not any(name in x for x in looks for name in ("gap=", "spanner=", "sigma=", "horizon="))


def test_a_rate_is_called_what_a_configuration_calls_it() -> None:
    assert repr(fb.schedules.small_loss()) == "small_loss(c=2.0)"
    assert repr(fb.FedHedge(0.5)) == "FedHedge(learning_rate=constant(value=0.5))"


@dataclass(frozen=True)
class Own(fb.Uniform):
    rate: float
    other: float = 1.0


def test_algorithms_are_copied_and_pickled_like_other_classes() -> None:
    own = Own(0.5)
    assert copy.copy(own) == pickle.loads(pickle.dumps(own)) == own.with_values(rate=0.5) == own
    with pytest.raises(TypeError, match="learing_rate"):
        fb.FedExp3(learing_rate=0.3)  # type: ignore[call-arg]
