"""The bounds of each theorem for runs of the algorithms that it covers.

An algorithm names its theorem in `Algorithm.theorem`. A result file contains all that is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedbandits import algorithms, schedules
from fedbandits.gossip import acceleration as accelerated
from fedbandits.gossip.base import Gossip

from . import bounds

SCHEDULES = {kind.__name__: kind for kind in (schedules.Constant, schedules.Power)}
"""Rates of the round alone, which the sum before tuning can be computed for."""


class RunFacts(NamedTuple):
    """The facts of a run that theorems depend on.

    Attributes:
        gossip: the network and its matrix.
        arms: K.
        horizon: T.
        algorithm: its name and parameters, as plain data.
        cost: c, where the algorithm saw noisy bits, whose regret is that of the losses over c; 1
            where it saw the losses.
        liars: whether some agents lie.
    """

    gossip: Gossip
    arms: int
    horizon: int
    algorithm: Mapping[str, Any]
    cost: float = 1.0
    liars: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """K and T, for functions of `bounds`."""
        return {"arms": self.arms, "horizon": self.horizon}


class Row(NamedTuple):
    """A bound, with its conditions or why it is vacuous."""

    value: float
    remark: str


def _always(run: RunFacts) -> bool:  # noqa: ARG001
    return True


@dataclass(frozen=True)
class Theorem:
    """An upper bound on the regret of one kind of algorithm.

    Attributes:
        rows: gives its bounds for a run, by name.
        applies: whether it is about this run.
        any_rounds: whether its proof covers matrices that are drawn again in every round, with σ2
            in the mean square.
        curve: its bound by gossip, K and T, if it is drawn over time.
        title: its name in plots.
    """

    rows: Callable[[RunFacts], dict[str, Row]]
    applies: Callable[[RunFacts], bool] = _always
    any_rounds: bool = False
    curve: Callable[..., float] | None = None
    title: str = ""


def unproved(run: RunFacts) -> str | None:
    """Return why no upper bound holds for any algorithm; None if one may hold."""
    if run.liars:
        return "none is known where agents lie"
    if run.gossip.limit < math.inf:
        return "none is known where differences between neighbours are clipped"
    return None


def theorem_of(run: RunFacts) -> Theorem | None:
    """Return the theorem that applies to a run, or None."""
    kind = algorithms.REGISTRY.get(run.algorithm["name"])
    if kind is None or kind.theorem is None or unproved(run) is not None:
        return None
    found = THEOREMS[kind.theorem]
    if run.gossip.faults is not None and not (found.any_rounds and run.gossip.faults.theorem_holds):
        return None
    return found if found.applies(run) else None


def _remembers(run: RunFacts) -> bool:
    """Return whether sums are of all rounds, as the proof assumes."""
    return run.algorithm.get("memory") is None


def _doubly_adversarial(run: RunFacts) -> dict[str, Row]:
    rates = bounds.theorem_rates(run.gossip, **run.sizes)
    value = bounds.upper_bound(run.gossip, **run.sizes)
    needed = bounds.horizon_needed(run.gossip, arms=run.arms)
    assumed = "γ_T <= 1 holds"
    if rates.exploration_at_horizon > 1:
        assumed = f"γ_T <= 1 does not hold before T = {needed:,.0f}"
    remark = f"with the theorem's rates; {assumed}"
    rows = {"Theorem 3, upper bound": _row(value, remark, run)}
    run_rates = _own_rates(run)
    if run_rates is not None:
        value = bounds.upper_bound_before_tuning(run.gossip, **run.sizes, **run_rates)
        rows["Theorem 3 before tuning"] = _row(value, "with the rates of this run", run)
    return rows


def _own_rates(run: RunFacts) -> dict[str, Any] | None:
    """Return the rates of a run if they depend on the round alone, else None."""
    rates = {key: dict(run.algorithm[key]) for key in ("learning_rate", "exploration")}
    names = {key: rate.pop("name") for key, rate in rates.items()}
    if not set(names.values()) <= set(SCHEDULES):
        return None
    return {key: SCHEDULES[names[key]](**rate) for key, rate in rates.items()}


def _full_information(run: RunFacts) -> dict[str, Row]:
    value = bounds.upper_bound_full_information(run.gossip, **run.sizes)
    return {"upper bound, full information": _row(value, "with the rate of from_theorem", run)}


def _block_gossip(run: RunFacts) -> dict[str, Row]:
    value = bounds.block_gossip_bound(run.gossip, **run.sizes)
    block = bounds.block_gossip_rates(run.gossip, **run.sizes).block
    remark = f"as its paper states it, with B = {block:,} and the other constants of from_theorem"
    return {"upper bound of BlockGossip": _row(value, remark, run)}


def _block_gossip_applies(run: RunFacts) -> bool:
    """Return whether the theorem covers this regulariser and this matrix."""
    if run.algorithm["regulariser"] != "minimax" or run.gossip.random:
        return False
    return accelerated.positive_semidefinite(run.gossip)


def _delayed(run: RunFacts) -> dict[str, Row]:
    delay = run.algorithm["hops"]
    value = bounds.delayed_ftrl_bound(**run.sizes, delay=delay)
    remark = f"one agent, a delay of {delay}"
    return {"Zimmert and Seldin, upper bound": _row(value, remark, run)}


def _row(value: float, remark: str, run: RunFacts) -> Row:
    if run.cost > 1:
        value, remark = value * run.cost, f"{remark}; times c = {run.cost:.4g}: bits for losses"
    return Row(value, remark if value < run.horizon else f"{remark}; vacuous: above T")


THEOREMS: Mapping[str, Theorem] = {
    "doubly adversarial": Theorem(
        _doubly_adversarial,
        _remembers,
        any_rounds=True,
        curve=bounds.upper_bound,
        title="upper bound (Theorem 3, its rates)",
    ),
    "full information": Theorem(
        _full_information,
        any_rounds=True,
        curve=bounds.upper_bound_full_information,
        title="upper bound (full information)",
    ),
    "block gossip": Theorem(
        _block_gossip,
        _block_gossip_applies,
        curve=bounds.block_gossip_bound,
        title="upper bound (BlockGossip, its constants)",
    ),
    "delayed": Theorem(_delayed, lambda run: run.gossip.network.agents == 1),
}
"""By what `Algorithm.theorem` calls them."""
