"""One preparation: what turns a problem, an algorithm and a gossip into something playable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm, Setting, check_class
from fedbandits.attacks import Attack
from fedbandits.common import checks, interrupts, version
from fedbandits.common.backend import playing_on, refuse_fork
from fedbandits.common.describe import describe
from fedbandits.common.own_modules import sources_of
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem, check_losses, check_sizes
from fedbandits.results.record import Record, check_runs
from fedbandits.results.snapshots import Snapshots, snapshot_rounds

from . import pytrees
from .checks.contract import check_contract
from .checks.purity import check_adaptive, check_called, check_traced
from .chunk_sizes import chunking
from .compile_cache import keep_compiled_programs
from .devices import Spread, one_per_core, spread
from .executors.chunk import Carry
from .mixing.mixer import mixer
from .stages.adaptive_losses import first_memory
from .stages.conditions import Conditions
from .stages.liars import Liars, check_entries, checked_liars
from .stages.pending_messages import first_state, own_state

one_per_core()
keep_compiled_programs()

DType = Literal["float32", "float64"]
Devices = int | Sequence[jax.Device] | None
Recorded = Literal["agents"] | None


class Game(NamedTuple):
    """What can be played: checked, set up, and before its first round.

    Attributes:
        problem: the losses.
        gossip: the network and its matrix; None where nothing is sent.
        algorithm: set up for this problem and network.
        conditions: how messages are combined, who lies, which losses are blurred.
        carry: the state before round 1.
        record: what will be kept, empty.
        sent: the bytes of each leaf of one agent's message.
        config: everything that decides the numbers, as plain data.
        where: how the arrays lie on devices.
        snapshots: what will be kept of every agent, empty; None where nothing is.
    """

    problem: Problem
    gossip: Gossip | None
    algorithm: AnyAlgorithm
    conditions: Conditions
    carry: Carry
    record: Record
    sent: dict[str, int]
    config: dict[str, Any]
    where: Spread
    snapshots: Snapshots | None = None

    @property
    def seed(self) -> int:
        """Of the agents' randomness."""
        return int(self.config["seed"])

    @property
    def records(self) -> list[Record | Snapshots]:
        """All that is filled while it is played, and kept in a checkpoint."""
        return [self.record] if self.snapshots is None else [self.record, self.snapshots]

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint is known by: what decides the numbers, and which of them are kept."""
        if self.snapshots is None:
            return self.config
        return {**self.config, "snapshots": len(self.snapshots.times)}


def prepare(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None,
    runs: int,
    seed: int,
    *,
    dtype: DType = "float32",
    devices: Devices = None,
    privacy: RandomisedResponse | None = None,
    liars: Liars | None = None,
    record: Recorded = None,
    draws: int | None = None,
) -> Game:
    """Refuse what cannot be played; else what is needed to begin. Within `precision`.

    Args:
        problem: the losses.
        algorithm: what each agent does.
        gossip: the network and its matrix; None where nothing is sent.
        runs: R.
        seed: of the agents' randomness.
        dtype: `float32` or `float64`.
        devices: as in `simulate`.
        privacy: as in `simulate`.
        liars: as in `simulate`.
        record: as in `simulate`.
        draws: of how many this is one; snapshots of all of them have to fit.
    """
    check_arguments(problem, algorithm, gossip, dtype)
    _check_links(gossip, algorithm)
    check_privacy(privacy, algorithm)
    lying = checked_liars(liars, problem, algorithm, gossip)
    algorithm = algorithm.set_up(setting_of(problem, gossip))
    runs = check_runs(runs, problem)
    seed = checks.seed32(seed)
    snapshots = _snapshots(record, problem, runs, draws or 1)
    size = np.dtype(dtype).itemsize * problem.arms * problem.agents * runs
    checks.fits(size, f"the state of {problem.agents:,} agents in {runs:,} runs")
    where = spread(devices, runs, problem.agents)
    with interrupts.calm(), playing_on(where.platform):  # from here on JAX traces
        pytrees.register(algorithm)
        pytrees.register(problem)
        memory = first_memory(problem, runs, dtype)
        _check_problem(problem, memory)
        mix = mixer(gossip, algorithm, dtype, where.mesh.size)
        conditions = Conditions(mix, privacy, tuple(lying), tuple(lying.values()))
        pytrees.register(conditions)
        for attack in conditions.attacks:
            pytrees.register(attack)
        batch = (runs, problem.agents)
        state = first_state(algorithm, mix, problem.arms, problem.agents, batch, dtype)
        check_entries(lying, algorithm.message(own_state(state)) if lying else {})
        sent = check_contract(algorithm, conditions, state, problem, runs)
        config = configuration(problem, algorithm, gossip, runs, seed, dtype, privacy, lying)
    return Game(
        problem,
        gossip,
        algorithm,
        conditions,
        Carry(state, np.zeros(problem.agents, dtype), memory),
        Record(
            problem.horizon,
            runs,
            problem.agents,
            problem.arms,
            own_losses=problem.adaptive,
            dtype=dtype,
        ),
        sent,
        config,
        where,
        snapshots,
    )


def _snapshots(record: Recorded, problem: Problem, runs: int, draws: int) -> Snapshots | None:
    if record is None:
        return None
    if record != "agents":
        raise ValueError(f'record must be "agents" or None, not {record!r}')
    times = snapshot_rounds(problem, runs * draws)
    return Snapshots(times, runs, problem.agents, problem.arms)


def precision(dtype: DType) -> AbstractContextManager[Any]:
    """A scope in which JAX computes in `dtype`; the global flag is never touched."""
    refuse_fork()  # here, since whatever plays comes this way
    scope: AbstractContextManager[Any] = jax.enable_x64(dtype == "float64")
    return scope


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
    privacy: RandomisedResponse | None = None,
    liars: Mapping[int, Attack] | None = None,
) -> dict[str, Any]:
    """Everything that decides the numbers, the algorithm being set up, as plain data."""
    network = gossip and gossip.network
    found = {
        "version": version.__version__,
        "problem": problem.describe(),
        "network": network and {"name": network.family, **describe(network.parameters)},
        "gossip": gossip and {"name": gossip.rule, **describe(gossip.parameters)},
        "algorithm": describe(algorithm),
        "runs": runs,
        "seed": seed,
        "dtype": dtype,
    }
    own = sources_of(problem, algorithm)
    if own:  # modules that a configuration has named
        found["own"] = own
    if privacy is not None:
        found["privacy"] = privacy.describe()
    if liars:
        found["liars"] = describe(liars)
    return found


def check_arguments(
    problem: Problem, algorithm: AnyAlgorithm, gossip: Gossip | None, dtype: str
) -> None:
    """Refuse what is no game, in the order in which a user would mend it."""
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
    checks.frozen_dataclass(type(problem))
    check_class(type(algorithm))
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
            f"the problem has {problem.agents} agents but the network has "
            f"{gossip.network.agents}; make one of as many, such as "
            f"fb.networks.ring({problem.agents})"
        )
    check_sizes(problem.agents, problem.arms, problem.horizon)
    _check_names(problem, gossip)
    # A NumPy dtype equals its name, but result files cannot hold it.
    if not isinstance(dtype, str) or dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', not {dtype!r}")


def _check_links(gossip: Gossip | None, algorithm: AnyAlgorithm) -> None:
    """Refuse algorithms that need more of their links than bad ones give."""
    if gossip is None or gossip.faults is None:
        return
    name = type(algorithm).__name__
    floods = [leaf for leaf, how in algorithm.leaves.items() if how.combine == "flood"]
    if floods:
        raise ValueError(
            f"{name} floods {', '.join(floods)}: every record is expected a fixed number of rounds "
            "later, and none is sent twice, so it has no answer to lost messages. Take an "
            "algorithm that averages, such as fb.FedExp3(), or a gossip without faults"
        )
    if gossip.faults.rule == "flow" and algorithm.common_round is not None:
        raise ValueError(
            f"rule 'flow' brings what was lost in later rounds, but {name} needs a round in "
            f"common: {algorithm.common_round}. Take rule 'symmetric'"
        )


def check_privacy(privacy: Any, algorithm: AnyAlgorithm) -> None:
    """Refuse what blurs no losses, and algorithms that see more than a bit would hide."""
    if privacy is None:
        return
    if not isinstance(privacy, RandomisedResponse):
        raise TypeError(
            f"privacy must be one such as fb.privacy.randomised_response(1.0), not {privacy!r}"
        )
    if algorithm.feedback == "full":
        raise ValueError(
            f"{type(algorithm).__name__} sees the losses of all arms, and one noisy bit a round "
            "cannot stand for them; take an algorithm with bandit feedback, such as fb.FedExp3()"
        )


def check_against(against: str) -> None:
    """Refuse a regret against anything but the arms that are known by name."""
    if against not in ("current", "final"):
        raise ValueError(f"against must be 'current' or 'final', not {against!r}")


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


def _check_problem(problem: Problem, memory: Any) -> None:
    """What can be known of the losses before the run."""
    if problem.adaptive:
        check_adaptive(problem, memory)
    elif problem.traced:
        check_traced(problem)
    elif problem.check == "during":  # they are computed; what is stored is read and checked before
        check_called(problem)
    if problem.check == "before":
        step = chunking(problem, 1).rounds
        for first in range(1, problem.horizon + 1, step):
            interrupts.stop_if_requested()
            losses = problem.block(first, min(first + step - 1, problem.horizon))
            check_losses(losses, first, problem)
