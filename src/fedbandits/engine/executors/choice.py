"""The choice of an executor for a plan, with the reasons against faster ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.engine.devices import Spread
from fedbandits.engine.stages.pending_messages import Relayed, own_state
from fedbandits.engine.stages.stages import Stages
from fedbandits.problems.base import Problem

from .kernels import Kernels
from .plain import Plain
from .program import Executor
from .tiles import Tiles

Over = Literal["algorithms", "draws"]
"""In what simulations of a group differ: numbers of their algorithms, or draws of the losses."""


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """The facts about a group that executors compare with their abilities.

    Attributes:
        problem: the losses of the first simulation.
        algorithm: the algorithm of the first simulation, set up.
        stages: exchange and conditions.
        state: the state before round 1.
        where: the placement on devices.
        simulations: how many are played together.
        over: in what they differ.
        ahead: whether the losses of a stretch are drawn at once.
    """

    problem: Problem
    algorithm: AnyAlgorithm
    stages: Stages
    state: Any
    where: Spread
    simulations: int
    over: Over | None
    ahead: bool

    @property
    def kind(self) -> str:
        """The name of the algorithm."""
        return type(self.algorithm).__name__

    @property
    def own_state(self) -> Any:
        """The algorithm's own part of the state."""
        return own_state(self.state)

    @property
    def messages_pending(self) -> bool:
        """True if messages stay under way between two rounds."""
        return isinstance(self.state, Relayed)

    @property
    def condition_reason(self) -> str:
        """The reason that an executor gives if it cannot play the conditions."""
        names = " and ".join(condition.name for condition in self.stages.conditions)
        return f"the simulation has {names}"


class ExecutorChoice(NamedTuple):
    """An executor, and why no faster one plays.

    Attributes:
        executor: plays the rounds.
        reasons: why each faster executor does not, by name.
    """

    executor: Executor
    reasons: dict[str, str]

    def describe(self) -> dict[str, Any]:
        """Return the choice as plain data, for the attributes of a result."""
        return {"executor": self.executor.name, "not": self.reasons}

    def __str__(self) -> str:
        reasons = "".join(f"; not by {name}: {reason}" for name, reason in self.reasons.items())
        return f"played by the {self.executor.name} executor{reasons}"


EXECUTORS: tuple[Kernels | Tiles | Plain, ...] = (Kernels(), Tiles(), Plain())
"""The executors, the fastest one first."""


def choose(plan: ExecutionPlan, wanted: str | None = None) -> ExecutorChoice:
    """Return the fastest executor that supports a plan, or the one that is wanted."""
    names = [executor.name for executor in EXECUTORS]
    if wanted not in (None, *names):
        raise ValueError(f"executor must be one of {', '.join(names)}, not {wanted!r}")
    reasons: dict[str, str] = {}
    for executor in EXECUTORS:
        if wanted not in (None, executor.name):
            reasons[executor.name] = f"{wanted} was asked for"
            continue
        reason = executor.supports(plan)
        if reason is None:
            return ExecutorChoice(executor.fitted(plan), reasons)
        reasons[executor.name] = reason
    raise ValueError(f"the {wanted} executor cannot play this: {reasons[str(wanted)]}")
