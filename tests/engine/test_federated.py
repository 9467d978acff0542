"""Every shipped algorithm is federated, and the check catches those that are not.

Knowing one's own loss in the round it is suffered is not among the cheats: a distribution is asked
for before the engine has shown its algorithm that round's losses, so no algorithm can.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.arrays import Array, played
from tests.instances import ALGORITHMS, every_algorithm

PATH = fb.networks.path(6)
RING = fb.networks.ring(6)
NETWORKS = [PATH, RING, fb.networks.star(6), fb.networks.grid(2, 3), fb.networks.two_clusters(2, 2)]


@pytest.mark.slow
@every_algorithm
def test_shipped_algorithms_are_federated(name: str) -> None:
    for network in NETWORKS:
        fb.check_federated(ALGORITHMS[name], network, rounds=20)  # one program for all networks


def test_one_agent_alone_is_federated() -> None:
    fb.check_federated(fb.FedExp3(), fb.networks.path(1), rounds=20)


# Honest algorithms.


class HonestState(NamedTuple):
    z: Array
    held: Array


@dataclass(frozen=True)
class Honest(fb.Algorithm[HonestState]):
    """Gossiped exponential weights, with one place for each cheat below."""

    rate: float = 0.5

    leaves: ClassVar[Mapping[str, fb.Leaf]] = {"z": fb.Leaf(kind="estimate", combine="average")}

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: Any = np.float32
    ) -> HonestState:
        zeros = np.zeros((arms, *batch), dtype)
        return HonestState(zeros, zeros)

    def distribution(self, state: HonestState, t: Array) -> Array:
        xp = state.z.__array_namespace__()
        weights = xp.exp(-self.rate * (state.z - state.z.min(axis=0)))
        return 0.7 * weights / weights.sum(axis=0) + 0.3 / state.z.shape[0]

    def message(self, state: HonestState) -> dict[str, Array]:
        return {"z": state.z}

    def update(
        self,
        state: HonestState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> HonestState:
        heard, seen = self.hear(received["z"], t), self.see(feedback, t)
        return state._replace(z=heard + played(action, like=p) * seen / p)

    def see(self, feedback: Array, t: Array) -> Array:
        """What it learns of the losses, `[*batch]`."""
        return feedback

    def hear(self, z: Array, t: Array) -> Array:
        """What it learns of the messages, `[K, *batch]`."""
        return z


class Slow(Honest):
    """Uses every message one round late."""

    def update(
        self,
        state: HonestState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> HonestState:
        late = super().update(state, {"z": state.held}, action, feedback, p, t)
        return late._replace(held=received["z"])


@dataclass(frozen=True)
class Powered(Honest):
    """Has a static field."""

    power: int = field(default=2, metadata={"static": True})

    def distribution(self, state: HonestState, t: Array) -> Array:
        p = super().distribution(state, t)
        for _ in range(self.power):
            p = p * p
        return p / p.sum(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [Honest(), Slow(), Powered(power=1)])
@pytest.mark.parametrize("network", [PATH, RING])
def test_honest_algorithms_pass(algorithm: Honest, network: fb.Network) -> None:
    fb.check_federated(algorithm, network, rounds=20)


# Cheaters.


def spied(x: Array, *, on: int, by: int) -> Array:
    """`x` with agent `by`'s column replaced by that of agent `on`."""
    xp = x.__array_namespace__()
    return xp.where(xp.arange(x.shape[-1]) == by, x[..., on, None], x)


class NeighboursLoss(Honest):
    """Learns from the loss its neighbour on the ring has just seen."""

    def see(self, feedback: Array, t: Array) -> Array:
        return feedback + feedback.__array_namespace__().roll(feedback, 1, axis=-1)


class EveryonesLoss(Honest):
    """Learns from the losses of all agents at once."""

    def see(self, feedback: Array, t: Array) -> Array:
        return feedback + feedback.mean(axis=-1, keepdims=True)


class FarState(Honest):
    """Agent 4 plays from the state of agent 1."""

    def distribution(self, state: HonestState, t: Array) -> Array:
        return super().distribution(state._replace(z=spied(state.z, on=1, by=4)), t)


class EveryonesMessage(Honest):
    """Hears all agents, not its neighbours alone; what they send is honest."""

    def hear(self, z: Array, t: Array) -> Array:
        return z + z.mean(axis=-1, keepdims=True)


class FarMessage(Honest):
    """Agent 2 hands on what agent 5 knows as if it were its own."""

    def message(self, state: HonestState) -> dict[str, Array]:
        return {"z": spied(state.z, on=5, by=2)}


class OthersArms(Honest):
    """Sees all its losses, and which arm agent 0 played, far from agent 3."""

    feedback: ClassVar[Any] = "full"

    def update(
        self,
        state: HonestState,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> HonestState:
        popular = played(spied(action, on=0, by=3), like=p)
        own = played(action, like=p)
        return state._replace(z=received["z"] + feedback + popular - own)


@dataclass(frozen=True)
class LateCheater(Honest):
    """Honest up to a round; then agent 5 learns from the losses agent 2 sees."""

    last: int = 10

    def see(self, feedback: Array, t: Array) -> Array:
        xp = feedback.__array_namespace__()
        return xp.where(t > self.last, spied(feedback, on=2, by=5), feedback)


class Synchronised(Honest):
    """Every eighth round all agents agree on their mean."""

    def hear(self, z: Array, t: Array) -> Array:
        return z.__array_namespace__().where(t % 8 == 0, z.mean(axis=-1, keepdims=True), z)


class Hasty(Honest):
    """Agent 1 plays from what its neighbour knows now, which would reach it a round later."""

    def distribution(self, state: HonestState, t: Array) -> Array:
        return super().distribution(state._replace(z=spied(state.z, on=0, by=1)), t)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cheater", "network", "source", "target", "sent", "used", "distance"),
    [
        (NeighboursLoss(), RING, 0, 1, 1, 2, 1),
        (EveryonesLoss(), PATH, 0, 1, 1, 2, 1),
        (FarState(), PATH, 1, 4, 1, 2, 3),
        (FarState(), RING, 1, 4, 1, 2, 3),
        (EveryonesMessage(), PATH, 0, 2, 1, 3, 2),
        (EveryonesMessage(), fb.networks.star(6), 1, 2, 1, 3, 2),
        (FarMessage(), PATH, 5, 1, 1, 3, 4),
        (OthersArms(), PATH, 0, 3, 1, 2, 3),
        (LateCheater(), PATH, 2, 5, 11, 12, 3),
        (Synchronised(), PATH, 0, 2, 7, 9, 2),
        (Hasty(), PATH, 0, 1, 1, 2, 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Honest) else None,
)
def test_cheaters_are_caught(
    cheater: Honest,
    network: fb.Network,
    source: int,
    target: int,
    sent: int,
    used: int,
    distance: int,
) -> None:
    with pytest.raises(fb.NotFederatedError) as caught:
        fb.check_federated(cheater, network, rounds=20)
    error = caught.value
    assert (error.source, error.target) == (source, target)
    assert (error.sent, error.used, error.distance) == (sent, used, distance)
    assert str(error).startswith(
        f"{type(cheater).__name__} is not federated: agent {target}'s distribution in round "
        f"{used} depends on what agent {source} did or saw in round {sent}"
    )


def test_what_is_no_cheat_on_one_network_is_on_another() -> None:
    """Hearing everyone is honest where everyone is a neighbour."""
    fb.check_federated(EveryonesMessage(), fb.networks.complete(6), rounds=20)
    with pytest.raises(fb.NotFederatedError, match="2 hops apart"):
        fb.check_federated(EveryonesMessage(), fb.networks.grid(2, 3), rounds=20)


@pytest.mark.slow
def test_default_rounds_let_news_cross_and_more_can_be_asked_for() -> None:
    with pytest.raises(fb.NotFederatedError):
        fb.check_federated(LateCheater(last=20), PATH)
    fb.check_federated(LateCheater(last=60), PATH)
    with pytest.raises(fb.NotFederatedError) as caught:
        fb.check_federated(LateCheater(last=60), PATH, rounds=80)
    assert caught.value.sent > 60


class EndsMeet(Honest):
    """The last agent plays from the state of the first."""

    def distribution(self, state: HonestState, t: Array) -> Array:
        last = state.z.shape[-1] - 1
        return super().distribution(state._replace(z=spied(state.z, on=0, by=last)), t)


def test_of_many_agents_the_outermost_are_looked_at() -> None:
    with pytest.raises(fb.NotFederatedError) as caught:
        fb.check_federated(EndsMeet(), fb.networks.path(50), rounds=4)
    assert (caught.value.source, caught.value.target, caught.value.distance) == (0, 49, 49)


@pytest.mark.slow
def test_other_arms_and_seeds() -> None:
    fb.check_federated(Honest(), PATH, arms=5, rounds=20)
    for seed in (1, 2):
        fb.check_federated(Honest(), PATH, rounds=20, seed=seed)
        with pytest.raises(fb.NotFederatedError):
            fb.check_federated(FarState(), PATH, rounds=20, seed=seed)


def test_the_error_survives_pickling() -> None:
    """As it must to cross from a worker process."""
    error = fb.NotFederatedError("Cheater", source=0, target=3, sent=7, used=8, distance=1)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert "1 hop apart, so it cannot know before round 9" in str(again)


# Mistakes.


class Undefined(Honest):
    def distribution(self, state: HonestState, t: Array) -> Array:
        xp = state.z.__array_namespace__()
        return super().distribution(state, t) * xp.where(t > 4, xp.nan, 1.0)


class Misshapen(Honest):
    def distribution(self, state: HonestState, t: Array) -> Array:
        return super().distribution(state, t)[:-1]


def test_a_distribution_that_is_not_finite_has_its_own_error() -> None:
    with pytest.raises(ValueError, match=r"Undefined.distribution is not finite for agent 0 in ro"):
        fb.check_federated(Undefined(), PATH, rounds=20)


def test_the_contract_is_checked_first() -> None:
    with pytest.raises(ValueError, match=r"Misshapen.distribution gives shape"):
        fb.check_federated(Misshapen(), PATH)


@pytest.mark.parametrize(
    ("algorithm", "network", "options", "message"),
    [
        (fb.FedExp3, PATH, {}, r"algorithm must be an object: write FedExp3\(\)"),
        ("FedExp3", PATH, {}, "algorithm must be of type Algorithm, not str"),
        (Honest(), fb.gossip.max_degree(PATH), {}, "write gossip.network"),
        (Honest(), 6, {}, r"a Network such as fb.networks.grid\(3, 3\), not int"),
        (Honest(), fb.networks.from_edges(3, [(0, 1)]), {}, "has 2 components"),
        (Honest(), PATH, {"arms": 1}, "arms must be a whole number of at least 2, not 1"),
        (Honest(), PATH, {"rounds": 1}, "rounds must be a whole number of at least 2, not 1"),
        (Honest(), PATH, {"seed": -1}, "seed must be a whole number of at least 0, not -1"),
    ],
)
def test_mistakes_are_named(
    algorithm: Any, network: Any, options: dict[str, int], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fb.check_federated(algorithm, network, **options)
