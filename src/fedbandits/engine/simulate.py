"""The verb: play a problem with an algorithm over a gossip network, many runs at once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm, Setting
from fedbandits.arrays import Array, once, over_arms, sample
from fedbandits.common import checks, interrupts
from fedbandits.common.describe import describe
from fedbandits.common.forks import refuse_fork
from fedbandits.common.streams import ACTIONS, round_key, uniforms
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem, check_losses, check_sizes
from fedbandits.results.communication import communication
from fedbandits.results.record import Record, check_runs

from . import pytrees
from .checkpoint import Checkpoint
from .chunks import play_chunks, stopped
from .contract import check_contract
from .devices import one_per_core, spread
from .flooding import first_state, own
from .mixing import Mixer, mixer
from .over_draws import draw_seeds, simulate_over_draws
from .plan import plan
from .purity import check_called, check_traced
from .rounds import Carry, play_chunk

if TYPE_CHECKING:
    from fedbandits.results.result import Result

one_per_core()

DType = Literal["float32", "float64"]

FLOAT32_ROUNDS = 1_000_000
"""The longest horizon on which float32 was measured to be good enough: benchmarks/RESULTS.md."""


@checks.explained
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
    draws: int | None = None,
) -> Result:
    """Play T rounds, `runs` times over, all runs facing the same losses.

    Runs differ in the agents' own randomness, a function of (seed, run, round, agent): two
    algorithms simulated with one seed are paired, and `fb.compare` makes use of it. Intervals are
    over that randomness, on these losses; with `draws` they are over the losses too.

    Args:
        problem: the losses.
        algorithm: what each agent does.
        gossip: the network and its matrix; may be left out for algorithms that send nothing.
        runs: R.
        seed: of the agents' randomness.
        against: regret at time t is against the arm best up to t (`current`, the paper's
            definition), or against the arm best at T (`final`).
        dtype: `float32`, or `float64`, which horizons beyond a million rounds need.
        checkpoint: a directory. If the run is interrupted, or killed, the same call goes on from
            there and ends bit-identical to an undisturbed one on as many devices of the same kind.
        progress: show a progress bar; by default on a terminal only.
        devices: how many of `jax.devices()` to use, or which: runs are spread over them, then
            agents, as many as divide evenly. By default all cores of a CPU (one, if JAX was at
            work before the first simulation), or one accelerator. On another number of devices
            sums round differently, which in float32 flips an arm now and then.
        draws: play on so many draws of the losses, the problem's own and others by seeds made from
            its seed, each `runs` times. The result then has a dimension `draw` in front, is as many
            times as large, and its intervals are over draws. Draws are played one after another.

    Returns:
        the regret curves and what else is worth keeping; see `Result`.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> fb.simulate(problem, fb.FedExp3(), gossip, runs=2).dataset.sizes["run"]
        2
    """
    _check_arguments(problem, algorithm, gossip, against, dtype)
    for doubt in doubts(problem, algorithm.set_up(setting_of(problem, gossip)), dtype):
        warnings.warn(doubt, stacklevel=3)

    def play(losses: Problem, agents_seed: int) -> Result:
        return _simulate(
            *(losses, algorithm, gossip, runs, agents_seed, against, dtype),
            *(checkpoint, progress, devices),
        )

    if draws is None:
        return play(problem, seed)
    check_runs(check_runs(runs, problem) * len(draw_seeds(problem, seed, draws)), problem)
    kept = None
    if checkpoint is not None:
        with precision(dtype):
            start = prepare(problem, algorithm, gossip, runs, seed, against, dtype)
        kept = Checkpoint(checkpoint, {**start.config, "against": against}).path.with_suffix("")
    [found] = simulate_over_draws(lambda *drawn: [play(*drawn)], problem, seed, draws, kept)
    return replace(found, gossip=gossip)


def doubts(problem: Problem, algorithm: AnyAlgorithm, dtype: DType) -> list[str]:
    """What can be played, but is hardly meant; the algorithm is set up."""
    found = []
    unheard = algorithm.rounds_before_learning
    if unheard >= problem.horizon:
        found.append(
            f"{type(algorithm).__name__} learns nothing in its first {unheard:,} rounds, and the "
            f"problem has {problem.horizon:,}; a shorter block, or a longer horizon, helps"
        )
    if dtype == "float32" and problem.horizon > FLOAT32_ROUNDS:
        found.append(
            f"in float32 sums lose digits, and {problem.horizon:,} rounds are more than the "
            f"{FLOAT32_ROUNDS:,} up to which it was measured beside float64; pass "
            'dtype="float64", which takes up to twice as long'
        )
    return found


def _simulate(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None,
    runs: int,
    seed: int,
    against: Literal["current", "final"],
    dtype: DType,
    checkpoint: str | Path | None,
    progress: bool | None,
    devices: int | Sequence[jax.Device] | None,
) -> Result:
    """`simulate` on one draw of the losses."""
    with precision(dtype):
        start = prepare(problem, algorithm, gossip, runs, seed, against, dtype)
        where = spread(devices, runs, problem.agents)
        keeper = None if checkpoint is None else Checkpoint(checkpoint, start.config)
        with interrupts.calm():
            carry = play_chunks(
                *(play_chunk, problem, start.algorithm, start.mix, start.carry, [start.record]),
                *(seed, where, keeper, progress),
            )
            result = finish(start, problem, gossip, carry.state, against)
            if interrupts.requested():
                if keeper is not None:
                    keeper.save(problem.horizon, carry, [start.record])
                raise KeyboardInterrupt(stopped(problem.horizon, problem))
            if keeper is not None:
                keeper.discard()
            return result


class Start(NamedTuple):
    """What a simulation starts from.

    Attributes:
        config: everything that decides the numbers, as plain data.
        algorithm: set up for this network.
        mix: how messages are combined.
        carry: the state before round 1.
        record: what will be kept, empty.
        sent: the bytes of each leaf of one agent's message.
    """

    config: dict[str, Any]
    algorithm: AnyAlgorithm
    mix: Mixer
    carry: Carry
    record: Record
    sent: dict[str, int]


def prepare(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None,
    runs: int,
    seed: int,
    against: str,
    dtype: DType,
) -> Start:
    """Refuse what cannot be simulated; else what is needed to begin."""
    _check_arguments(problem, algorithm, gossip, against, dtype)
    algorithm = algorithm.set_up(setting_of(problem, gossip))
    runs = check_runs(runs, problem)
    seed = checks.seed32(seed)
    size = np.dtype(dtype).itemsize * problem.arms * problem.agents * runs
    checks.fits(size, f"the state of {problem.agents:,} agents in {runs:,} runs")
    with interrupts.calm():  # from here on JAX traces
        pytrees.register(algorithm)
        pytrees.register(problem)
        _check_problem(problem)
        config = configuration(problem, algorithm, gossip, runs, seed, dtype)
        mix = mixer(gossip, algorithm, dtype)
        state = first_state(algorithm, problem.arms, problem.agents, (runs, problem.agents), dtype)
        sent = check_contract(algorithm, mix, state, problem, runs)
    carry = Carry(state, np.zeros(problem.agents, dtype))
    record = Record(problem.horizon, runs, problem.agents, problem.arms)
    return Start(config, algorithm, mix, carry, record, sent)


def setting_of(problem: Problem, gossip: Gossip | None) -> Setting:
    """What every agent is told before round 1."""
    return Setting(problem.arms, problem.agents, gossip, problem.actions)


def configuration(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None,
    runs: int,
    seed: int,
    dtype: DType,
) -> dict[str, Any]:
    """Everything that decides the numbers, the algorithm being set up, as plain data."""
    from fedbandits.common.version import __version__

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


def finish(
    start: Start,
    problem: Problem,
    gossip: Gossip | None,
    state: Any,
    against: Literal["current", "final"],
) -> Result:
    """The result, from a full record and the state after round T."""
    from fedbandits.results.result import build_result

    after, seed = np.int32(problem.horizon + 1), np.uint32(start.config["seed"])
    return build_result(
        start.record,
        np.asarray(_recommend(start.algorithm, own(state), after, seed)),
        start.config,
        communication(gossip, start.algorithm, start.sent),
        against,
        problem.agent_names or (gossip and gossip.network.names) or None,
        problem.arm_names,
        gossip,
        problem.dates,
    )


def precision(dtype: DType) -> AbstractContextManager[Any]:
    """A scope in which JAX computes in `dtype`; the global flag is never touched."""
    refuse_fork()  # here, since whatever plays comes this way
    scope: AbstractContextManager[Any] = jax.enable_x64(dtype == "float64")
    return scope


# Used once, so it is compiled without optimising: that took longer than many a game.
@functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def _recommend(algorithm: AnyAlgorithm, state: Any, t: Array, seed: Array) -> Array:
    """The likeliest arm of round t for every run and agent, `[R, N]`; a random one of equals."""
    p = algorithm.distribution(state, t)
    likeliest = (p >= over_arms("max", p) * (1 - 1e-6)).astype(p.dtype)
    uniform = once(uniforms(round_key(ACTIONS, seed, t), p.shape[1:], p.dtype))
    return sample(likeliest, uniform)


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
    check_sizes(problem.agents, problem.arms, problem.horizon)
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


def _check_problem(problem: Problem) -> None:
    """What can be known of the losses before the run."""
    if problem.traced:
        check_traced(problem)
    elif problem.check == "during":  # they are computed; what is stored is read and checked before
        check_called(problem)
    if problem.check == "before":
        step = plan(problem, 1).rounds
        for first in range(1, problem.horizon + 1, step):
            interrupts.stop_if_requested()
            block = problem.block(first, min(first + step - 1, problem.horizon))
            check_losses(block, first, problem)
