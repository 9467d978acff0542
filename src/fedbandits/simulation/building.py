"""The result of a simulation, from what was recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.results.result import FORMAT, Result, Unbuilt

if TYPE_CHECKING:
    from fedbandits.results.communication import Communication
    from fedbandits.results.record import Record
    from fedbandits.results.snapshots import Snapshots

    from .simulation import Simulation


def build_result(
    simulation: Simulation,
    record: Record,
    recommended: np.ndarray[Any, Any],
    sent: Communication,
    snapshots: Snapshots | None = None,
    played: Mapping[str, Any] | None = None,
) -> Result:
    """Return the result of a simulation from a full record.

    Args:
        simulation: the simulation that was played.
        record: its curves and totals.
        recommended: the arm that each agent would most likely play next, `[R, N]`.
        sent: messages and bytes.
        snapshots: the snapshots of every agent, if any.
        played: how the engine played it: executor, devices, group.
    """
    problem, gossip = simulation.problem, simulation.gossip
    agent_names = problem.agent_names or (gossip and gossip.network.names) or None
    arm_names, dates = problem.arm_names, problem.dates
    runs, agents = recommended.shape
    arms = record.arm_loss.shape[1]
    own_losses = record.arm_loss.ndim == 3
    # One value for all runs, or one for each.
    best = record.arm_loss.min(axis=1).reshape(len(record.times), -1)
    spent = record.expected.mean(axis=1) + record.worst_excess
    data = Unbuilt(
        {
            "regret": (("run", "time"), (record.incurred - best).T),
            "expected_regret": (("run", "time"), (record.expected - best).T),
            "worst_regret": ("time", spent - best.mean(axis=1)),
            "agent_regret": (("run", "agent"), record.agent_incurred - best[-1][:, None]),
            "agent_expected_regret": (("run", "agent"), record.agent_expected - best[-1][:, None]),
            "arm_loss": (
                (("run", "time", "arm"), record.arm_loss.transpose(2, 0, 1))
                if own_losses
                else (("time", "arm"), record.arm_loss)
            ),
            **({"round_loss": _of_rounds(record)} if len(record.round_loss) else {}),
            "arm_frequency": (
                ("run", "time", "arm"),
                (record.plays / record.times[:, None, None]).transpose(2, 0, 1),
            ),
            "recommended_arm": (("run", "agent"), recommended),
            **({} if snapshots is None else snapshots.variables()),
        },
        coords={
            "run": np.arange(runs),
            "time": record.times,
            "agent": np.arange(agents) if agent_names is None else list(agent_names),
            "arm": np.arange(arms) if arm_names is None else list(arm_names),
            **({} if dates is None else {"date": ("time", dates[record.times - 1])}),
            **({} if snapshots is None else {"snapshot": snapshots.times}),
        },
        attrs={
            "fedbandits_format": FORMAT,
            "config": json.dumps(simulation.describe()),
            "communication": json.dumps(sent._asdict()),
            "against": "current",
            **({} if played is None else {"played": json.dumps(played)}),
        },
    )
    return Result(data, gossip)  # type: ignore[arg-type]


def _of_rounds(record: Record) -> tuple[tuple[str, ...], np.ndarray[Any, Any]]:
    """Return dimensions and values of `round_loss`."""
    if record.round_loss.ndim == 3:
        return ("run", "round", "arm"), record.round_loss.transpose(2, 0, 1)
    return ("round", "arm"), record.round_loss
