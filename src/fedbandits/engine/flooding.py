"""Messages on their way: what is flooded over several hops arrives that many rounds later."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common import checks


class Relayed(NamedTuple):
    """The state of an algorithm whose messages take more than a round to arrive.

    Attributes:
        inner: the algorithm's own state.
        under_way: the messages of the last hops - 1 rounds, by leaf, `[hops - 1, M, R, N]`; that
            of round t in place t mod (hops - 1).
    """

    inner: Any
    under_way: dict[str, Array]


def first_state(
    algorithm: AnyAlgorithm, arms: int, agents: int, batch: tuple[int, ...], dtype: DTypeLike
) -> Any:
    """The state before round 1, with nothing under way."""
    state = algorithm.init(arms, agents, batch, np.dtype(dtype))
    flooded = [name for name, leaf in algorithm.leaves.items() if leaf.combine == "flood"]
    name = f"{type(algorithm).__name__}.hops"
    if not flooded or checks.whole(algorithm.hops, name, least=1, most=checks.INT32) == 1:
        return state
    message = algorithm.message(state)
    size = sum((algorithm.hops - 1) * message[name].nbytes for name in flooded)
    checks.fits(size, f"messages on their way over {algorithm.hops:,} hops")
    return Relayed(
        state,
        {
            name: np.zeros((algorithm.hops - 1, *message[name].shape), message[name].dtype)
            for name in flooded
        },
    )


def own_state(state: Any) -> Any:
    """The algorithm's own part of a state."""
    return state.inner if isinstance(state, Relayed) else state


def relay(
    state: Any, sent: dict[str, Array], t: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    """What is due in round t, and what is under way after it.

    Returns:
        of each flooded leaf the message of round t - hops + 1, of the others that of round t; and
        the new `under_way`.
    """
    if not isinstance(state, Relayed):
        return sent, {}
    due, under_way = dict(sent), {}
    for name, ring in state.under_way.items():
        place = t % ring.shape[0]
        due[name] = ring[place]
        under_way[name] = ring.at[place].set(sent[name])
    return due, under_way
