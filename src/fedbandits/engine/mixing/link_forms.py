"""Averages and maxima over links that lose messages, one form for each rule.

What happens in a round is drawn by message: `[R, 2E]`, in the order of `BadLinks.loss`. All leaves
of a message share its fate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array
from fedbandits.common import checks, streams
from fedbandits.gossip.base import Gossip

from .link_layouts import LinkLayout, links


@dataclass(frozen=True)
class Chances:
    """How messages are lost; all but the sizes is traced, so that a sweep compiles once.

    Attributes:
        loss: of every message, `[2E]`.
        active: the probability that an edge is used; None where all are.
        up: rounds for which an agent's links are up; None where they always are.
        down: rounds for which they are down then.
        ends: of the edges, `[E, 2]`.
        agents: N.
    """

    loss: Array
    active: Array | None
    up: Array | None
    down: Array | None
    ends: Array
    agents: int = field(metadata={"static": True})

    @property
    def edges(self) -> int:
        """E."""
        return int(self.loss.shape[0]) // 2

    def uniforms(self, seed: Array, t: Array, runs: int, dtype: Any, more: int = 0) -> Array:
        """Those of round t, a function of (seed, run, round, edge): messages, edges, then `more`.

        `[R, 2E]`, `E` of edges where not all are used, and `more · E` for the caller.
        """
        parts = 2 + (self.active is not None) + more
        key = streams.round_key(streams.LINKS, seed, t)
        return streams.uniforms(key, (runs, parts * self.edges), dtype)

    def arrive(self, uniforms: Array, seed: Array, t: Array) -> Array:
        """Which messages arrive in round t, `[R, 2E]`, from its uniforms."""
        count = self.edges
        arrive = uniforms[:, : 2 * count] >= self.loss
        if self.active is not None:
            used = uniforms[:, 2 * count : 3 * count] < self.active
            arrive = arrive & jnp.concatenate([used, used], axis=1)
        if self.up is not None:
            awake = self._awake(seed, t, len(uniforms))
            both = awake[:, self.ends[:, 0]] & awake[:, self.ends[:, 1]]
            arrive = arrive & jnp.concatenate([both, both], axis=1)
        # The barrier keeps XLA from drawing a message anew wherever it is looked at.
        return jax.lax.optimization_barrier(arrive)

    def _awake(self, seed: Array, t: Array, runs: int) -> Array:
        """Whose links are up, `[R, N]`: a function of the round and a phase of each agent."""
        assert self.up is not None
        assert self.down is not None
        period = self.up + self.down
        key = streams.round_key(streams.PHASES, seed, jnp.int32(0))
        # In float32, whatever the run: the phase of a period of up to 2^23 rounds.
        phase = (streams.uniforms(key, (runs, self.agents)) * period).astype("int32")
        return (t + phase) % period < self.up


class Arrivals(NamedTuple):
    """What happens to messages in a round, at the places of a form's links.

    Attributes:
        arrived: what is heard, `[S, R, P]`.
        age: how many rounds old it is; None where it is always of this round.
        t: the round.
    """

    arrived: Array
    age: Array | None
    t: Array


@dataclass(frozen=True)
class Unreliable:
    """Links that remember nothing but old messages: rules `symmetric`, `receiver` and `lost`."""

    chances: Chances
    links: LinkLayout
    diagonal: Array
    """W_vv, `[N]`."""
    rule: str = field(metadata={"static": True})
    delay: int = field(metadata={"static": True})

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Arrivals:
        """Which messages arrive, and how old they are."""
        count = self.chances.edges
        uniforms = self.chances.uniforms(seed, t, runs, dtype, more=2 if self.delay else 0)
        arrive = self.chances.arrive(uniforms, seed, t)
        here = self.links.of_messages(arrive) & self.links.there[:, None]
        if self.rule == "symmetric":
            here = here & self.links.of_messages(arrive, (self.links.message + count) % (2 * count))
        age = None
        if self.delay:
            there_are = jnp.minimum(t, self.delay + 1)  # nothing was sent before round 1
            drawn = (uniforms[:, -2 * count :] * there_are).astype("int32")
            age = self.links.of_messages(drawn)
        return Arrivals(here, age, jnp.asarray(t))

    def first_memory(self, message: Array) -> Array | None:
        """The messages of the last `delay` rounds, that of round t in place t mod delay."""
        if not self.delay:
            return None
        checks.fits(self.delay * message.nbytes, f"messages of {self.delay:,} rounds on their way")
        return np.zeros((self.delay, *message.shape), message.dtype)

    def exchange(
        self, x: Array, sent: Array, drawn: Arrivals, memory: Array | None
    ) -> tuple[Array, Array | None]:
        """The average over what arrived."""
        start = self.diagonal * x if self.rule == "lost" else x
        if drawn.age is None or memory is None:
            return self._hear(start, x, sent, drawn.arrived), None
        total = self._hear(start, x, sent, drawn.arrived & (drawn.age == 0))
        ages = (drawn.t - 1 - jnp.arange(self.delay)) % self.delay + 1

        def hear(total: Array, past: tuple[Array, Array]) -> tuple[Array, None]:
            message, age = past
            return self._hear(total, x, message, drawn.arrived & (drawn.age == age)), None

        total, _ = jax.lax.scan(hear, total, (memory, ages))
        return total, memory.at[drawn.t % self.delay].set(sent)

    def unused(self, memory: Array | None) -> Array | None:
        """Old messages are there, whether anyone used them or not."""
        return memory

    def _hear(self, total: Array, x: Array, sent: Array, arrived: Array) -> Array:
        """The total with the shares of the messages that arrived."""
        layout = self.links.layout

        def step(total: Array, row: Any, given: tuple[Array, Array]) -> tuple[Array, None]:
            arrived, weight = given
            heard = layout.heard(sent, row)
            if self.rule != "lost":
                heard = heard - layout.own(x, row)  # whose own value stands for what is missing
            return layout.add(total, jnp.where(arrived, weight, 0.0) * heard, row), None

        return self.links.each(step, total, (arrived, self.links.weight))[0]

    def maximum(self, x: Array, drawn: Arrivals) -> Array:
        """Over what arrived, never late."""
        return _largest(self.links, x, x, drawn.arrived)


class Exchanges(NamedTuple):
    """What happens in a round to the reports and answers of rule `flow`.

    Attributes:
        reported: whether the report arrived, at the places of owners, `[S, R, P]`, and at those of
            other ends.
        answered: whether its answer arrived too.
    """

    reported: tuple[Array, ...]
    answered: tuple[Array, ...]


class Ledger(NamedTuple):
    """What the edges remember under rule `flow`.

    Attributes:
        pending: what the owner has given and the other end does not have yet, `[M, R, P]` by row.
        busy: whether an exchange is under way, at the places of owners, `[S, R, P]`, and of other
            ends.
    """

    pending: Any
    busy: tuple[Array, ...]


@dataclass(frozen=True)
class Flow:
    """The ledger of live agents (`live/protocol/ledger.py`) as arrays.

    Each edge has one owner, the agent with the lower number.

    The other end reports its value. If the report arrives and no exchange is under way, the owner
    takes w (z_other - z_owner) at once; whenever a report arrives it answers with what the other
    end has not had yet, which takes it if the answer arrives. Σ z and what is pending is the sum of
    all that was put in.
    """

    chances: Chances
    owners: LinkLayout
    """Over which owners hear the other ends."""
    others: LinkLayout
    """Over which other ends hear owners."""

    @property
    def _sides(self) -> tuple[LinkLayout, LinkLayout]:
        return self.owners, self.others

    def draw(self, seed: Array, t: Array, runs: int, dtype: Any) -> Exchanges:
        """Which reports arrive, and which answers to them."""
        count = self.chances.edges
        uniforms = self.chances.uniforms(seed, t, runs, dtype)
        arrive = self.chances.arrive(uniforms, seed, t)
        reported, answered = [], []
        for side in self._sides:
            answer = side.message % count  # from the lower to the higher number: these come first
            reported.append(side.of_messages(arrive, answer + count) & side.there[:, None])
            answered.append(side.of_messages(arrive, answer) & reported[-1])
        return Exchanges(tuple(reported), tuple(answered))

    def first_memory(self, message: Array) -> Ledger:
        """Nothing is under way."""
        arms, runs, _ = message.shape
        size = arms * runs * self.others.message.size * message.dtype.itemsize
        checks.fits(size, "what links remember")
        rows = ((*side.message.shape[:1], runs, side.message.shape[1]) for side in self._sides)
        return Ledger(
            self.others.zeros(arms, runs, dtype=message.dtype),
            tuple(np.zeros(shape, bool) for shape in rows),
        )

    def exchange(
        self, x: Array, sent: Array, drawn: Exchanges, memory: Ledger
    ) -> tuple[Array, Ledger]:
        """One exchange over every edge that is free and whose report arrives."""
        owners, others = self.owners.layout, self.others.layout
        begins = [
            reported & ~busy for reported, busy in zip(drawn.reported, memory.busy, strict=True)
        ]

        def give(total: Array, row: Any, given: tuple[Array, Array]) -> tuple[Array, None]:
            begin, weight = given
            moved = owners.heard(sent, row) - owners.own(x, row)
            return owners.add(total, jnp.where(begin, weight, 0.0) * moved, row), None

        def take(
            total: Array, row: Any, given: tuple[Array, Array, Array, Array]
        ) -> tuple[Array, Array]:
            begin, answered, pending, weight = given
            moved = others.heard(sent, row) - others.own(x, row)
            pending = pending + jnp.where(begin, weight, 0.0) * moved  # was 0 if one begins
            taken = jnp.where(answered, pending, 0.0)
            return others.add(total, taken, row), pending - taken

        total, _ = self.owners.each(give, x, (begins[0], self.owners.weight))
        total, pending = self.others.each(
            take, total, (begins[1], drawn.answered[1], memory.pending, self.others.weight)
        )
        was, reported, answered = memory.busy, drawn.reported, drawn.answered
        busy = tuple((was[i] | reported[i]) & ~answered[i] for i in range(2))
        return total, Ledger(pending, busy)

    def unused(self, memory: Ledger) -> Ledger:
        """Nothing is under way: what an owner did not take it has not given."""
        ledger: Ledger = jax.tree.map(jnp.zeros_like, memory)
        return ledger

    def maximum(self, x: Array, drawn: Exchanges) -> Array:
        """Reports and answers bring maxima too."""
        largest = _largest(self.owners, x, x, drawn.reported[0])
        return _largest(self.others, largest, x, drawn.answered[1])


def link_form(gossip: Gossip, dtype: DTypeLike) -> Unreliable | Flow:
    """The form of a gossip over bad links."""
    network, faults = gossip.network, gossip.faults
    assert faults is not None
    count = len(network.edges)
    weights = np.asarray(gossip.edge_weights, dtype)
    chances = Chances(
        faults.loss.astype(dtype),
        None if faults.active == 1 else np.asarray(faults.active, dtype),
        None if faults.up is None else np.int32(faults.up),
        None if faults.down is None else np.int32(faults.down),
        network.edges.astype(np.int32),
        network.agents,
    )
    there, back = network.edges, network.edges[:, ::-1]
    numbers = np.arange(2 * count)
    if faults.rule == "flow":
        return Flow(
            chances,
            links(network.agents, back, numbers[count:], weights),
            links(network.agents, there, numbers[:count], weights),
        )
    pairs = np.concatenate([there, back])
    both = links(network.agents, pairs, numbers, np.tile(weights, 2))
    diagonal = gossip.matrix.diagonal().astype(dtype)
    return Unreliable(chances, both, diagonal, faults.rule, faults.delay)


def _largest(links: LinkLayout, start: Array, x: Array, arrived: Array) -> Array:
    layout = links.layout

    def step(largest: Array, row: Any, given: tuple[Array]) -> tuple[Array, None]:
        sent = jnp.where(given[0], layout.heard(x, row), layout.own(x, row))
        return layout.lift(largest, sent, row), None

    return links.each(step, start, (arrived,))[0]
