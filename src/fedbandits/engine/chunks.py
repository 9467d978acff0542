"""The rounds of a simulation, chunk after chunk: watched, checked, recorded, kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common import interrupts
from fedbandits.common.backend import on_cpu
from fedbandits.problems.base import Problem, check_losses
from fedbandits.results.record import AgentTotals, Curves, Record

from .checkpoint import Checkpoint
from .devices import Spread
from .mixing import Mixer
from .plan import plan
from .progress import Progress
from .rounds import Carry, play_chunk

logger = logging.getLogger("fedbandits")

_HEAVY = 2**24
"""Bytes of a state from which on a chunk waits for the one before to be recorded."""


def play_chunks(
    play: Callable[..., tuple[Carry, Curves, AgentTotals]],
    problem: Problem,
    algorithm: AnyAlgorithm,
    mix: Mixer,
    carry: Carry,
    records: Sequence[Record],
    seed: int,
    where: Spread,
    keeper: Checkpoint | None = None,
    progress: bool | None = None,
    rounds_enough: int | None = None,
) -> Carry:
    """All chunks, from the checkpoint's last if there is one; within `interrupts.calm`.

    Args:
        play: `play_chunk`, or `play_each` for a batch of algorithms.
        problem: the losses.
        algorithm: what each agent does; a batch has its numbers along a first axis.
        mix: how messages are combined.
        carry: the state before round 1, of a batch along a first axis.
        records: what is kept, one for each algorithm; filled in place.
        seed: of the agents' randomness.
        where: how the arrays lie on devices.
        keeper: the checkpoint, which is left to the caller in the end.
        progress: show a progress bar; by default on a terminal only.
        rounds_enough: play no chunk after so many rounds; by default all T are played.

    Returns:
        the carry after the last round.
    """
    chunks = plan(problem, where.runs * len(records))
    end = problem.horizon if rounds_enough is None else rounds_enough
    done, carry = (0, carry) if keeper is None else keeper.load(carry, records)
    if done:
        logger.info("going on after round %d of %d", done, problem.horizon)
    # A copy on the devices: the caller's arrays are not ours to donate.
    carry = where.put(jax.tree.map(lambda x: jax.numpy.array(x, copy=True), carry))
    # To the devices once, not with every chunk.
    mix, traced = where.put_whole((mix, problem if problem.traced else None))
    bar = Progress(type(algorithm).__name__, problem.horizon, done, progress)
    pending: tuple[int, int, Any] | None = None
    # A CPU sets a chunk's memory aside as soon as it is asked for it, not when it comes to it.
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(carry))
    heavy = on_cpu() and size >= _HEAVY

    def settle() -> None:
        """Check and record the chunk that was played last."""
        nonlocal pending
        if pending is None:
            return
        first, rounds, outcome = pending
        pending = None
        outcome = jax.device_get(outcome)
        for h, record in enumerate(records):
            curves, totals = outcome
            if play is not play_chunk:
                curves, totals = jax.tree.map(lambda x, h=h: x[h], outcome)
            _refuse_invalid(problem, first, curves.valid)
            _refuse_nan(algorithm, first, curves.expected)
            record.add(first, curves, totals)
        bar.update(first + rounds - 1)

    def save() -> None:
        """Keep what is done so far.

        Called where `done`, `carry` and `pending` are of one moment. After an error anywhere else,
        or a second Ctrl-C, the last file stands.
        """
        if keeper is not None and done:
            settle()
            keeper.save(done, carry, records)

    try:
        while done < end:
            if interrupts.requested():
                save()
                raise KeyboardInterrupt(stopped(done, problem))
            rounds, block = chunks.after(done)
            losses = traced
            if traced is None:
                try:
                    losses = _block(problem, done + 1, rounds)
                except BaseException:  # a user's function may do anything
                    save()
                    raise
            if heavy:
                settle()
            carry, *outcome = play(
                algorithm,
                mix,
                losses,
                carry,
                np.int32(done + 1),
                np.uint32(seed),
                runs=where.runs,
                rounds=rounds,
                block=block,
                ahead=chunks.ahead,
                checked=problem.traced and problem.check == "during",
                where=where,
            )
            # The chunk before is recorded while the device plays this one.
            settle()
            pending = (done + 1, rounds, outcome)
            done += rounds
            if keeper is not None and keeper.due():
                save()
        settle()
    finally:
        bar.close()
    return carry


def stopped(done: int, problem: Problem) -> str:
    """Where a run was when it was asked to stop."""
    return f"stopped after round {done} of {problem.horizon}"


def _block(problem: Problem, first: int, rounds: int) -> np.ndarray[Any, Any]:
    """The losses of a chunk, made on the host: `[rounds, N, K]`."""
    block = problem.block(first, first + rounds - 1)
    if problem.check == "during":
        check_losses(block, first, problem)
    return block.astype(jax.numpy.result_type(float), copy=False)


def _refuse_invalid(problem: Problem, first: int, valid: np.ndarray[Any, Any]) -> None:
    if not valid.all():
        t = first + int(np.argmin(valid))
        check_losses(problem.block(t, t), t, problem)
        raise ValueError(
            f"{problem.title}: round {t} had losses outside [0, 1] in the compiled run but not "
            "when asked again; the function must be a pure function of the round"
        )


def _refuse_nan(algorithm: AnyAlgorithm, first: int, expected: np.ndarray[Any, Any]) -> None:
    bad = ~np.isfinite(expected).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{type(algorithm).__name__}.distribution is not finite at round "
            f"{first + int(np.argmax(bad))}; look at its rates and at its state"
        )
