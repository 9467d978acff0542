"""A federation: its members, their network and weights, and the game that they play."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedbandits.algorithms import Algorithm, AnyAlgorithm, FedExp3, Setting
from fedbandits.algorithms.base import check_class
from fedbandits.common import checks
from fedbandits.common.checks import did_you_mean
from fedbandits.gossip import metropolis
from fedbandits.gossip.base import Gossip
from fedbandits.live.protocol.suitability import check_suitable
from fedbandits.live.protocol.tickets import TicketExpiry
from fedbandits.networks import Network

GOSSIP_PERIOD = 0.5
"""Seconds between two exchanges over an edge."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Part(NamedTuple):
    """The part of a federation that one agent needs.

    Attributes:
        name: of the agent.
        agents: the number of agents.
        neighbours: the weight of the edge to each neighbour.
        arms: names of the arms.
        algorithm: the algorithm, set up.
        gossip_period: seconds between two exchanges over an edge.
        limit: the largest difference that counts in an exchange; infinite for no limit.
        expiry: of tickets.
        addresses: `host:port` of the agent and of its neighbours, where they have one.
        version: of the federation's file.
    """

    name: str
    agents: int
    neighbours: dict[str, float]
    arms: tuple[str, ...]
    algorithm: AnyAlgorithm
    gossip_period: float
    limit: float
    expiry: TicketExpiry
    addresses: dict[str, str]
    version: int = 1


@dataclass(frozen=True, eq=False)
class Federation:
    """A network of named agents, its gossip weights, and the game.

    Args:
        arms: names of at least two arms.
        gossip: symmetric weights on a network (`fb.gossip.max_degree`, `metropolis`, `fastest`), or
            a network, which gets `metropolis`. `fb.gossip.clipped` limits the difference of
            estimates that counts in an exchange, and so the influence of a neighbour that lies.
        members: names of the agents, in the order of the network; by default the network's own, or
            `agent1`, `agent2`, ...
        algorithm: the algorithm of every agent.
        gossip_period: seconds between two exchanges over an edge. Two or more exchanges per choice
            make up for lost messages.
        expire_after: seconds until a ticket without an observation is closed; None for never.
        expired_loss: the loss charged for an expired ticket; None drops the ticket.
        addresses: `host:port` of members on a network; every edge needs an end with an address.
        version: number of the file, for people; every change of members raises it.

    Example:
        >>> import fedbandits as fb
        >>> shops = fb.live.Federation(["tea", "coffee"], fb.networks.ring(3))
        >>> shops.members, shops.part("agent1").neighbours
        (('agent1', 'agent2', 'agent3'), {'agent2': 0.333..., 'agent3': 0.333...})
    """

    arms: Sequence[str]
    gossip: Gossip | Network
    members: Sequence[str] = ()
    algorithm: AnyAlgorithm = field(default_factory=FedExp3)
    gossip_period: float = GOSSIP_PERIOD
    expire_after: float | None = None
    expired_loss: float | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.gossip, Network):
            require_connected(self.gossip, tuple(self.members))
        gossip = _symmetric(self.gossip)
        network = gossip.network
        members = tuple(self.members) or network.names or _numbered(network.agents)
        arms = distinct_names(self.arms, "arm", least=2)
        _check_members(members, network)
        if not isinstance(self.algorithm, Algorithm):
            raise TypeError(
                f"algorithm must be an algorithm such as fb.FedExp3(), not {self.algorithm!r}"
            )
        check_class(type(self.algorithm))
        algorithm = self.algorithm.set_up(Setting(len(arms), network.agents, gossip))
        if algorithm.arms_given not in (None, len(arms)):
            raise ValueError(
                f"{type(algorithm).__name__} was made for {algorithm.arms_given} arms, and the "
                f"federation has {len(arms)}"
            )
        check_suitable(algorithm, len(arms), network.agents)
        _positive(self.gossip_period, "gossip_period")
        if self.expire_after is not None:
            _positive(self.expire_after, "expire_after")
        if self.expired_loss is not None:
            checks.unit_interval(self.expired_loss, "expired_loss")
            if self.expire_after is None:
                raise ValueError("expired_loss needs expire_after: without it no ticket expires")
        check_addresses(self.addresses, members)
        checks.whole(self.version, "version", least=1)
        for name, found in (
            ("gossip", gossip),
            ("members", members),
            ("arms", arms),
            ("algorithm", algorithm),
        ):
            object.__setattr__(self, name, found)
        self._check_reachable()

    def _check_reachable(self) -> None:
        """Reject links that neither end can open, if any member has an address."""
        for u, v, _ in self.edges() if self.addresses else ():
            if u not in self.addresses and v not in self.addresses:
                raise ValueError(
                    f"neither {u} nor {v} has an address, so neither can open their link; give "
                    f'one of them a line in [addresses]: {u} = "{u}.example.org:7447"'
                )

    @property
    def network(self) -> Network:
        """The network of the agents."""
        assert isinstance(self.gossip, Gossip)
        return self.gossip.network

    def part(self, member: str) -> Part:
        """Return the part of the federation that one agent needs."""
        if member not in self.members:
            meant = did_you_mean(member, self.members)
            raise ValueError(
                f"no member {member!r}{meant} The members are {', '.join(self.members)}"
            )
        gossip, neighbours = self.gossip, {}
        assert isinstance(gossip, Gossip)
        for u, v, weight in self.edges():
            if member in (u, v):
                neighbours[v if member == u else u] = weight
        return Part(
            member,
            len(self.members),
            neighbours,
            tuple(self.arms),
            self.algorithm,
            self.gossip_period,
            gossip.limit,
            TicketExpiry(self.expire_after, self.expired_loss),
            {k: v for k, v in self.addresses.items() if k == member or k in neighbours},
            self.version,
        )

    def edges(self) -> list[tuple[str, str, float]]:
        """Return both ends and the weight of every edge with a weight above zero."""
        assert isinstance(self.gossip, Gossip)
        weights = self.gossip.edge_weights
        pairs = zip(self.network.edges.tolist(), weights.tolist(), strict=True)
        return [(self.members[u], self.members[v], w) for (u, v), w in pairs if w > 0]

    @classmethod
    def read(cls, path: str | Path, *, allow_modules: Sequence[str] = ()) -> Federation:
        """Read a federation from a TOML file.

        `links` lists the edges; alternatively [network] names a network of `fb.networks`. All keys
        but the arms and the edges are optional. The file runs no code: a name such as
        `my_shop:Leader` is rejected unless you allow the module `my_shop`.

            version = 1
            arms = ["tea", "coffee", "cocoa"]
            members = ["north", "centre", "south"]
            links = [["north", "centre"], ["centre", "south"]]
            gossip_period = 0.5

            [gossip]
            name = "metropolis"

            [algorithm]
            name = "FedExp3"

            [tickets]
            expire_after = 3600
            expired_loss = 1.0

            [addresses]
            north = "north.example:7447"

        Args:
            path: the file.
            allow_modules: names of your modules that the file may name. They are imported from
                installed packages and PYTHONPATH.
        """
        from fedbandits.config.reading import read_config

        from .federation_file import federation_of

        return federation_of(read_config(path), Path(path), allow_modules)


def distinct_names(given: Any, what: str, *, least: int) -> tuple[str, ...]:
    """Return the names as a tuple; reject duplicates, malformed names and too few of them."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"{what}s must be a list of names, not {given!r}")
    for name in given:
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
            raise ValueError(
                f"{what} names must be texts of 1 to 200 characters without control characters, "
                f"not {name!r}"
            )
    if len(given) < least:
        raise ValueError(f"give at least {least} {what}s, not {len(given)}")
    name, times = Counter(given).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{what} {name!r} appears twice")
    return tuple(given)


def require_connected(network: Network, members: tuple[str, ...]) -> None:
    """Reject networks that are not connected, and name the members of the other parts."""
    if not network.connected and len(members) == network.agents:
        links = [(members[u], members[v]) for u, v in network.edges.tolist()]
        apart = ", ".join(unreachable(members, links))
        raise ValueError(f"no path leads from {members[0]} to {apart}; link them")


def unreachable(members: Sequence[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """Return the members that no path links to the first one."""
    reached = {members[0]}
    for _ in members:
        reached |= {name for link in links if reached & set(link) for name in link}
    return [name for name in members if name not in reached]


def _check_members(members: tuple[str, ...], network: Network) -> None:
    for name in distinct_names(members, "agent", least=1):
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"member {name!r}: a member's name has up to 64 letters, digits, '.', '_' and '-', "
                "and begins with a letter or digit"
            )
    if len(members) != network.agents:
        raise ValueError(
            f"there are {len(members)} members, but {network.name} has {network.agents} agents"
        )


def check_addresses(addresses: Any, members: Sequence[str]) -> None:
    """Reject malformed addresses and addresses of unknown members."""
    for name, address in addresses.items():
        if name not in members:
            meant = did_you_mean(name, members)
            raise ValueError(f"an address of {name!r}, which is not a member{meant}")
        host, colon, port = str(address).rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"address of {name!r} must be host:port, not {address!r}")


def _symmetric(gossip: Any) -> Gossip:
    if isinstance(gossip, Network):
        return metropolis(gossip)
    if not isinstance(gossip, Gossip):
        raise TypeError(
            "gossip must be a network such as fb.networks.ring(3), or weights such as "
            f"fb.gossip.max_degree(fb.networks.ring(3)), not {gossip!r}"
        )
    always = not (gossip.random or gossip.silent or gossip.faults)
    if not always or not isinstance(gossip.weights, float | np.ndarray):
        raise ValueError(
            f"{gossip.name}: live agents need symmetric weights that never change: "
            "fb.gossip.metropolis, max_degree or fastest"
        )
    return gossip


def _numbered(agents: int) -> tuple[str, ...]:
    return tuple(f"agent{number}" for number in range(1, agents + 1))


def _positive(value: Any, name: str) -> None:
    if not 0 < checks.number(value, name) < float("inf"):
        raise ValueError(f"{name} must be a positive number, not {value}")
