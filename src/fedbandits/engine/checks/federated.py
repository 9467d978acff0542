"""Checks by playing that an algorithm is federated: no news travels faster than the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from fedbandits.algorithms.base import Algorithm, AnyAlgorithm, Setting
from fedbandits.common import checks, streams
from fedbandits.engine.preparation import precision, prepare
from fedbandits.engine.stages.round import RoundUniforms
from fedbandits.engine.trajectory import play_given
from fedbandits.gossip.base import Gossip
from fedbandits.gossip.rules import max_degree
from fedbandits.networks import Network
from fedbandits.problems import from_tensor
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation

Floats = npt.NDArray[np.float64]

# Up to so many agents all are changed, each in so many rounds; of more a sample in fewer rounds,
# which keeps the check to seconds.
_AGENTS = 40
_ROUNDS = 32
_ROUNDS_OF_SAMPLE = 8
# Rounds played by default beside the arms and the network's diameter, and the most for the latter.
_MARGIN = 16
_CROSSING = 48


class NotFederatedError(AssertionError):
    """An agent's distribution knew what could not have reached it yet.

    Attributes:
        source: the agent u whose arm or losses were changed.
        target: the agent v that knew.
        sent: the round s of the change.
        used: the first round in which v's distribution differed; s + d(u, v) or before.
        distance: d(u, v), in hops.

    Example:
        >>> print(NotFederatedError("Cheater", source=0, target=3, sent=7, used=8, distance=2))
        Cheater is not federated: agent 3's distribution in round 8 depends on what agent 0 did or
        saw in round 7, but they are 2 hops apart, so it cannot know before round 10
        (Definition 1). In update, message and distribution use only the agent's own column of
        state and feedback, and what arrives in `received`
    """

    def __init__(
        self, algorithm: str, source: int, target: int, sent: int, used: int, distance: int
    ) -> None:
        super().__init__(algorithm, source, target, sent, used, distance)
        self.algorithm = algorithm
        self.source = source
        self.target = target
        self.sent = sent
        self.used = used
        self.distance = distance

    def __str__(self) -> str:
        hops = f"{self.distance} hop{'s' if self.distance > 1 else ''}"
        return (
            f"{self.algorithm} is not federated: agent {self.target}'s distribution in round "
            f"{self.used} depends on what agent {self.source} did or saw in round {self.sent}, "
            f"but they are {hops} apart, so it cannot know before round "
            f"{self.sent + self.distance + 1} (Definition 1). In update, message and distribution "
            "use only the agent's own column of state and feedback, and what arrives in `received`"
        )


def check_federated(
    algorithm: AnyAlgorithm,
    network: Network,
    *,
    arms: int | None = None,
    rounds: int | None = None,
    seed: int = 0,
) -> None:
    """Refuse an algorithm in which news travels faster than one hop a round.

    Definition 1: p_t^v depends only on what agents u did and saw up to round t - d(u, v) - 1.

    The algorithm is played on random losses with the engine's own round, and then again with
    agent u's losses, or its arm, changed in round s: the distributions of every agent v in rounds
    1, ..., s + d(u, v) must stay the same, bit for bit. Up to 40 agents u are changed in up to 32
    rounds s each; of more, a sample in 8. It finds violations and proves nothing: what happens
    only after `rounds`, or never shows in a distribution, is not seen.

    Args:
        algorithm: what each agent does.
        network: connected; a small one with some distances above 1 shows most.
        arms: K; by default 3, or as many as the algorithm was given actions.
        rounds: T; by default those before anything is learned, K + 16 more, and enough for news to
            cross the network, of 48 hops at most. Give more where the algorithm changes its ways
            later.
        seed: of the losses, the agents' randomness and the sample.

    Raises:
        NotFederatedError: for a violation in the earliest round that had one.
        ValueError: if a distribution is not finite, or the algorithm breaks the contract.

    Example:
        >>> import fedbandits as fb
        >>> fb.check_federated(fb.FedExp3(), fb.networks.grid(2, 3))

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, Definition 1.
    """
    _check_kinds(algorithm, network)
    if arms is None:
        arms = algorithm.arms_given or 3
    arms = checks.whole(arms, "arms", least=2)
    if rounds is None:
        ready = algorithm.set_up(Setting(arms, network.agents, max_degree(network)))
        first = ready.rounds_before_learning
        rounds = first + arms + _MARGIN + min(network.diameter, _CROSSING)
    rounds = checks.whole(rounds, "rounds", least=2)
    rng = np.random.default_rng(checks.seed32(seed))
    losses = rng.uniform(size=(rounds, network.agents, arms))
    uniforms = rng.uniform(size=(rounds, 1, network.agents))
    sources = _some_agents(network, rng)
    with precision("float64"):
        play = _player(algorithm, network, losses)
        violation = _first_violation(play, _Given(losses, uniforms), network, sources)
    if violation is not None:
        raise NotFederatedError(type(algorithm).__name__, **violation._asdict())


class _Given(NamedTuple):
    """What decides a play: losses `[T, N, K]`, and the uniforms behind the arms `[T, 1, N]`."""

    losses: Floats
    uniforms: Floats


class _Seen(NamedTuple):
    """What came of it: distributions `[T, K, N]` and arms `[T, N]`."""

    p: Floats
    action: npt.NDArray[np.int64]


class _Violation(NamedTuple):
    """As in `NotFederatedError`."""

    source: int
    target: int
    sent: int
    used: int
    distance: int

    @property
    def directness(self) -> tuple[int, int]:
        """Larger for news used earlier; of one round, for the latest, which took no detours."""
        return -self.used, self.sent


_Player = Callable[[_Given], _Seen]
# Called again and again with the same shapes: what differs then is the algorithm's doing, and not
# another program's rounding.
_play_given = jax.jit(play_given)


def _player(algorithm: AnyAlgorithm, network: Network, losses: Floats) -> _Player:
    """The algorithm on this network, held to the contract, as a function of uniforms and losses."""
    rounds = len(losses)
    problem, gossip = from_tensor(losses), max_degree(network)
    simulation = Simulation(problem, algorithm, gossip, runs=1, dtype="float64")
    group = prepare([simulation], Options(devices=1))
    stages, state = jax.device_put((group.stages, group.carry.state))
    noise = None
    if algorithm.noised:  # the same in every play
        times = np.arange(1, rounds + 1)
        noise = jax.vmap(lambda t: streams.round_key(streams.NOISE, 0, t))(times)

    def play(given: _Given) -> _Seen:
        uniforms = RoundUniforms(given.uniforms, noise=noise)
        p, action, _ = _play_given(group.algorithm, stages, state, given.losses, uniforms)
        seen = _Seen(np.asarray(p)[:, :, 0], np.asarray(action)[:, 0])
        for t, _, v in np.argwhere(~np.isfinite(seen.p))[:1]:
            raise ValueError(
                f"{type(algorithm).__name__}.distribution is not finite for agent {v} in round "
                f"{t + 1} of {rounds}, with random losses in [0, 1]; look at its rates and at its "
                "state"
            )
        return seen

    return play


def _first_violation(
    play: _Player, given: _Given, network: Network, sources: list[int]
) -> _Violation | None:
    """The violation with the earliest `used`, of those the one with the latest `sent`, or None."""
    before = play(given)
    distances = {u: network.distances(u) for u in sources}
    first: _Violation | None = None
    for s in _some_rounds(len(given.losses), network):
        if first is not None and first.used <= s:  # a later change shows later still
            break
        for u in sources:
            for changed in _changes(given, before, u, s):
                found = _violation(before, play(changed), u, s, distances[u])
                if found is not None and (first is None or found.directness > first.directness):
                    first = found
    return first


def _changes(given: _Given, before: _Seen, u: int, s: int) -> Iterator[_Given]:
    """The same with other losses for agent u in round s, and with another arm."""
    losses = given.losses.copy()
    losses[s - 1, u] = 1 - losses[s - 1, u]
    yield given._replace(losses=losses)
    p = before.p[s - 1, :, u]
    others = np.where(np.arange(len(p)) == before.action[s - 1, u], 0, p)
    arm = int(np.argmax(others))
    if others[arm] > 0:  # else it is certain of its arm, and no uniform leads to another
        uniforms = given.uniforms.copy()
        uniforms[s - 1, 0, u] = (p[:arm].sum() + p[arm] / 2) / p.sum()
        yield given._replace(uniforms=uniforms)


def _violation(
    before: _Seen, after: _Seen, u: int, s: int, distance: npt.NDArray[np.int32]
) -> _Violation | None:
    """Who first knew of agent u's round s in round s + d(u, v) or before."""
    times = np.arange(1, len(before.p) + 1)[:, None]
    early = (before.p != after.p).any(axis=1) & (times <= s + distance)
    for t, v in np.argwhere(early)[:1]:
        return _Violation(u, int(v), s, int(t) + 1, int(distance[v]))
    return None


def _some_agents(network: Network, rng: np.random.Generator) -> list[int]:
    """All agents, or a sample with two that are far apart."""
    if network.agents <= _AGENTS:
        return list(range(network.agents))
    far = int(np.argmax(network.distances(0)))
    opposite = int(np.argmax(network.distances(far)))
    drawn = rng.choice(network.agents, _AGENTS - 2, replace=False)
    return sorted({far, opposite, *drawn.tolist()})


def _some_rounds(rounds: int, network: Network) -> list[int]:
    """Rounds to change, from the first to the last but one: all, or evenly spread."""
    most = _ROUNDS if network.agents <= _AGENTS else _ROUNDS_OF_SAMPLE
    spread = np.linspace(1, rounds - 1, min(rounds - 1, most))
    return [int(s) for s in spread.round()]


def _check_kinds(algorithm: Any, network: Any) -> None:
    if isinstance(algorithm, type):
        raise TypeError(f"algorithm must be an object: write {algorithm.__name__}()")
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be of type Algorithm, not {type(algorithm).__name__}")
    if isinstance(network, Gossip):
        raise TypeError(
            f"network must be a Network, not the gossip {network}: write gossip.network"
        )
    if not isinstance(network, Network):
        raise TypeError(
            f"network must be a Network such as fb.networks.grid(3, 3), not "
            f"{type(network).__name__}"
        )
    if not network.connected:
        raise ValueError(
            f"check_federated needs a connected network, but {network.name} has "
            f"{network.components} components; check a connected one, such as "
            "fb.networks.grid(3, 3)"
        )
