"""Algorithms in plain NumPy, line by line as their papers write them; one for each registered.

Nothing here is imported from the library. `ORACLES` plays what `tests.instances.ALGORITHMS` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from . import block_gossip, cooperation, linear_block_gossip, noised, paper, tracking
from .paper import Float, Int, Played, Rate, softmax


class Game(NamedTuple):
    """What an oracle is told.

    Attributes:
        losses: `[T, N, K]`.
        W: the gossip matrix, `[N, N]`.
        distance: hops between agents, `[N, N]`.
        actions: the arms as vectors, `[K, d]`.
        uniforms: what arms are drawn with, `[T, N]`.
        noise: what noise is made of, uniforms `[T, N, K]`.
    """

    losses: Float
    W: Float
    distance: Int
    actions: Float
    uniforms: Float
    noise: Float

    @property
    def sigma2(self) -> float:
        """The second largest absolute eigenvalue of W; 0 of one agent."""
        return float(np.sort(np.append(0.0, abs(np.linalg.eigvalsh(self.W))))[-2])


class Oracle(NamedTuple):
    """An algorithm in plain NumPy.

    Attributes:
        play: plays a game; `z` of what it gives is what agents send to be averaged, where they do,
            one leaf after the other.
        leaves: what leaves an agent: the kind of each leaf, and how it is combined on the way.
    """

    play: Callable[[Game], Played]
    leaves: Mapping[str, tuple[str, str]]


def constant(value: float) -> Rate:
    return lambda _: value


def power(c: float, a: float) -> Rate:
    return lambda t: c * t**-a


def fedexp3(game: Game) -> Played:
    return paper.fedexp3(game.losses, game.W, constant(0.7), power(0.2, 1 / 3), game.uniforms)


def exp3(game: Game) -> Played:
    """Algorithm 1 of agents who never meet."""
    return fedexp3(game._replace(W=np.eye(len(game.W))))


def uniform(game: Game) -> Played:
    """Algorithm 1 with nothing but exploration."""
    return paper.fedexp3(game.losses, game.W, constant(0.0), constant(1.0), game.uniforms)


def fedhedge(game: Game) -> Played:
    _, N, K = game.losses.shape
    eta = power(1.5 * np.sqrt(np.log(K) / (K / N + 1)), 1 / 2)
    return paper.fedhedge(game.losses, game.W, eta, game.uniforms)


def tracking_fedexp3(game: Game) -> Played:
    return tracking.tracking_fedexp3(game.losses, game.W, power(0.2, 1 / 3), game.uniforms)


def sharing_fedexp3(game: Game) -> Played:
    return tracking.sharing_fedexp3(game.losses, game.W, power(0.2, 1 / 3), 0.05, game.uniforms)


def accelerated_fedexp3(game: Game) -> Played:
    s = np.sqrt(1 - game.sigma2**2)
    rates = constant(0.7), power(0.2, 1 / 3)
    return block_gossip.accelerated_fedexp3(
        game.losses, game.W, *rates, (1 - s) / (1 + s), game.uniforms
    )


def blocks_of_three(game: Game) -> Played:
    def leader(fed: Float, _other: Float, _updates: int, _first: int) -> Float:
        return softmax(fed, 0.3)

    weights = block_gossip.chebyshev(game.sigma2, 3)
    return block_gossip.block_gossip(
        game.losses, game.W, leader, power(0.5, 1 / 3), weights, game.uniforms
    )


def linear_blocks_of_three(game: Game) -> Played:
    """Of at most six arms in the plane all are in the spanner."""
    return linear_block_gossip.linear_block_gossip(
        *(game.losses, game.actions, list(range(len(game.actions))), game.W),
        sigma=game.sigma2,
        block=3,
        eta=power(0.5, 1 / 3),
        beta=constant(0.3),
        alpha=0.1,
        uniforms=game.uniforms,
    )


def private_fedexp3(game: Game) -> Played:
    rates = constant(0.2), power(0.5, 1 / 3)
    given = game.losses, game.W, *rates, game.uniforms, game.noise
    return noised.private_fedexp3(*given, epsilon=2.0, C=2.5, B=3)


def held_fedexp3(game: Game) -> Played:
    rates = constant(0.2), power(0.5, 1 / 3)
    given = game.losses, game.W, *rates, game.uniforms, game.noise
    return noised.held_fedexp3(*given, epsilon=2.0, B=3)


def exp3_coop(game: Game) -> Played:
    learner = cooperation.exp3_coop(constant(0.7))
    return cooperation.cooperative(game.losses, game.distance, 2, learner, game.uniforms)


def delayed_ftrl(game: Game) -> Played:
    learner = cooperation.delayed_ftrl(2)
    return cooperation.cooperative(game.losses, game.distance, 2, learner, game.uniforms)


def fed_ftrl(game: Game) -> Played:
    """On a path, which is as wide as a network of so many agents can be."""
    scales = (0.1, 0.0, 0.2, 0.0, 12.0)
    widest = len(game.W) - 1
    return cooperation.fed_ftrl(game.losses, game.W, game.sigma2, widest, scales, game.uniforms)


def gossip_ucb(game: Game) -> Played:
    T, N, K = game.losses.shape
    neighbours = [np.flatnonzero(row == 1).tolist() for row in game.distance]
    state = paper.gossip_ucb_start(N, K)
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(T):
        out.z[t] = state.theta
        state, out.p[t], out.action[t] = paper.gossip_ucb_round(
            state, game.losses[t], game.W, neighbours, game.uniforms[t], t + 1
        )
    return out


SENT_Z = {"z": ("estimate", "average")}
SENT_MEMORIES = dict.fromkeys(
    ("z30", "z100", "z300", "z1000", "z", "lost"), ("estimate", "average")
)
SENT_X = {"x": ("estimate", "average")}
SENT_PLAYS = {
    "arm": ("raw", "flood"),
    "loss": ("raw", "flood"),
    "unplayed": ("estimate", "flood"),
}
ORACLES: Mapping[str, Oracle] = {
    "FedExp3": Oracle(fedexp3, SENT_Z),
    "Exp3": Oracle(exp3, {}),
    "AcceleratedFedExp3": Oracle(accelerated_fedexp3, SENT_Z),
    "TrackingFedExp3": Oracle(tracking_fedexp3, SENT_MEMORIES),
    "SharingFedExp3": Oracle(sharing_fedexp3, SENT_Z),
    "BlockGossip": Oracle(blocks_of_three, SENT_X),
    "LinearBlockGossip": Oracle(linear_blocks_of_three, SENT_X),
    "PrivateFedExp3": Oracle(private_fedexp3, SENT_Z),
    "HeldFedExp3": Oracle(held_fedexp3, SENT_Z),
    "FedFTRL": Oracle(fed_ftrl, {"total": ("estimate", "average"), "difference": ("raw", "flood")}),
    "FedHedge": Oracle(fedhedge, SENT_Z),
    "Exp3Coop": Oracle(exp3_coop, SENT_PLAYS),
    "DelayedFTRL": Oracle(delayed_ftrl, SENT_PLAYS),
    "GossipUCB": Oracle(
        gossip_ucb, {"theta": ("estimate", "average"), "n_most": ("count", "maximum")}
    ),
    "Uniform": Oracle(uniform, {}),
}
