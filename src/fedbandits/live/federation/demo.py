"""The section [demo] of a federation's file: losses and pace of a demonstration by `live up`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.common.own_modules import allowing
from fedbandits.config.building import construct
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.config.experiment import Place
from fedbandits.config.reading import read_config

from .federation import Federation

PACE, FASTEST = 0.5, 0.01
"""Mean seconds between two choices of an agent: the default and the minimum."""

MOST_LOSSES = 10**8
"""The largest number of losses of a demonstration, which are held in memory."""

Losses = Callable[[int, int, int], float]
"""A function that returns the loss of (round, agent, arm)."""


def read_demo(path: Path) -> dict[str, Any]:
    """Return the section [demo] of a file; empty if there is none."""
    found: dict[str, Any] = read_config(path).get("demo", {})
    return found


def demo_pace(demo: dict[str, Any]) -> float:
    """Return the mean seconds between two choices of an agent."""
    pace = demo.get("pace", PACE)
    if (
        isinstance(pace, bool)
        or not isinstance(pace, int | float)
        or not (FASTEST <= pace < math.inf)
    ):
        raise ValueError(f"[demo] pace must be seconds, at least {FASTEST}, not {pace!r}")
    return float(pace)


def demo_losses(
    federation: Federation,
    demo: dict[str, Any],
    folder: Path = Path(),
    allow_modules: Sequence[str] = (),
) -> Losses:
    """Return the losses of a demonstration: coins with these means, or a problem.

    The n-th choice of an agent gets its loss of round n; after the last round follows the first. If
    the problem names its agents or arms, the federation must have the same names, in any order.

    Args:
        federation: the agents and arms.
        demo: `means`, one for each arm, or the table of a problem; most problems need `[sim]`.
        folder: of the federation's file; names of files in the table are relative to it.
        allow_modules: names of the modules that the table may name.
    """
    demo = {key: value for key, value in demo.items() if key != "pace"}
    if "means" in demo:
        means = np.asarray(demo["means"], np.float64)
        if means.shape != (len(federation.arms),):
            raise ValueError(f"demo: give {len(federation.arms)} means, one for each arm")
        rng = np.random.default_rng()
        return lambda _, __, arm: float(rng.random() < means[arm])
    problem = _problem(federation, demo, folder, allow_modules)
    agents = _positions(problem.agent_names, federation.members, "agent", "members")
    arms = _positions(problem.arm_names, federation.arms, "arm", "arms")
    table = problem.block(1, problem.horizon)
    return lambda t, agent, arm: float(table[(t - 1) % len(table), agents[agent], arms[arm]])


def _problem(
    federation: Federation, demo: dict[str, Any], folder: Path, allow_modules: Sequence[str]
) -> Any:
    sizes = {"agents": len(federation.members), "arms": len(federation.arms)}
    for key, size in sizes.items():
        if isinstance(demo.get(key), int) and demo[key] != size:
            raise ValueError(
                f"demo: {key} = {demo[key]}, but the federation has {size}; make them equal"
            )
    round_losses = math.prod(sizes.values())
    horizon = demo.get("horizon", 1)
    if isinstance(horizon, int) and horizon * round_losses > MOST_LOSSES:
        raise ValueError(
            f"demo: {horizon * round_losses:,} losses are too many; choose a horizon of at most "
            f"{MOST_LOSSES // round_losses:,}"
        )
    with allowing(allow_modules):
        problem = construct(REGISTRIES["problem"], demo, Place("[demo]", folder, confined=True))
    if [problem.agents, problem.arms] != list(sizes.values()):
        raise ValueError(
            f"demo: the problem has {problem.agents} agents and {problem.arms} arms, and the "
            f"federation {sizes['agents']} and {sizes['arms']}"
        )
    if problem.adaptive:
        raise ValueError(
            f"demo: the losses of {problem.title} depend on the arms of all agents in each round, "
            "and live agents share no rounds; play it with fb.simulate"
        )
    return problem


def _positions(
    of_problem: Sequence[str] | None, ours: Sequence[str], what: str, key: str
) -> list[int]:
    """Return the positions of the federation's names in the problem's."""
    if of_problem is None:
        return list(range(len(ours)))
    for name in ours:
        if name not in of_problem:
            raise ValueError(
                f"demo: the problem has no {what} {name!r}; give the federation {key} = "
                f"[{', '.join(map(json.dumps, of_problem))}], in any order"
            )
    return [of_problem.index(name) for name in ours]
