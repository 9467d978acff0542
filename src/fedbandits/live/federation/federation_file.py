"""The file of a federation, `federation.toml`, and its JSON Schema."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandits import networks
from fedbandits.common.own_modules import allowing
from fedbandits.config.building import construct
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.config.experiment import ConfigError, Place, unknown
from fedbandits.config.own import GOSSIP, MODULES, Open
from fedbandits.gossip import REGISTRY as GOSSIPS
from fedbandits.networks import Network

from .federation import Federation, distinct_names, require_connected

if TYPE_CHECKING:
    from fedbandits.config.schema import Schema

KEYS: dict[str, type | None] = {
    "version": None,
    "arms": list,
    "members": list,
    "links": list,
    "network": dict,
    "gossip": dict,
    "algorithm": dict,
    "tickets": dict,
    "gossip_period": None,
    "addresses": dict,
    "demo": dict,
}
"""The keys of a file. `Federation` checks the types of numbers."""

TICKETS = ("expire_after", "expired_loss")
"""The keys of [tickets]."""

RULES = Open(
    {name: GOSSIPS[name] for name in ("metropolis", "max_degree", "fastest", "clipped")}, GOSSIP
)
"""The rules of [gossip]: symmetric weights that never change."""

MOST_AGENTS = 1_000
"""The largest number of agents of a [network]; `members` may list more."""

SIZES = ("agents", "rows", "cols", "cluster", "path")
"""Keys of a [network] whose product is roughly the number of its agents."""

SHORTEST_PERIOD = 0.01
"""The shortest gossip period in seconds; it bounds how fast a liar can move estimates."""


def federation_of(
    config: dict[str, Any], path: Path, allow_modules: Iterable[str] = ()
) -> Federation:
    """Return the federation that the tables of a file describe.

    Args:
        config: the tables.
        path: of the file, which errors name.
        allow_modules: names of the modules that the file may name.

    Raises:
        ConfigError: if a key, its type or its value is wrong.
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
            f'{path}: clip is a setting of the gossip; write [gossip] with name = "clipped", '
            f'limit = {config["clip"]} and gossip = {{name = "metropolis"}}'
        )
    if MODULES in config:
        raise ConfigError(
            f"{path}: {MODULES} is not allowed here, since others may change this file; install "
            'the module or name its folder in PYTHONPATH, write allow_modules = ["my_module"] in '
            "agent.toml, and give other commands --allow-module my_module"
        )
    for key, value in config.items():
        if key not in KEYS:
            raise ConfigError(f"{path}: {unknown('key', key, KEYS)}")
        kind = KEYS[key]
        if kind is not None and not isinstance(value, kind):
            wanted = "a list" if kind is list else "a table"
            raise ConfigError(f"{path}: {key} must be {wanted}, not {value!r}")
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
    arguments: dict[str, Any] = {
        "arms": config["arms"],
        "members": tuple(config.get("members", ())),
        "gossip": construct(RULES, gossip, place, {"network": network}),
    }
    if "algorithm" in config:
        place = Place(f"{path} [algorithm]", path.parent, confined=True)
        arguments["algorithm"] = construct(REGISTRIES["algorithm"], config["algorithm"], place)
    tickets: dict[str, Any] = config.get("tickets", {})
    for key in tickets:
        if key not in TICKETS:
            raise ConfigError(f"{path} [tickets]: {unknown('key', key, TICKETS)}")
    period = config.get("gossip_period", SHORTEST_PERIOD)
    if isinstance(period, int | float) and period < SHORTEST_PERIOD:
        raise ConfigError(
            f"{path}: gossip_period must be at least {SHORTEST_PERIOD} seconds, not {period}"
        )
    others = ("version", "gossip_period", "addresses")
    return arguments | tickets | {key: config[key] for key in others if key in config}


def _network(config: dict[str, Any], path: Path) -> Network:
    if ("links" in config) == ("network" in config):
        raise ConfigError(f'{path}: give either links = [["north", "south"], ...] or a [network]')
    if "network" in config:
        place = Place(f"{path} [network]", path.parent, confined=True)
        sizes = [v for k, v in config["network"].items() if k in SIZES and isinstance(v, int)]
        _check_agents(math.prod(max(size, 1) for size in sizes), place)
        network: Network = construct(REGISTRIES["network"], config["network"], place)
        _check_agents(network.agents, place)
        return network
    members = distinct_names(config.get("members", []), "member", least=1)
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
            raise ConfigError(f"{path}: the link between {' and '.join(link)} appears twice")
        edges.add(edge)
    return networks.from_edges(len(members), sorted(edges))


def _check_agents(agents: int, place: Place) -> None:
    if agents > MOST_AGENTS:
        raise place.error(
            f"a [network] has at most {MOST_AGENTS:,} agents, not {agents:,}; write members and "
            "links instead"
        )


def federation_schema() -> Schema:
    """Return the JSON Schema of the file, for editors.

    Example:
        >>> federation_schema()["required"]
        ['arms']
    """
    from fedbandits.config.schema import Sections, arguments_of, table, whole

    from .demo import FASTEST, PACE

    text = {"type": "string"}
    texts = {"type": "array", "items": text}
    share = {"type": "number", "minimum": 0, "maximum": 1}
    pace = {
        "type": "number",
        "minimum": FASTEST,
        "default": PACE,
        "description": "Mean seconds between two choices of a member.",
    }
    means = {"type": "array", "items": share, "minItems": 2}
    descriptions = arguments_of(inspect.getdoc(Federation) or "")

    def described(properties: dict[str, Schema]) -> dict[str, Schema]:
        return {
            key: {"description": descriptions[key], **schema} if key in descriptions else schema
            for key, schema in properties.items()
        }

    expire_after = {"type": "number", "exclusiveMinimum": 0}
    properties: dict[str, Schema] = {
        "version": {"type": "integer", "minimum": 1},
        "arms": {**texts, "minItems": 2},
        "members": texts,
        "links": {
            "type": "array",
            "items": {**texts, "minItems": 2, "maxItems": 2},
            "description": "The links, as pairs of members; alternatively a [network].",
        },
        "network": {
            "$ref": "#/$defs/network",
            "description": "A network by its name; alternatively links.",
        },
        "gossip": {"$ref": "#/$defs/gossip"},
        "algorithm": {"$ref": "#/$defs/algorithm"},
        "tickets": table(described(dict(zip(TICKETS, (expire_after, share), strict=True)))),
        "gossip_period": {"type": "number", "minimum": SHORTEST_PERIOD},
        "addresses": {"type": "object", "additionalProperties": text},
        "demo": {
            "anyOf": [
                table({"means": means, "pace": pace}, ["means"]),
                {"$ref": "#/$defs/problem"},
            ],
            "description": "The losses of a demonstration by `live up`: means, or a problem.",
        },
    }
    sections = Sections(sweeps=False, among={"gossip": RULES})
    definitions = sections.definitions(["network", "gossip", "algorithm", "problem"])
    for name, entry in definitions.items():
        if name.startswith("problem."):  # problems have a pace only in [demo]
            entry["properties"]["pace"] = pace
    return whole("fedbandits federation", table(described(properties), ["arms"]), definitions)
