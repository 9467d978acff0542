"""Validation of the parts of a simulation: types, sizes and names, on NumPy alone."""

from __future__ import annotations

from typing import Any

from fedbandits.algorithms.base import AnyAlgorithm, check_class
from fedbandits.common import checks
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem, check_sizes


def check_arguments(
    problem: Problem, algorithm: AnyAlgorithm, gossip: Gossip | None, dtype: str
) -> None:
    """Validate the arguments, starting with the mistake that is easiest to fix."""
    _check_type(problem, Problem, "problem", "; for an array use fb.problems.from_tensor")
    _check_type(algorithm, AnyAlgorithm.__origin__, "algorithm")  # type: ignore[attr-defined]
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


def _check_type(value: Any, kind: type, name: str, hint: str = "") -> None:
    if isinstance(value, kind):
        return
    if isinstance(value, type):
        raise TypeError(f"{name} must be an object: write {value.__name__}()")
    raise TypeError(f"{name} must be of type {kind.__name__}, not {type(value).__name__}{hint}")


def _check_names(problem: Problem, gossip: Gossip | None) -> None:
    """Reject a problem and a network that name their agents differently."""
    theirs = gossip.network.names if gossip is not None else None
    if problem.agent_names is None or theirs is None or problem.agent_names == theirs:
        return
    place = next(v for v, name in enumerate(theirs) if name != problem.agent_names[v])
    raise ValueError(
        f"agent {place} is {problem.agent_names[place]!r} in the problem but {theirs[place]!r} in "
        "the network; number them alike, for example with "
        "fb.problems.from_table(..., agents=network.names)"
    )


def check_links(algorithm: AnyAlgorithm, gossip: Gossip | None) -> None:
    """Reject algorithms that need links without faults if the gossip's links have faults."""
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


def check_against(against: str) -> None:
    """Reject names of arms that regret cannot be compared with."""
    if against not in ("current", "final"):
        raise ValueError(f"against must be 'current' or 'final', not {against!r}")
