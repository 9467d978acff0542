"""What the paper's theorems say of a run: its bounds beside what was measured."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # at once: this module is loaded only where bounds are asked for

from fedbandits import gossip, networks
from fedbandits.common.describe import describe
from fedbandits.common.statistics import band
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.theory import bounds
from fedbandits.theory.theorems import RunFacts, theorem_of, unproved

if TYPE_CHECKING:
    from fedbandits.gossip.base import Gossip
    from fedbandits.networks import Network

    from .result import Result

_POINTS = 40
"""Rounds at which a bound is computed for a plot."""
_REMARK = 48
"""Characters of a remark in a printed line."""


def check_fixed(result: Result) -> None:
    """Refuse losses and regrets of which no theorem here speaks."""
    if result.moving is not None:
        raise ValueError(
            f"the paper's bounds are for regret against one arm, and this is against "
            f"{result.moving}: ask the result that regret_against was asked of"
        )
    if result.watched:
        raise ValueError(
            f"the losses of {result.config['problem']['name']} depended on the arms played, and "
            "the paper's bounds are for losses fixed in advance: there is none to show"
        )


def gossip_of(result: Result) -> Gossip:
    """Return the gossip of a result: its own, or one made from its configuration."""
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
        made = _gossip(rule, graph)
    except (KeyError, TypeError):
        raise ValueError(
            f"the result file names the network {network['name']} and the gossip {rule['name']}, "
            "but holds neither; pass the gossip, as in result.plot(bounds=gossip)"
        ) from None
    return made


def network_of(result: Result) -> Network | None:
    """Return the network of a result: its own, or one made from its configuration, or None."""
    if result.gossip is not None:
        return result.gossip.network
    try:
        made: Network = _named(networks.REGISTRY, result.config["network"])
        return made
    except (KeyError, TypeError):
        return None


def checked(result: Result, given: Gossip) -> Gossip:
    """Return a gossip given for a result; reject another one than was simulated."""
    described = {
        "network": {"name": given.network.family, **describe(given.network.parameters)},
        "gossip": {"name": given.rule, **describe(given.parameters)},
    }
    for what, description in described.items():
        simulated = result.config[what]
        if simulated is not None and simulated != description:
            raise ValueError(
                f"the result was simulated with the {what} {simulated}, not {description}"
            )
    agents = result.dataset.sizes["agent"]
    if given.network.agents != agents:
        raise ValueError(
            f"the result has {agents} agents but the network has {given.network.agents}"
        )
    return given


def _gossip(rule: Mapping[str, Any], graph: networks.Network) -> Gossip:
    """Return the gossip of a description, which may contain that of another."""
    inner = rule.get("gossip")
    given = graph if inner is None else _gossip(inner, graph)
    rest = {key: value for key, value in rule.items() if key != "gossip"}
    made: Gossip = _named(gossip.REGISTRY, rest, given)
    return made


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
    """Return a number of any size as text."""
    if math.isnan(value):
        return "none"
    return f"{value:,.2f}" if value < 1e6 else f"{value:,.3g}"


def bounds_table(result: Result, matrix: Gossip) -> BoundsTable:
    """Return the measured regret, the lower bounds, and the upper bounds that apply at T.

    Returns:
        by name: `value`, and in `remark` what it holds for or why it says nothing.
    """
    data, network = result.dataset, matrix.network
    run = _run(result, matrix)
    sizes = run.sizes
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
    theorem, reason = theorem_of(run), unproved(run)
    rows |= theorem.rows(run) if theorem is not None else {}
    if reason is None and theorem is None and matrix.faults is not None:
        reason = f"no theorem speaks of {matrix.faults.what}"
    rows |= {"upper bound": (math.nan, reason)} if reason is not None else {}
    return BoundsTable([*rows.values()], index=[*rows], columns=["value", "remark"])


def _run(result: Result, matrix: Gossip) -> RunFacts:
    """Return the facts of a result that theorems depend on."""
    data = result.dataset
    horizon = int(data["time"][-1])
    config, epsilon = result.config, result.epsilon
    cost = 1.0 if epsilon is None else RandomisedResponse(epsilon).cost
    return RunFacts(
        matrix, data.sizes["arm"], horizon, config["algorithm"], cost, "liars" in config
    )


def _measured(values: Any) -> tuple[float, str]:
    mean, low, high = (float(x) for x in band(values))
    remark = "one run" if np.isnan(low) else f"95%: {low:,.2f} to {high:,.2f}"
    return mean, remark


def bound_curves(
    result: Result, matrix: Gossip
) -> tuple[np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return Theorem 1 and the upper bound, if there is one, for horizons up to T.

    Returns:
        horizons, and the curves by name.
    """
    run = _run(result, matrix)
    times = np.unique(np.geomspace(1, run.horizon, _POINTS).astype(int))

    def over_time(bound: Any, of: Any) -> np.ndarray[Any, Any]:
        return np.array([bound(of, arms=run.arms, horizon=int(t)) for t in times])

    lower = over_time(bounds.lower_bound_full_information, matrix.network)
    curves = {"lower bound (Theorem 1, worst losses)": lower}
    theorem = theorem_of(run)
    if theorem is not None and theorem.curve is not None:
        curves[theorem.title] = run.cost * over_time(theorem.curve, matrix)
    return times, {name: curve for name, curve in curves.items() if np.isfinite(curve).all()}
