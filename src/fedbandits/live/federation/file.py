"""A federation as a TOML file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedbandits import networks
from fedbandits.common.own_modules import allowing
from fedbandits.config.building import construct
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.config.experiment import ConfigError, Place, unknown
from fedbandits.config.own import GOSSIP, MODULES, Open
from fedbandits.config.reading import read_config
from fedbandits.gossip import REGISTRY as GOSSIPS
from fedbandits.networks import Network

from .definition import Federation, names, require_connected

KEYS = (
    "version",
    "arms",
    "members",
    "links",
    "network",
    "gossip",
    "algorithm",
    "tickets",
    "gossip_period",
    "addresses",
    "demo",
)


RULES = Open(
    {name: GOSSIPS[name] for name in ("metropolis", "max_degree", "fastest", "clipped")}, GOSSIP
)
"""Symmetric weights, the same at all times."""

MOST_AGENTS = 1_000
"""Largest number of agents of a [network], which one line can describe. `members` may list more."""

SIZES = ("agents", "rows", "cols", "cluster", "path")
"""Keys of a [network] whose product is about the number of its agents."""

SHORTEST_PERIOD = 0.01
"""Shortest gossip period in seconds; it bounds how fast a liar moves estimates."""

TYPES = {
    "arms": list,
    "members": list,
    "links": list,
    "network": dict,
    "gossip": dict,
    "algorithm": dict,
    "tickets": dict,
    "addresses": dict,
    "demo": dict,
}


def federation_of(
    config: dict[str, Any], path: Path, allow_modules: Iterable[str] = ()
) -> Federation:
    """Return the federation that the tables of a file describe.

    Args:
        config: the tables.
        path: of the file, which errors name.
        allow_modules: names of the modules that the file may name.

    Raises:
        ConfigError: if there can be no such federation.
    """
    with allowing(allow_modules):
        arguments = _arguments(config, path)
    try:
        return Federation(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _arguments(config: dict[str, Any], path: Path) -> dict[str, Any]:
    if "clip" in config:
        raise ConfigError(
            f'{path}: clip is a limit of the gossip; write [gossip] with name = "clipped", '
            f'limit = {config["clip"]} and gossip = {{name = "metropolis"}}'
        )
    if MODULES in config:
        raise ConfigError(
            f"{path}: {MODULES} is not allowed here, since others may change this file; install "
            'the module or name its folder in PYTHONPATH, write allow_modules = ["my_module"] in '
            "agent.toml, and give other commands --allow-module my_module"
        )
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"{path}: {unknown('key', key, KEYS)}")
    for key, kind in TYPES.items():
        if not isinstance(config.get(key, kind()), kind):
            wanted = "a list" if kind is list else "a table"
            raise ConfigError(f"{path}: {key} must be {wanted}, not {config[key]!r}")
    if "arms" not in config:
        raise ConfigError(f'{path} names no arms; add arms = ["tea", "coffee"]')
    try:
        network = _network(config, path)
        require_connected(network, tuple(config.get("members", ())))
    except ValueError as error:
        raise (
            error if isinstance(error, ConfigError) else ConfigError(f"{path}: {error}")
        ) from error
    gossip = config.get("gossip", {"name": "metropolis"})
    place = Place(f"{path} [gossip]", path.parent, confined=True)
    found: dict[str, Any] = {
        "arms": config["arms"],
        "members": tuple(config.get("members", ())),
        "gossip": construct(RULES, gossip, place, {"network": network}),
    }
    if "algorithm" in config:
        place = Place(f"{path} [algorithm]", path.parent, confined=True)
        found["algorithm"] = construct(REGISTRIES["algorithm"], config["algorithm"], place)
    tickets: dict[str, Any] = config.get("tickets", {})
    for key in tickets:
        if key not in ("expire_after", "expired_loss"):
            known = ("expire_after", "expired_loss")
            raise ConfigError(f"{path} [tickets]: {unknown('key', key, known)}")
    period = config.get("gossip_period", SHORTEST_PERIOD)
    if isinstance(period, int | float) and period < SHORTEST_PERIOD:
        raise ConfigError(
            f"{path}: gossip_period must be at least {SHORTEST_PERIOD} seconds, not {period}"
        )
    alone = ("version", "gossip_period", "addresses")
    return found | tickets | {key: config[key] for key in alone if key in config}


def _network(config: dict[str, Any], path: Path) -> Network:
    if ("links" in config) == ("network" in config):
        raise ConfigError(
            f'{path}: say who hears whom once, by links = [["north", "south"], ...] or a [network]'
        )
    if "network" in config:
        place = Place(f"{path} [network]", path.parent, confined=True)
        sizes = [v for k, v in config["network"].items() if k in SIZES and isinstance(v, int)]
        _check_agents(math.prod(max(size, 1) for size in sizes), place)
        made: Network = construct(REGISTRIES["network"], config["network"], place)
        _check_agents(made.agents, place)
        return made
    members = names(config.get("members", []), "member", least=1)
    numbers = {name: number for number, name in enumerate(members)}
    edges: set[tuple[int, ...]] = set()
    for link in config["links"]:
        if not isinstance(link, list) or len(link) != 2 or link[0] == link[1]:
            raise ConfigError(f"{path}: a link is a pair of two members, not {link!r}")
        for name in link:
            if not isinstance(name, str) or name not in numbers:
                raise ConfigError(f"{path} links: {unknown('member', name, members)}")
        edge = tuple(sorted(numbers[name] for name in link))
        if edge in edges:
            raise ConfigError(f"{path}: the link of {' and '.join(link)} appears twice")
        edges.add(edge)
    return networks.from_edges(len(members), sorted(edges))


def _check_agents(agents: int, place: Place) -> None:
    if agents > MOST_AGENTS:
        raise place.error(
            f"a [network] has at most {MOST_AGENTS:,} agents, not {agents:,}; write members and "
            "links instead"
        )


def read_demo(path: Path) -> dict[str, Any]:
    """What `live up` lets the agents lose: the section [demo] of a federation's file."""
    found: dict[str, Any] = read_config(path).get("demo", {})
    return found
