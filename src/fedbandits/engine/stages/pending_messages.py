"""Messages on their way: floods that take several rounds, and what links owe their ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.engine.mixing.mixer import Mixer

from .stages import Stages


class Relayed(NamedTuple):
    """The state of an algorithm some of whose messages are under way between two rounds.

    Attributes:
        inner: the algorithm's own state.
        floods: the messages of the last hops - 1 rounds, by leaf, `[hops - 1, M, R, N]`; that of
            round t in place t mod (hops - 1).
        links: what links remember, by leaf: whatever their form says.
    """

    inner: Any
    floods: dict[str, Array]
    links: dict[str, Any]


def first_state(
    algorithm: AnyAlgorithm,
    mixer: Mixer,
    arms: int,
    agents: int,
    batch: tuple[int, ...],
    dtype: DTypeLike,
) -> Any:
    """The state before round 1, with nothing under way."""
    state = algorithm.init(arms, agents, batch, np.dtype(dtype))
    message = algorithm.message(state)
    combined = {name: leaf.combine for name, leaf in algorithm.leaves.items() if name in message}
    memory = {name: mixer.first_memory(how, message[name]) for name, how in combined.items()}
    links = {name: found for name, found in memory.items() if found is not None}
    floods = _first_floods(algorithm, message)
    return Relayed(state, floods, links) if floods or links else state


def _first_floods(algorithm: AnyAlgorithm, message: dict[str, Array]) -> dict[str, Array]:
    flooded = [name for name, leaf in algorithm.leaves.items() if leaf.combine == "flood"]
    name = f"{type(algorithm).__name__}.hops"
    if not flooded or checks.whole(algorithm.hops, name, least=1, most=checks.INT32) == 1:
        return {}
    size = sum((algorithm.hops - 1) * message[name].nbytes for name in flooded)
    checks.fits(size, f"messages on their way over {algorithm.hops:,} hops")
    return {
        name: np.zeros((algorithm.hops - 1, *message[name].shape), message[name].dtype)
        for name in flooded
    }


def own_state(state: Any) -> Any:
    """The algorithm's own part of a state."""
    return state.inner if isinstance(state, Relayed) else state


def relay(
    algorithm: AnyAlgorithm,
    stages: Stages,
    state: Any,
    drawn: Any,
    t: Array,
) -> tuple[dict[str, Array], Any]:
    """What is received in round t, and the state with what is under way after it.

    A flooded leaf that is received is of round t - hops + 1, the others are of round t.
    """
    received = {}
    floods: dict[str, Array] = dict(state.floods) if isinstance(state, Relayed) else {}
    links: dict[str, Any] = dict(state.links) if isinstance(state, Relayed) else {}
    for name, true in algorithm.message(own_state(state)).items():
        leaf = algorithm.leaves[name]
        sent = stages.outgoing(leaf, true, t)
        if name in floods:
            ring = floods[name]
            place = t % ring.shape[0]
            floods[name] = ring.at[place].set(sent)
            true = sent = ring[place]
        received[name], memory = stages.mixer.combine(
            leaf.combine, true, sent, drawn, links.get(name)
        )
        if name in links:
            links[name] = _remembered(algorithm, stages.mixer, memory, true.shape[0], t)
    return received, state._replace(floods=floods, links=links) if floods or links else state


def _remembered(algorithm: AnyAlgorithm, mixer: Mixer, memory: Any, arms: int, t: Array) -> Any:
    """What links remember after round t, which may be one whose averages nobody uses."""
    unused = algorithm.rounds_before_gossip(arms)
    if not unused or mixer.averages is None:
        return memory
    return jax.tree.map(
        lambda kept, otherwise: jnp.where(t <= unused, otherwise, kept),
        memory,
        mixer.averages.unused(memory),
    )


def moved_on(state: Any, inner: Any) -> Any:
    """The state whose own part is `inner`."""
    return state._replace(inner=inner) if isinstance(state, Relayed) else inner
