"""The verb: play a problem with an algorithm over a gossip network, many runs at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from fedbandits import checks
from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.arrays import Array, once, sample
from fedbandits.describe import describe
from fedbandits.gossip import Gossip
from fedbandits.problems.base import Problem, check_losses, check_shape
from fedbandits.streams import ACTIONS, round_key, uniforms

from . import pytrees
from .checkpoint import Checkpoint
from .communication import communication
from .contract import check_contract
from .devices import Spread, one_per_core, spread
from .mixing import mixer
from .plan import plan
from .progress import Progress, calm_interrupts
from .record import Record
from .rounds import AgentTotals, Carry, Curves, play_chunk

if TYPE_CHECKING:
    from fedbandits.results import Result

logger = logging.getLogger("fedbandits")

one_per_core()

DType = Literal["float32", "float64"]


def simulate(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None = None,
    runs: int = 10,
    seed: int = 0,
    *,
    against: Literal["current", "final"] = "current",
    dtype: DType = "float32",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    devices: int | Sequence[jax.Device] | None = None,
) -> Result:
    """Play T rounds, `runs` times over, all runs facing the same losses.

    Runs differ in the agents' own randomness, a function of (seed, run, round, agent): two
    algorithms simulated with one seed are paired, and `fb.compare` makes use of it.

    Args:
        problem: the losses.
        algorithm: what each agent does.
        gossip: the network and its matrix; may be left out for algorithms that send nothing.
        runs: R.
        seed: of the agents' randomness.
        against: regret at time t is against the arm best up to t (`current`, the paper's
            definition), or against the arm best at T (`final`).
        dtype: `float32` or `float64`.
        checkpoint: a directory. If the run is interrupted, or killed, the same call goes on from
            there and ends bit-identical to an undisturbed one.
        progress: show a progress bar; by default on a terminal only.
        devices: how many of `jax.devices()` to use, or which: runs are spread over them, then
            agents, as many as divide evenly. By default all cores of a CPU, or one accelerator.

    Returns:
        the regret curves and what else is worth keeping; see `Result`.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> fb.simulate(problem, fb.FedExp3(), gossip, runs=2).dataset.sizes["run"]
        2
    """
    from fedbandits.results import build_result

    _check_arguments(problem, algorithm, gossip, against, dtype)
    runs = checks.whole(runs, "runs", least=1)
    seed = checks.seed32(seed)
    pytrees.register(algorithm)
    pytrees.register(problem)
    with precision(dtype):
        _check_problem(problem)
        config = _configuration(problem, algorithm, gossip, runs, seed, dtype)
        mix = mixer(gossip, algorithm, dtype)
        carry, record = _start(problem, algorithm, runs, dtype)
        sent = check_contract(algorithm, mix, carry.state, problem, runs)
        keeper = None if checkpoint is None else Checkpoint(checkpoint, config)
        where = spread(devices, runs, problem.agents)
        carry = _play(problem, algorithm, mix, carry, record, where, seed, keeper, progress)
        after = np.int32(problem.horizon + 1)
        recommended = np.asarray(_recommend(algorithm, carry.state, after, np.uint32(seed)))
    return build_result(
        record,
        recommended,
        config,
        communication(gossip, algorithm, sent),
        against,
        problem.agent_names or (gossip and gossip.network.names) or None,
        problem.arm_names,
        gossip,
    )


def precision(dtype: DType) -> AbstractContextManager[Any]:
    """A scope in which JAX computes in `dtype`; the global flag is never touched."""
    scope: AbstractContextManager[Any] = jax.enable_x64(dtype == "float64")
    return scope


def _start(
    problem: Problem, algorithm: AnyAlgorithm, runs: int, dtype: DType
) -> tuple[Carry, Record]:
    batch = (runs, problem.agents)
    state = algorithm.init(problem.arms, problem.agents, batch, np.dtype(dtype))
    carry = Carry(state, np.zeros(problem.agents, dtype))
    return carry, Record(problem.horizon, runs, problem.agents, problem.arms)


def _play(
    problem: Problem,
    algorithm: AnyAlgorithm,
    mix: Any,
    carry: Carry,
    record: Record,
    where: Spread,
    seed: int,
    keeper: Checkpoint | None,
    progress: bool | None,
) -> Carry:
    """All chunks, from the checkpoint's last if there is one."""
    chunks = plan(problem, where.runs)
    done, carry = (0, carry) if keeper is None else keeper.load(carry, record)
    if done:
        logger.info("going on after round %d of %d", done, problem.horizon)
    # A copy on the devices: the caller's arrays are not ours to donate.
    carry = where.put(jax.tree.map(lambda x: jax.numpy.array(x, copy=True), carry))
    # To the devices once, not with every chunk.
    mix, traced = where.put_whole((mix, problem if problem.traced else None))
    bar = Progress(type(algorithm).__name__, problem.horizon, done, progress)
    pending: tuple[int, Curves, AgentTotals] | None = None

    def settle() -> None:
        """Check and record the chunk that was played last."""
        nonlocal pending
        if pending is None:
            return
        first, *outcome = pending
        pending = None
        curves, totals = jax.device_get(tuple(outcome))
        _refuse_invalid(problem, first, curves.valid)
        _refuse_nan(algorithm, first, curves.expected)
        record.add(first, curves, totals)
        bar.update(first + len(curves.valid) - 1)

    try:
        with calm_interrupts() as interruption:
            while done < problem.horizon:
                rounds, block = chunks.after(done)
                losses = _block(problem, done + 1, rounds) if traced is None else traced
                carry, curves, totals = play_chunk(
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
                pending = (done + 1, curves, totals)
                done += rounds
                if interruption.requested:
                    raise KeyboardInterrupt(f"stopped after round {done} of {problem.horizon}")
                if keeper is not None and keeper.due():
                    settle()
                    keeper.save(done, carry, record)
            settle()
    except BaseException:
        # Where a chunk failed, the state before it was donated: the last file stands.
        if keeper is not None and pending is not None and not _donated(carry):
            settle()
            keeper.save(done, carry, record)
        raise
    finally:
        bar.close()
    if keeper is not None:
        keeper.discard()
    return carry


def _donated(carry: Carry) -> bool:
    return any(x.is_deleted() for x in jax.tree.leaves(carry))


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


@jax.jit
def _recommend(algorithm: AnyAlgorithm, state: Any, t: Array, seed: Array) -> Array:
    """The likeliest arm of round t for every run and agent, `[R, N]`; a random one of equals."""
    p = algorithm.distribution(state, t)
    likeliest = (p >= p.max(axis=0) * (1 - 1e-6)).astype(p.dtype)
    uniform = once(uniforms(round_key(ACTIONS, seed, t), p.shape[1:], p.dtype))
    return sample(likeliest, uniform)


def _configuration(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None,
    runs: int,
    seed: int,
    dtype: DType,
) -> dict[str, Any]:
    """Everything that decides the numbers, as plain data."""
    from fedbandits import __version__

    network = gossip and gossip.network
    return {
        "version": __version__,
        "problem": problem.describe(),
        "network": network and {"name": network.family, **describe(network.parameters)},
        "gossip": gossip and {"name": gossip.rule, **describe(gossip.parameters)},
        "algorithm": describe(algorithm),
        "runs": runs,
        "seed": seed,
        "dtype": dtype,
    }


def _check_arguments(
    problem: Problem, algorithm: AnyAlgorithm, gossip: Gossip | None, against: str, dtype: str
) -> None:
    for value, kind, name in (
        (problem, Problem, "problem"),
        (algorithm, AnyAlgorithm.__origin__, "algorithm"),  # type: ignore[attr-defined]
    ):
        if not isinstance(value, kind):
            if isinstance(value, type):
                raise TypeError(f"{name} must be an object: write {value.__name__}()")
            hint = "; for an array use fb.problems.from_tensor" if name == "problem" else ""
            raise TypeError(
                f"{name} must be of type {kind.__name__}, not {type(value).__name__}{hint}"
            )
    if gossip is not None and not isinstance(gossip, Gossip):
        raise TypeError(
            f"gossip must be a Gossip such as fb.gossip.max_degree(network), not "
            f"{type(gossip).__name__}"
        )
    if gossip is None and algorithm.leaves:
        raise ValueError(
            f"{type(algorithm).__name__} sends messages and needs a gossip, for example "
            "fb.gossip.max_degree(network)"
        )
    if gossip is not None and gossip.network.agents != problem.agents:
        raise ValueError(
            f"the problem has {problem.agents} agents but the network has {gossip.network.agents}"
        )
    _check_names(problem, gossip)
    if against not in ("current", "final"):
        raise ValueError(f"against must be 'current' or 'final', not {against!r}")
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', not {dtype!r}")


def _check_names(problem: Problem, gossip: Gossip | None) -> None:
    """Agents with names on both sides must be the same agents in the same order."""
    theirs = gossip.network.names if gossip is not None else None
    if problem.agent_names is None or theirs is None or problem.agent_names == theirs:
        return
    place = next(v for v, name in enumerate(theirs) if name != problem.agent_names[v])
    raise ValueError(
        f"agent {place} is {problem.agent_names[place]!r} in the problem but {theirs[place]!r} in "
        "the network; number them alike, for example with "
        "fb.problems.from_table(..., agents=network.names)"
    )


# Traced once for each kind of problem and size, not with every simulation.
_losses = jax.jit(lambda problem, t: problem.losses(t))


def _check_problem(problem: Problem) -> None:
    """What can be known of the losses before the run."""
    if problem.traced:
        try:
            shape = _losses.eval_shape(problem, jax.ShapeDtypeStruct((), np.int32)).shape
        except TypeError as error:  # among them JAX's own, of plain NumPy or Python on a traced t
            raise TypeError(
                f"{problem.title} cannot be traced by JAX: {str(error).partition(chr(10))[0]} For "
                "losses in plain Python or NumPy, pass host=True to fb.problems.from_function"
            ) from error
        check_shape(shape, problem)
    if problem.check == "before":
        step = plan(problem, 1).rounds
        for first in range(1, problem.horizon + 1, step):
            block = problem.block(first, min(first + step - 1, problem.horizon))
            check_losses(block, first, problem)
