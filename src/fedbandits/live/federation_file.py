"""A federation as a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedbandits import networks
from fedbandits.algorithms import REGISTRY as ALGORITHMS
from fedbandits.config.building import construct
from fedbandits.config.experiment import ConfigError, Place, unknown
from fedbandits.config.reading import read_config
from fedbandits.gossip import REGISTRY as GOSSIPS
from fedbandits.networks import Network

KEYS = (
    "arms",
    "members",
    "links",
    "network",
    "gossip",
    "algorithm",
    "tickets",
    "gossip_period",
    "clip",
    "addresses",
)


def read_federation(path: Path) -> dict[str, Any]:
    """The arguments of a `Federation` that a file describes."""
    config = read_config(path)
    for key in config:
        if key not in KEYS:
            raise ConfigError(f"{path}: {unknown('key', key, KEYS)}")
    if "arms" not in config:
        raise ConfigError(f'{path} names no arms; add arms = ["tea", "coffee"]')
    network = _network(config, path)
    gossip = config.get("gossip", {"name": "metropolis"})
    found: dict[str, Any] = {
        "arms": config["arms"],
        "members": tuple(config.get("members", ())),
        "gossip": construct(GOSSIPS, gossip, Place(f"{path} [gossip]"), {"network": network}),
    }
    if "algorithm" in config:
        place = Place(f"{path} [algorithm]", path.parent)
        found["algorithm"] = construct(ALGORITHMS, config["algorithm"], place)
    tickets: dict[str, Any] = config.get("tickets", {})
    for key in tickets:
        if key not in ("expire_after", "expired_loss"):
            known = ("expire_after", "expired_loss")
            raise ConfigError(f"{path} [tickets]: {unknown('key', key, known)}")
    alone = {key: config[key] for key in ("gossip_period", "clip", "addresses") if key in config}
    return found | tickets | alone


def _network(config: dict[str, Any], path: Path) -> Network:
    if ("links" in config) == ("network" in config):
        raise ConfigError(
            f'{path}: say who hears whom once, by links = [["north", "south"], ...] or a [network]'
        )
    if "network" in config:
        place = Place(f"{path} [network]", path.parent)
        made: Network = construct(networks.REGISTRY, config["network"], place)
        return made
    members = list(config.get("members", ()))
    if not members:
        raise ConfigError(f"{path}: links need members, a list of names")
    edges = []
    for link in config["links"]:
        if not isinstance(link, list) or len(link) != 2:
            raise ConfigError(f"{path}: a link is a pair of members, not {link!r}")
        for name in link:
            if name not in members:
                raise ConfigError(f"{path} links: {unknown('member', name, members)}")
        edges.append((members.index(link[0]), members.index(link[1])))
    try:
        return networks.from_edges(len(members), edges)
    except ValueError as error:
        raise ConfigError(f"{path} links: {error}") from error
