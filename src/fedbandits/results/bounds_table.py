"""What the paper's theorems say of a run: its bounds beside what was measured."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # at once: this module is loaded only where bounds are asked for

from fedbandits import gossip, networks, schedules
from fedbandits.common.describe import describe
from fedbandits.common.statistics import band
from fedbandits.gossip import acceleration as accelerated
from fedbandits.theory import bounds

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip

    from .result import Result

_POINTS = 40
"""Rounds at which a bound is computed for a plot."""
_REMARK = 48
"""Characters of a remark in a printed line."""
_SCHEDULES = {kind.__name__: kind for kind in (schedules.Constant, schedules.Power)}
"""Rates of the round alone, which the sum before tuning can be computed for."""


def gossip_of(result: Result) -> Gossip:
    """The gossip of a result: its own, or made anew from the configuration of a loaded one."""
    if result.gossip is not None:
        return result.gossip
    network, rule = result.config["network"], result.config["gossip"]
    if network is None or rule is None:
        raise ValueError(
            f"{result.label} was simulated without a gossip, and bounds need a network; pass one, "
            "for example bounds=fb.gossip.max_degree(network)"
        )
    try:
        graph = _named(networks.REGISTRY, network)
        made: Gossip = _named(gossip.REGISTRY, rule, graph)
    except (KeyError, TypeError):
        raise ValueError(
            f"the result file names the network {network['name']} and the gossip {rule['name']}, "
            "but holds neither; pass the gossip, as in result.plot(bounds=gossip)"
        ) from None
    return made


def checked(result: Result, given: Gossip) -> Gossip:
    """A gossip given for a result, refused if another one was simulated."""
    ours = {
        "network": {"name": given.network.family, **describe(given.network.parameters)},
        "gossip": {"name": given.rule, **describe(given.parameters)},
    }
    for what, mine in ours.items():
        theirs = result.config[what]
        if theirs is not None and theirs != mine:
            raise ValueError(f"the result was simulated with the {what} {theirs}, not {mine}")
    agents = result.dataset.sizes["agent"]
    if given.network.agents != agents:
        raise ValueError(
            f"the result has {agents} agents but the network has {given.network.agents}"
        )
    return given


def _named(registry: Mapping[str, Any], table: Mapping[str, Any], *given: Any) -> Any:
    return registry[table["name"]](*given, **{k: v for k, v in table.items() if k != "name"})


class BoundsTable(pd.DataFrame):
    """A table with the columns `value` and `remark` that prints its remarks whole.

    pandas cuts texts off at 50 characters; here they go on in the next line.
    """

    def __repr__(self) -> str:
        names, values = [*map(str, self.index)], [*map(amount, self["value"])]
        left, middle = (max(map(len, column), default=0) for column in (names, values))
        margin = "\n" + " " * (left + middle + 4)
        return "\n".join(
            f"{name:<{left}}  {value:>{middle}}  {margin.join(textwrap.wrap(remark, _REMARK))}"
            for name, value, remark in zip(names, values, self["remark"], strict=True)
        )

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return self.to_html(float_format=amount)


def amount(value: float) -> str:
    """A number of any size, to read."""
    return f"{value:,.2f}" if value < 1e6 else f"{value:,.3g}"


def bounds_table(result: Result, matrix: Gossip) -> BoundsTable:
    """Measured regret, the lower bounds, and the upper bounds of this kind of algorithm at T.

    Returns:
        by name: `value`, and in `remark` what it holds for or why it says nothing.
    """
    data, network = result.dataset, matrix.network
    sizes = _sizes(result)
    worst = result.worst_index
    rows: dict[str, tuple[float, str]] = {
        "mean agent": _measured(data["regret"].isel(time=-1)),
        f"worst agent ({result.worst_agent}), expected": _measured(
            data["agent_expected_regret"].isel(agent=worst)
        ),
        "uniform play": (
            result.uniform_regret,
            "exact, on these losses" if result.sample[0] == "run" else "mean over draws",
        ),
        "Theorem 1, lower bound, full information": (
            bounds.lower_bound_full_information(network, **sizes),
            f"for the worst losses, some agent, large T and K; Δ̃ = "
            f"{bounds.cluster_distance(network):.3g}",
        ),
        "Theorem 2, lower bound, bandit feedback": (
            bounds.lower_bound_bandit(network, **sizes, agent=worst),
            "order of growth, for arbitrary losses: the paper gives no constant",
        ),
    }
    rows |= _upper(result, matrix)
    return BoundsTable([*rows.values()], index=[*rows], columns=["value", "remark"])


def _sizes(result: Result) -> dict[str, int]:
    return {"arms": result.dataset.sizes["arm"], "horizon": int(result.dataset["time"][-1])}


def _measured(values: Any) -> tuple[float, str]:
    mean, low, high = (float(x) for x in band(values))
    remark = "one run" if np.isnan(low) else f"95%: {low:,.2f} to {high:,.2f}"
    return mean, remark


def _upper(result: Result, matrix: Gossip) -> dict[str, tuple[float, str]]:
    """The upper bounds that exist for the result's algorithm."""
    sizes, horizon = _sizes(result), _sizes(result)["horizon"]
    if result.label == "FedHedge":
        value = bounds.upper_bound_full_information(matrix, **sizes)
        remark = f"with the rate of from_theorem{_vacuous(value, horizon)}"
        return {"upper bound, full information": (value, remark)}
    if _block_gossip_applies(result, matrix):
        value = bounds.block_gossip_bound(matrix, **sizes)
        block = bounds.block_gossip_rates(matrix, **sizes).block
        remark = f"as its paper states it, with B = {block:,} and the other constants of "
        remark += f"from_theorem{_vacuous(value, horizon)}"
        return {"upper bound of BlockGossip": (value, remark)}
    if result.label == "DelayedFTRL" and result.dataset.sizes["agent"] == 1:
        delay = result.config["algorithm"]["hops"]
        value = bounds.delayed_ftrl_bound(**sizes, delay=delay)
        remark = f"one agent, a delay of {delay}{_vacuous(value, horizon)}"
        return {"Zimmert and Seldin, upper bound": (value, remark)}
    if result.label != "FedExp3":
        return {}
    rates = bounds.theorem_rates(matrix, **sizes)
    value = bounds.upper_bound(matrix, **sizes)
    needed = bounds.horizon_needed(matrix, arms=sizes["arms"])
    assumed = "γ_T <= 1 holds"
    if rates.exploration_at_horizon > 1:
        assumed = f"γ_T <= 1 does not hold before T = {needed:,.0f}"
    rows = {
        "Theorem 3, upper bound": (
            value,
            f"with the theorem's rates; {assumed}{_vacuous(value, horizon)}",
        )
    }
    own = _own_rates(result)
    if own is not None:
        value = bounds.upper_bound_before_tuning(matrix, **sizes, **own)
        rows["Theorem 3 before tuning"] = (
            value,
            f"with the rates of this run{_vacuous(value, horizon)}",
        )
    return rows


def _block_gossip_applies(result: Result, matrix: Gossip) -> bool:
    """Whether the theorem of BlockGossip is about this regulariser and this matrix."""
    if result.label != "BlockGossip" or result.config["algorithm"]["regulariser"] != "minimax":
        return False
    return not matrix.random and accelerated.positive_semidefinite(matrix)


def _vacuous(value: float, horizon: int) -> str:
    return "" if value < horizon else "; vacuous: above T"


def _own_rates(result: Result) -> dict[str, Any] | None:
    """The rates of a FedExp3 run, where they are functions of the round alone."""
    algorithm = result.config["algorithm"]
    rates = {key: algorithm[key] for key in ("learning_rate", "exploration")}
    if any(rate["name"] not in _SCHEDULES for rate in rates.values()):
        return None
    return {key: _named(_SCHEDULES, rate) for key, rate in rates.items()}


def bound_curves(
    result: Result, matrix: Gossip
) -> tuple[np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
    """Theorem 1 and, where there is one, the upper bound, for horizons up to T.

    Returns:
        horizons, and the curves by name.
    """
    times = np.unique(np.geomspace(1, int(result.dataset["time"][-1]), _POINTS).astype(int))
    arms = result.dataset.sizes["arm"]

    def over_time(bound: Any, of: Any) -> np.ndarray[Any, Any]:
        return np.array([bound(of, arms=arms, horizon=int(t)) for t in times])

    lower = over_time(bounds.lower_bound_full_information, matrix.network)
    curves = {"lower bound (Theorem 1, worst losses)": lower}
    if result.label == "FedExp3":
        curves["upper bound (Theorem 3, its rates)"] = over_time(bounds.upper_bound, matrix)
    if result.label == "FedHedge":
        upper = over_time(bounds.upper_bound_full_information, matrix)
        curves["upper bound (full information)"] = upper
    if _block_gossip_applies(result, matrix):
        upper = over_time(bounds.block_gossip_bound, matrix)
        curves["upper bound (BlockGossip, its constants)"] = upper
    return times, {name: curve for name, curve in curves.items() if np.isfinite(curve).all()}
