"""Rehearsals: live agents play a problem, and the result is like that of a simulation."""

from __future__ import annotations

import functools
import json
import multiprocessing
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbandits.arrays import Array
from fedbandits.common import checks, streams
from fedbandits.gossip.base import Gossip
from fedbandits.live.federation.federation import Federation
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem
from fedbandits.results.communication import Communication
from fedbandits.results.record import AgentTotals, Curves
from fedbandits.simulation.liars import Attacks, Liars
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation, conditions_of
from fedbandits.simulation.validation import check_against

from .faults import Faults
from .rehearsal_run import AWAY, RehearsalRun, RunOutcome

if TYPE_CHECKING:
    from fedbandits.engine.group import Group
    from fedbandits.results.result import Result


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A simulation that live agents play, on a network and disks in memory.

    Attributes:
        simulation: the losses, runs, seed and conditions, in float64.
        federation: the agents, in the order of the problem's.
        faults: what goes wrong.
        lockstep: whether every edge makes exactly one exchange a round.
    """

    simulation: Simulation
    federation: Federation
    faults: Faults = field(default_factory=Faults)
    lockstep: bool = False

    @staticmethod
    def of(
        problem: Problem,
        federation: Federation,
        faults: Faults = Faults(),  # noqa: B008 (frozen)
        *,
        runs: int = 1,
        seed: int = 0,
        lockstep: bool = False,
        privacy: RandomisedResponse | None = None,
        liars: Attacks | None = None,
    ) -> Rehearsal:
        """Return the rehearsal of a problem by a federation; see `rehearse` for the arguments."""
        if not isinstance(problem, Problem):
            raise TypeError(f"problem must be one of fb.problems, not {problem!r}")
        if not isinstance(federation, Federation):
            raise TypeError(f"federation must be an fb.live.Federation, not {federation!r}")
        if isinstance(liars, Mapping):
            numbers: dict[Any, int] = {name: v for v, name in enumerate(federation.members)}
            liars = {numbers.get(who, who): attack for who, attack in liars.items()}
        gossip, conditions = federation.gossip, conditions_of(privacy, liars)
        assert isinstance(gossip, Gossip)
        _check_sizes(problem, federation)
        simulation = Simulation(
            problem, federation.algorithm, gossip, runs, seed, "float64", conditions=conditions
        )
        return Rehearsal(simulation, federation, faults, lockstep)

    def __post_init__(self) -> None:
        if not isinstance(self.faults, Faults):
            raise TypeError(f"faults must be an fb.live.Faults, not {self.faults!r}")
        self.faults.check(self.federation.members, self.simulation.problem.horizon)
        if self.lockstep and self.faults:
            raise ValueError("lockstep excludes faults: leave out one of the two")


def _check_sizes(problem: Problem, federation: Federation) -> None:
    if problem.adaptive:
        raise ValueError(
            f"{problem.title} depends on the arms of all agents in every round, and live "
            "agents have no common round; play it with fb.simulate"
        )
    if problem.arms != len(federation.arms):
        raise ValueError(
            f"the problem has {problem.arms} arms, and the federation "
            f"{len(federation.arms)}: {', '.join(federation.arms)}"
        )


def rehearse(
    problem: Problem,
    federation: Federation,
    faults: Faults = Faults(),  # noqa: B008 (frozen)
    *,
    runs: int = 1,
    seed: int = 0,
    lockstep: bool = False,
    against: Literal["current", "final"] = "current",
    processes: int = 1,
    privacy: RandomisedResponse | None = None,
    liars: Attacks | None = None,
) -> Result:
    """Play a problem with live agents, on a network and disks in memory under a virtual clock.

    A round takes a second. Each agent makes its choice of round t at second t plus a constant
    phase, observes its loss at once, and gossips every `federation.gossip_period` seconds.

    The result is like that of `fb.simulate`, so that you can plot and compare both: with the same
    seed, the same random numbers draw the arms. Two things differ. An agent that is away in a round
    does not count in that round's mean; in sums over its own rounds, that mean replaces it. And
    `communication` counts the messages that were sent, including lost ones; bytes that are not
    numbers are divided among the leaves.

    Args:
        problem: the losses.
        federation: the agents, in the order of the problem's agents, and their algorithm.
        faults: the faults of messages, agents and clocks.
        runs: R.
        seed: the seed of the agents' randomness and of the faults.
        lockstep: make exactly one exchange a round on every edge, of the values at its start. The
            agents then play the same arms as `fb.simulate(..., dtype="float64")`.
        against: as in `fb.simulate`.
        processes: number of processes that play runs in parallel, without effect on the result. A
            script that uses more than one needs `if __name__ == "__main__":` around its calls.
        privacy: as in `fb.simulate`, with the same bits.
        liars: as in `simulate`. A liar also reports to its neighbours as often as they allow,
            except in lockstep.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.bernoulli([0.2, 0.8], horizon=20, agents=3)
        >>> shops = fb.live.Federation(["tea", "coffee"], fb.networks.ring(3))
        >>> result = fb.live.rehearse(problem, shops, fb.live.Faults(loss=0.3))
        >>> result.dataset.sizes["agent"], result.config["live"]["faults"]
        (3, {'loss': 0.3})
    """
    check_against(against)
    rehearsal = Rehearsal.of(
        problem,
        federation,
        faults,
        runs=runs,
        seed=seed,
        lockstep=lockstep,
        privacy=privacy,
        liars=liars,
    )
    return rehearse_all([rehearsal], processes)[0].against(against)


def rehearse_all(rehearsals: Sequence[Rehearsal], processes: int = 1) -> list[Result]:
    """Play several rehearsals whose runs share the processes."""
    groups = []

    def runs() -> Iterator[RehearsalRun]:
        for each in rehearsals:
            groups.append(_prepared(each))
            yield from _runs(each)

    most = sum(each.simulation.runs for each in rehearsals)
    played = _in_processes(runs(), min(checks.whole(processes, "processes", least=1), most))
    results = []
    for each, group in zip(rehearsals, groups, strict=True):
        count = each.simulation.runs
        of_this, played = played[:count], played[count:]
        results.append(_result(each, group, of_this))
    return results


def _prepared(rehearsal: Rehearsal) -> Group:
    """Return the simulation as the engine prepares it, for its checks and its record."""
    from fedbandits.engine.preparation import precision, prepare

    with precision("float64"):
        return prepare([rehearsal.simulation], Options(devices=1))


def _runs(rehearsal: Rehearsal) -> list[RehearsalRun]:
    simulation = rehearsal.simulation
    problem, runs, seed = simulation.problem, simulation.runs, simulation.seed
    checks.fits(16 * runs * problem.horizon * problem.agents, f"every play of {runs:,} runs")
    sizes = problem.horizon, runs, problem.agents
    privacy, liars = simulation.condition(RandomisedResponse), simulation.condition(Liars)
    uniforms = _uniforms(streams.ACTIONS, seed, *sizes)
    responses = None if privacy is None else _uniforms(streams.RESPONSES, seed, *sizes)
    attacks: dict[Any, Any] = {}
    if liars is not None:
        attacks = dict(zip(liars.agents, liars.attacks, strict=True))
    return [
        RehearsalRun(
            problem,
            rehearsal.federation,
            rehearsal.faults,
            rehearsal.lockstep,
            seed,
            number,
            uniforms[:, number],
            privacy,
            None if responses is None else responses[:, number],
            attacks,
        )
        for number in range(runs)
    ]


def _uniforms(stream: int, seed: int, horizon: int, runs: int, agents: int) -> NDArray[np.float64]:
    """Return the random numbers of `simulate`, by seed, run, round and agent: `[T + 1, R, N]`."""
    from fedbandits.engine.preparation import precision

    with precision("float64"):
        times = np.arange(1, horizon + 2, dtype=np.int32)
        return np.asarray(_drawing(stream, runs, agents)(np.uint32(seed), times))


@functools.cache  # compiled once for all seeds
def _drawing(stream: int, runs: int, agents: int) -> Callable[[Any, Any], Array]:
    import jax

    def of_round(seed: Array, t: Array) -> Array:
        key = streams.round_key(stream, seed, t)
        return streams.uniforms(key, (runs, agents), np.float64)

    drawn: Callable[[Any, Any], Array] = jax.jit(jax.vmap(of_round, in_axes=(None, 0)))
    return drawn


def _in_processes(runs: Iterable[RehearsalRun], processes: int) -> list[RunOutcome]:
    if processes == 1:
        return [run.play() for run in runs]
    # Spawned, because forking a process that runs JAX may deadlock.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(RehearsalRun.play, map(_picklable, runs)))


def _picklable(run: RehearsalRun) -> RehearsalRun:
    """Return the run; reject one that cannot be sent to another process."""
    try:
        pickle.dumps((run.problem, run.federation))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"this cannot be sent to other processes ({error}); leave processes out, or use "
            "functions that can be imported"
        ) from error
    return run


def _result(rehearsal: Rehearsal, group: Group, played: Sequence[RunOutcome]) -> Result:
    """Return the result of the runs, as that of a simulation."""
    from fedbandits.results.result import Result
    from fedbandits.simulation.building import build_result

    simulation, federation, [record] = rehearsal.simulation, rehearsal.federation, group.records
    curves, totals = _curves(played, list(group.stages.excluded))
    record.add(1, curves, totals)
    for of_agents in (record.agent_incurred, record.agent_expected):
        of_agents[..., list(group.stages.excluded)] = np.nan
    live: dict[str, Any] = {"faults": rehearsal.faults.describe()}
    if rehearsal.lockstep:
        live = {"lockstep": True}
    elif simulation.algorithm.leaves:
        live = {"gossip_period": float(federation.gossip_period), **live}
    recommended = np.stack([run.recommended for run in played])
    result = build_result(simulation, record, recommended, _communication(group, played))
    config = {"live": live} | result.config  # first, since it is what tells results apart
    named = result.dataset.assign_coords(agent=list(federation.members), arm=list(federation.arms))
    return Result(named.assign_attrs(config=json.dumps(config)), simulation.gossip)


def _curves(outcomes: Sequence[RunOutcome], liars: list[int]) -> tuple[Curves, AgentTotals]:
    """Return curves over time, and totals of agents.

    An agent that is away counts as the mean of the others. So does a liar.
    """
    action = np.stack([run.action for run in outcomes], axis=1)  # [T, R, N]
    expected = np.stack([run.expected for run in outcomes], axis=1)
    action[..., liars], expected[..., liars] = AWAY, np.nan
    arm_loss = outcomes[0].arm_loss
    present = action != AWAY
    incurred = np.where(
        present,
        np.take_along_axis(arm_loss, action.reshape(len(action), -1), 1).reshape(action.shape),
        np.nan,
    )
    means = np.nanmean(incurred, axis=2), np.nanmean(expected, axis=2)
    incurred, expected = (
        np.where(present, values, mean[:, :, None])
        for values, mean in zip((incurred, expected), means, strict=True)
    )
    by_agent = expected.mean(axis=1)
    excess = np.cumsum(by_agent - by_agent.mean(axis=1, keepdims=True), axis=0)
    plays = np.stack([(action == arm).sum(axis=2) for arm in range(arm_loss.shape[1])], axis=1)
    curves = Curves(
        means[0],
        means[1],
        arm_loss,
        plays / present.sum(axis=2)[:, None],
        excess.max(axis=1),
        np.ones(len(action), bool),
    )
    return curves, AgentTotals(incurred.sum(axis=0), expected.sum(axis=0))


def _communication(group: Group, played: Sequence[RunOutcome]) -> Communication:
    """Return what an agent really sent in a round, on average."""
    problem = group.first.problem
    rounds = len(played) * problem.horizon * problem.agents
    messages, size = (
        sum(getattr(run, name) for run in played) / rounds for name in ("messages", "bytes")
    )
    numbers = sum(group.sent.values())
    return Communication(
        messages,
        size,
        {name: leaf.kind for name, leaf in group.algorithm.leaves.items()},
        {name: size * of_leaf / numbers for name, of_leaf in group.sent.items()},
    )
