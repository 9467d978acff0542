"""Algorithm 1 of the paper as one would write it in an evening: the baseline of every ratio.

One run, all agents at once, float64, arms last as in the paper. Nothing is imported from the
library, and nothing here is meant to be clever: it must stay what a reader of the paper would
write, or the ratios mean something else from one year to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Round(NamedTuple):
    """What happened in one round.

    Attributes:
        p: distributions, `[N, K]`.
        action: arms played, `[N]`.
        z: loss estimates before the round, `[N, K]`.
    """

    p: Array
    action: Array
    z: Array


def fedexp3(
    losses: Callable[[int], Array],
    W: Any,
    arms: int,
    uniforms: Callable[[int], Array],
    eta: Callable[[int], float] = lambda _: 0.1,
    gamma: Callable[[int], float] = lambda t: 0.01 * t ** (-1 / 3),
) -> Iterator[Round]:
    """Algorithm 1, round by round and without end.

    Args:
        losses: ℓ_t, `[N, K]`, by round.
        W: the gossip matrix `[N, N]`, a NumPy array or a SciPy sparse one.
        arms: K.
        uniforms: numbers in [0, 1), `[N]`, by round, from which the arms are drawn.
        eta: the learning rate by round; by default that of the paper's figures.
        gamma: the exploration rate by round; likewise.
    """
    N = W.shape[0]
    agents = np.arange(N)
    incoming = W.T if isinstance(W, np.ndarray) else W.T.tocsr()
    z = np.zeros((N, arms))  # line 1
    x = np.full((N, arms), 1 / arms)
    for t in itertools.count(1):  # line 2
        explore = min(gamma(t), 1.0)
        p = (1 - explore) * x + explore / arms  # line 3
        cumulative = np.cumsum(p, axis=1)
        u = uniforms(t)[:, None]
        action = (cumulative <= u * cumulative[:, -1:]).sum(axis=1)  # line 4
        g = np.zeros((N, arms))
        g[agents, action] = losses(t)[agents, action] / p[agents, action]  # line 5
        before = z
        z = incoming @ z + g  # line 6, the agent itself included
        weights = np.exp(-eta(t) * (z - z.min(axis=1, keepdims=True)))
        x = weights / weights.sum(axis=1, keepdims=True)  # line 7
        yield Round(p, action, before)


def coins(means: Array, agents: int, seed: int = 0) -> Callable[[int], Array]:
    """Independent Bernoulli losses `[N, K]` with means `[K]`."""
    rng = np.random.default_rng(seed)
    return lambda _: (rng.random((agents, len(means))) < means).astype(float)


def activated_coins(means: Array, agents: int, seed: int = 0) -> Callable[[int], Array]:
    """The paper's synthetic losses: Bernoulli for a random half of the agents, 0 for the others."""
    rng = np.random.default_rng(seed)

    def losses(_: int) -> Array:
        table = np.zeros((agents, len(means)))
        active = rng.permutation(agents)[: (agents + 1) // 2]
        table[active] = rng.random((len(active), len(means))) < means
        return table

    return losses


def luck(agents: int, seed: int = 1) -> Callable[[int], Array]:
    """Uniforms `[N]` of each round."""
    rng = np.random.default_rng(seed)
    return lambda _: rng.random(agents)
