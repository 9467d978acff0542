"""Every way in which a tiny federation can play under randomised response, with its probability.

The algorithm's own lines in NumPy, all arms and bits enumerated: what is seen, by all other agents
together or by an observer of every message and arm, is a function of the transcript.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.privacy.response import RandomisedResponse

Floats = npt.NDArray[np.float64]


class Play(NamedTuple):
    """One way to play: how likely it is, what is seen of it, and both kinds of loss."""

    probability: float
    seen: tuple[Any, ...]
    losses: float
    bits: float


def plays(algorithm: AnyAlgorithm, losses: Floats, privacy: RandomisedResponse) -> Iterator[Play]:
    """All ways to play losses `[T, N, K]` on a complete network."""
    _, agents, arms = losses.shape
    gossip = fb.gossip.max_degree(fb.networks.complete(agents))
    ready = algorithm.set_up(fb.Setting(arms, agents, gossip))
    W = gossip.matrix.toarray()

    def combined(message: dict[str, Floats]) -> dict[str, Floats]:
        found = {}
        for name, x in message.items():
            how = ready.leaves[name].combine
            one = x.max(axis=1) if how == "maximum" else x.sum(axis=1)
            found[name] = x @ W if how == "average" else np.stack([one] * agents, axis=1)
        return found

    def after(t: int, state: Any, before: Play) -> Iterator[Play]:
        message = ready.message(state)
        told = tuple((name, *np.round(x, 9).ravel().tolist()) for name, x in message.items())
        if t > len(losses):
            yield before._replace(seen=(*before.seen, told))
            return
        p = np.asarray(ready.distribution(state, np.int64(t)), np.float64)
        everyone = np.arange(agents)
        for choice in itertools.product(range(arms), repeat=agents):
            action = np.array(choice)
            incurred = losses[t - 1, everyone, action]
            ones = privacy.flip + (1 - 2 * privacy.flip) * incurred
            for drawn in itertools.product((0.0, 1.0), repeat=agents):
                bits = np.array(drawn)
                likely = np.prod(p[action, everyone]) * np.prod(np.where(bits, ones, 1 - ones))
                if likely == 0:
                    continue
                state_after = ready.update(state, combined(message), action, bits, p, np.int64(t))
                yield from after(
                    t + 1,
                    state_after,
                    Play(
                        before.probability * float(likely),
                        (*before.seen, told, choice),
                        before.losses + float(incurred.sum()),
                        before.bits + float(bits.sum()),
                    ),
                )

    yield from after(1, ready.init(arms, agents, (agents,), np.float64), Play(1.0, (), 0.0, 0.0))


def law(algorithm: AnyAlgorithm, losses: Floats, privacy: RandomisedResponse) -> dict[Any, float]:
    """The probability of everything that can be seen."""
    found: dict[Any, float] = defaultdict(float)
    for play in plays(algorithm, losses, privacy):
        found[play.seen] += play.probability
    return found
