"""Everything that a configuration can name, and what its parameters take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedbandits import algorithms, attacks, gossip, networks, privacy, problems, schedules
from fedbandits.algorithms import AnyAlgorithm

from .own import ALGORITHM, GOSSIP, NETWORK, PROBLEM, SCHEDULE, Open

Registry = Mapping[str, Callable[..., Any]]
"""Constructors by name."""

REGISTRIES: dict[str, Registry] = {
    "problem": Open(problems.REGISTRY, PROBLEM),
    "network": Open(networks.REGISTRY, NETWORK),
    "gossip": Open(gossip.REGISTRY, GOSSIP),
    "algorithm": Open(algorithms.REGISTRY, ALGORITHM),
    "privacy": privacy.REGISTRY,
    "schedule": Open(schedules.REGISTRY, SCHEDULE),
    "attack": attacks.REGISTRY,
}
"""The names of each section; those that are `Open` take own things as `module:attribute` too."""

SECTIONS = ("problem", "network", "gossip", "algorithm", "privacy")
NAMELESS = {"privacy": "randomised_response"}
"""Sections that name nothing, since there is one thing they can mean."""
LIARS = "liars"
"""The section that has a table for each agent that lies."""

THEOREM = "from_theorem"


class Entry(NamedTuple):
    """One thing that a configuration can name.

    Attributes:
        name: its name.
        parameters: its keys, with defaults where they have one.
        doc: the first line of its docstring.
        notes: for an algorithm, what it sees and what it sends.
    """

    name: str
    parameters: list[str]
    doc: str
    notes: list[str]


def catalogue(section: str) -> list[Entry]:
    """Everything a section can name, with parameters and defaults.

    Example:
        >>> catalogue("schedule")[1].parameters
        ['c', 'a']
    """
    return [
        Entry(
            name,
            _parameter_list(make, given=("network",) if section == "gossip" else ()),
            (inspect.getdoc(make) or "").partition("\n")[0],
            _contract(algorithms.REGISTRY[name]) if section == "algorithm" else [],
        )
        for name, make in REGISTRIES[section].items()
    ]


def _parameter_list(make: Callable[..., Any], given: tuple[str, ...]) -> list[str]:
    parameters = [
        key if p.default is p.empty else f"{key}={p.default!r}"
        for key, p in inspect.signature(make).parameters.items()
        if key not in given
    ]
    return parameters + [f"{THEOREM}=False"] * hasattr(make, THEOREM)


def _contract(algorithm: type[AnyAlgorithm]) -> list[str]:
    leaves = [f"{k} ({leaf.kind}, {leaf.combine})" for k, leaf in algorithm.leaves.items()]
    notes = [f"feedback: {algorithm.feedback}; leaves the agent: {', '.join(leaves) or 'nothing'}"]
    if algorithm.guarantee is not None:
        notes.append(f"privacy: {algorithm.guarantee.format(epsilon='epsilon')}")
    return notes
