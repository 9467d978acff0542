"""Rounds as one kernel each on an accelerator: the state is read once and written once.

XLA makes a kernel of every reduction and writes what lies between them to memory. Here a block of
agents stays in registers: neighbours near in the numbering are read where they lie, random words
are computed on the spot, and only the losses of the arms played are drawn. An agent runs the
algorithm's own lines (`stages.round.play_block`), with its arms side by side
(`arms_in_registers.Arms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, expectation
from fedbandits.common import streams
from fedbandits.engine.mixing.matrix_forms import Near
from fedbandits.engine.stages.pending_messages import moved_on, own_state
from fedbandits.engine.stages.round import play_block
from fedbandits.engine.stages.stages import Stages
from fedbandits.problems.base import Problem, RoundKey

from .arms_in_registers import Arms, Late
from .kernel_support import triton_takes

MOST_ARMS = 32
"""Beyond that the registers of a block do not hold what an agent needs."""
BLOCK = 128
"""Agents of a block, a power of two: one for each thread, and enough blocks for small networks."""
WARPS = 4
COUNTED, COUNTING_WARPS = 2048, 4
"""Agents of a block that adds up all losses: sixteen for each thread, which hides what each waits
for."""
TYPES = ("float32",)
"""Of numbers. Triton takes those written in Python for float32; float64 is left to XLA."""


class KernelStretch(NamedTuple):
    """What the kernels of a stretch of C rounds read beside the state.

    Attributes:
        algorithm: what each agent does.
        losses: of the arms played: `Drawn` or `Known`.
        mean: the mean loss of every arm, `[C, K]`.
        keys: of the actions, two words, `[C]` each.
        times: the rounds, `[C]`.
    """

    algorithm: AnyAlgorithm
    losses: Drawn | Known
    mean: Array
    keys: streams.Key
    times: Array


class Drawn(NamedTuple):
    """Losses that are drawn one by one.

    Attributes:
        problem: a pointwise one.
        keys: of the rounds, `[C]` each.
    """

    problem: Problem
    keys: RoundKey

    def of(self, row: Array, agent: Array, arm: Array) -> Array:
        """The losses of these agents and arms in one of the rounds."""
        return self.problem.loss_with(_at(self.keys, row), agent, arm)


class Known(NamedTuple):
    """Losses that were made before.

    Attributes:
        values: `[C, K, N]`.
    """

    values: Array

    def of(self, row: Array, agent: Array, arm: Array) -> Array:
        """The losses of these agents and arms in one of the rounds."""
        return self.values[row, arm, agent]


class KernelPlays(NamedTuple):
    """What the rounds of a stretch leave, each in its row.

    Attributes:
        action: the arms played, `[C, R, N]`.
        expected: expected loss ⟨p_t, ℓ̄_t⟩ of every agent, `[C, R, N]`.
    """

    action: Array
    expected: Array


def fused_round(
    stretch: KernelStretch,
    row: Array,
    state: Any,
    received: Mapping[str, Array | Near],
    plays: KernelPlays,
    *,
    interpret: bool = False,
) -> tuple[Any, KernelPlays]:
    """One round of every agent of every run.

    Args:
        stretch: what is the same for all agents.
        row: which of its rounds this is.
        state: leaves `[K, R, N]`, `[R, N]`, or numbers.
        received: by name, the combined messages, or what combines them in the kernel.
        plays: of the stretch; what this round leaves is written into its row, in place.
        interpret: step by step on any device, to test it.

    Returns:
        the state after the round, and the plays.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    rounds, runs, agents = plays.action.shape
    places = runs * agents
    own, as_state = _leaves(state)
    near = {name: how for name, how in received.items() if hasattr(how, "average_near")}
    common, as_common = _leaves((stretch, row, near))
    heard: dict[str, Array] = {name: x for name, x in received.items() if name not in near}
    inputs = (*common, *own, *heard.values(), *plays)

    def kernel(*refs: Any) -> None:
        """A block of agents: what it reads, does and writes."""
        here = iter(refs)
        given = [_Table(next(here), leaf.shape) for leaf in common]
        now, row, near = jax.tree.unflatten(as_common, [_number_or_table(x) for x in given])
        # The last block has the last agent in all the places it has left.
        first = pl.program_id(0) * BLOCK
        place = jnp.minimum(first + jnp.arange(BLOCK, dtype="int32"), places - 1)
        some = _Some(place, runs, agents, triton.load)
        columns = [some.column(next(here), leaf.shape) for leaf in own]
        before = jax.tree.unflatten(as_state, [column.read() for column in columns])
        # What was heard is needed last: read then, it takes no registers meanwhile.
        got = {name: some.column(next(here), leaf.shape).late() for name, leaf in heard.items()}
        sent = now.algorithm.message(before)
        for name, how in near.items():
            of = next(j for j, x in enumerate(jax.tree.leaves(before)) if x is sent[name])
            got[name] = how.average_near(replace(some, sent=columns[of]), columns[of].late())
        words = streams.words_at(_at(now.keys, row), place.astype("uint32"))
        uniforms = streams.as_uniforms(words, plays.expected.dtype)
        mean = Arms([now.mean[row, k] for k in range(now.mean.shape[1])])

        def see(_: Array, action: Array) -> Array:
            return now.losses.of(row, some.agent, action).astype(plays.expected.dtype)

        after, done = play_block(now.algorithm, before, uniforms, now.times[row], see, lambda: got)
        action, expected = done.action, expectation(done.p, mean)
        written = refs[len(inputs) :]
        for ref, value, leaf in zip(written, jax.tree.leaves(after), own, strict=False):
            some.column(ref, leaf.shape).write(value)
        written[-2][row * places + place] = action.astype(plays.action.dtype)
        written[-1][row * places + place] = expected

    outputs = [jax.ShapeDtypeStruct((leaf.size,), leaf.dtype) for leaf in (*own, *plays)]
    found = pl.pallas_call(
        kernel,
        out_shape=outputs,
        grid=(-(-places // BLOCK),),
        input_output_aliases={len(inputs) - 2 + j: len(own) + j for j in range(2)},
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        name="fused_round",
    )(*(leaf.reshape(-1) for leaf in inputs))
    after = [new.reshape(leaf.shape) for new, leaf in zip(found, own, strict=False)]
    left = KernelPlays(*(new.reshape(rounds, runs, agents) for new in found[-2:]))
    return jax.tree.unflatten(as_state, after), left


def dtype_and_sizes(leaves: Sequence[Any]) -> tuple[str, tuple[int, ...]] | None:
    """Of a state's arrays: their type, and (R, N); None where it has none of every agent."""
    found = next((leaf for leaf in leaves if np.ndim(leaf) in (2, 3)), None)
    return None if found is None else (str(found.dtype), tuple(np.shape(found)[-2:]))


_taken: dict[Any, bool] = {}


def triton_takes_round(
    algorithm: AnyAlgorithm, state: Any, arms: int, drawn: Problem | None = None
) -> bool:
    """Whether Triton makes kernels of these lines; found out once for each kind.

    Args:
        algorithm: what each agent does.
        state: before round 1.
        arms: K.
        drawn: the problem whose losses kernels draw; None where they are known.
    """

    def shaped(x: Any) -> Any:
        return jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x))

    given, kind = jax.tree.flatten(jax.tree.map(shaped, (algorithm, state, drawn)))
    of = (kind, *((each.shape, str(each.dtype)) for each in given), arms)
    if of not in _taken:
        player, before, problem = jax.tree.unflatten(kind, given)
        found = dtype_and_sizes(jax.tree.leaves(before))
        assert found is not None
        dtype, (runs, agents) = found

        def play(player: Any, state: Any, losses: Any, seed: Array, times: Array) -> Any:
            known = SimpleNamespace(values=losses, mean=jnp.zeros((1, arms), dtype))
            stretch = stretch_of(
                player, losses, known if problem is None else None, seed, times, dtype
            )
            plays = KernelPlays(*(jnp.zeros((1, runs, agents), each) for each in ("int8", dtype)))
            return fused_round(stretch, jnp.int32(0), state, player.message(state), plays)

        losses = jax.ShapeDtypeStruct((1, arms, agents), dtype) if problem is None else problem
        words = jax.ShapeDtypeStruct((), "uint32"), jax.ShapeDtypeStruct((1,), "int32")
        _taken[of] = triton_takes(type(algorithm).__name__, play, player, before, losses, *words)
    return _taken[of]


def stretch_of(
    algorithm: AnyAlgorithm,
    problem: Problem | Array,
    known: Any,
    seed: Array,
    times: Array,
    dtype: Any,
) -> KernelStretch:
    """What the kernels of these rounds read.

    Args:
        algorithm: what each agent does.
        problem: the losses; those that are not `known` are drawn by the kernels.
        known: values `[C, K, N]` and their mean; None where they are not.
        seed: of the actions.
        times: the rounds.
        dtype: of the state.
    """
    keys = jax.vmap(lambda t: streams.round_key(streams.ACTIONS, seed, t))(times)
    if known is not None:
        return KernelStretch(algorithm, Known(known.values), known.mean, keys, times)
    assert isinstance(problem, Problem)
    drawn = Drawn(problem, jax.vmap(problem.key_of)(times))
    return KernelStretch(algorithm, drawn, mean_losses(drawn, dtype), keys, times)


def play_stretch(
    stretch: KernelStretch,
    stages: Stages,
    state: Any,
    runs: int,
    agents: int,
    receive: Callable[[Any, Array], tuple[dict[str, Array], Any]],
) -> tuple[Any, KernelPlays]:
    """The rounds of a stretch, one after the other.

    Args:
        stretch: what is the same for all agents.
        stages: exchange and conditions.
        state: before the first of its rounds.
        runs: R.
        agents: N.
        receive: gives the combined messages of a state and round, and the state with what is then
            under way; called where the kernel does not combine them itself.
    """
    rounds = stretch.times.shape[0]
    shape = (rounds, runs, agents)
    plays = KernelPlays(jax.lax.empty(shape, "int8"), jax.lax.empty(shape, stretch.mean.dtype))

    def play(row: Array, before: tuple[Any, KernelPlays]) -> tuple[Any, KernelPlays]:
        state, plays = before
        received: dict[str, Any] | None = _near(stretch.algorithm, stages, state)
        if received is None:
            received, state = receive(state, stretch.times[row])
        after, plays = fused_round(stretch, row, own_state(state), received, plays)
        return moved_on(state, after), plays

    # Two rounds in a turn: the new state of one lies where the old one of the next is expected.
    after: tuple[Any, KernelPlays] = jax.lax.fori_loop(
        0, rounds, play, (state, plays), unroll=min(2, rounds)
    )
    return after


def _near(algorithm: AnyAlgorithm, stages: Stages, state: Any) -> dict[str, Near] | None:
    """What combines each leaf in the kernel; None where XLA combines them before it."""
    sent = algorithm.message(own_state(state))
    held = jax.tree.leaves(own_state(state))
    if (
        stages.hooks
        or own_state(state) is not state  # something is under way
        or any(algorithm.leaves[name].combine != "average" for name in sent)
        or not all(any(x is leaf for leaf in held) for x in sent.values())
    ):
        return None
    # Bad links have no such form.
    near: Any = getattr(stages.mixer.averages, "near", lambda _: None)
    found = {name: near(x) for name, x in sent.items()}
    return None if None in found.values() else found


def mean_losses(drawn: Drawn, dtype: Any, *, interpret: bool = False) -> Array:
    """The mean over agents of every arm's loss in these rounds, `[C, K]`.

    No loss is written down: each block adds up those of its agents.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    agents, arms, half = (drawn.problem.agents, drawn.problem.arms, drawn.problem.half_of_arms)
    rounds, blocks = drawn.keys[0].shape[0], -(-agents // COUNTED)
    inputs, kind = _leaves(drawn)

    def kernel(*refs: Any) -> None:
        """Two arms of a block of agents in one round."""
        given = [_Table(ref, leaf.shape) for ref, leaf in zip(refs, inputs, strict=False)]
        problem, keys = jax.tree.unflatten(kind, [_number_or_table(table) for table in given])
        block, arm, row = (pl.program_id(axis) for axis in range(3))
        key, agent = _at(keys, row), block * COUNTED + jnp.arange(COUNTED, dtype="int32")

        # No loop over agents: LLVM would take the sums of a hash apart to make some of them before.
        def full() -> tuple[Array, ...]:
            losses = problem.two_losses_with(key, agent, arm)
            return tuple(each.astype(dtype).sum() for each in losses)

        def begun() -> tuple[Array, ...]:
            losses = problem.two_losses_with(key, jnp.minimum(agent, agents - 1), arm)
            return tuple(jnp.where(agent < agents, x, 0).astype(dtype).sum() for x in losses)

        totals = jax.lax.cond((block + 1) * COUNTED <= agents, full, begun)
        for part, total in enumerate(totals):
            refs[-1][((row * 2 + part) * half + arm) * blocks + block] = total

    found = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rounds * 2 * half * blocks,), dtype),
        grid=(blocks, half, rounds),
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=COUNTING_WARPS, num_stages=1),
        name="mean_losses",
    )(*(leaf.reshape(-1) for leaf in inputs))
    return found.reshape(rounds, 2 * half, blocks).sum(axis=2)[:, :arms] / agents


def _at(keys: RoundKey, row: Array) -> Any:
    """The key of one of the rounds."""
    return tuple(each[row] for each in keys)


def _leaves(tree: Any) -> tuple[list[Array], Any]:
    """The arrays of a tree, and how it is put together again."""
    leaves, kind = jax.tree.flatten(tree)
    return [jnp.asarray(leaf) for leaf in leaves], kind


@dataclass(frozen=True)
class _Table:
    """An array in the accelerator's memory, of which what is indexed is read."""

    ref: Any
    shape: tuple[int, ...]

    def __getitem__(self, index: Any) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        place = parts[0]
        for size, part in zip(self.shape[1:], parts[1:], strict=True):
            place = place * size + part
        return self.ref[place]


def _number_or_table(table: _Table) -> Any:
    return table if table.shape else table.ref[0]


@dataclass(frozen=True)
class _Some:
    """The agents of a block: where they lie in arrays `[R, N]`, counted along both axes."""

    place: Array
    runs: int
    agents: int
    load: Any
    sent: _Column | None = None
    """The messages that they send, if neighbours need them."""

    @property
    def agent(self) -> Array:
        """Their numbers."""
        return self.place if self.runs == 1 else self.place % self.agents

    def column(self, ref: Any, shape: tuple[int, ...]) -> _Column:
        """Their part of an array in the accelerator's memory."""
        return _Column(ref, shape, self.place, self.runs * self.agents)

    def beside(self, distance: int, there: Array) -> Arms:
        """Return what agents so many numbers further on send, if there are any; else 0."""
        assert self.sent is not None
        ref, rows = self.sent.ref, self.sent.rows
        return Arms(
            Late(len(rows), lambda k: self.load(ref.at[rows[k] + distance], mask=there, other=0.0))
        )

    def of_run(self, values: _Table) -> Arms:
        """Of values `[K, R]` those of their runs."""
        run = 0 if self.runs == 1 else self.place // self.agents
        return Arms(Late(values.shape[0], lambda k: values[k, run]))


@dataclass(frozen=True)
class _Column:
    """What some agents hold: of `[K, R, N]`, `[R, N]` or a number."""

    ref: Any
    shape: tuple[int, ...]
    place: Array
    places: int

    @property
    def rows(self) -> list[Array]:
        """Where each arm of theirs lies."""
        return [self.place + k * self.places for k in range(self.shape[0])]

    def read(self) -> Any:
        """What they hold."""
        if len(self.shape) == 3:
            return Arms([self.ref[row] for row in self.rows])
        return self.ref[self.place] if self.shape else self.ref[0]

    def late(self) -> Any:
        """What they hold, of several arms each read when it is needed."""
        if len(self.shape) < 3:
            return self.read()
        rows = self.rows
        return Arms(Late(len(rows), lambda k: self.ref[rows[k]]))

    def write(self, value: Any) -> None:
        """What they hold from now on."""
        if len(self.shape) == 3:
            # All of it is read before any of it is written: nothing waits for a write.
            for row, each in zip(self.rows, tuple(value.each), strict=True):
                self.ref[row] = each
        else:
            self.ref[self.place if self.shape else 0] = value
