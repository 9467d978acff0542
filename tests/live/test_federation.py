"""Federations, from arguments and from files: their parts, and what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common.extras import PACKAGES
from fedbandits.live import Federation
from fedbandits.live.protocol.suitability import UnsuitableError
from tests.without import run_without

RING = fb.networks.ring(4)
ONE_WAY = np.eye(4)[[1, 2, 3, 0]] / 2 + np.eye(4) / 2
GOOD = """
arms = ["tea", "coffee", "cocoa"]
members = ["north", "centre", "south"]
links = [["north", "centre"], ["centre", "south"]]
gossip_period = 0.25

[gossip]
name = "clipped"
limit = 50.0
gossip = {name = "max_degree", lazy = false}

[algorithm]
name = "FedExp3"
learning_rate = 0.1

[tickets]
expire_after = 3600
expired_loss = 1.0

[addresses]
north = "north.example:7447"
centre = "10.0.0.2:7447"
"""


def test_the_neighbours_of_a_part_are_those_of_the_matrix() -> None:
    federation = Federation(["a", "b"], fb.gossip.max_degree(fb.networks.star(4)))
    W = fb.gossip.max_degree(fb.networks.star(4)).matrix.toarray()
    for v, name in enumerate(federation.members):
        part = federation.part(name)
        found = {federation.members.index(u): weight for u, weight in part.neighbours.items()}
        assert found == {u: W[v, u] for u in range(4) if u != v and W[v, u] > 0}
        assert (part.agents, part.arms) == (4, ("a", "b"))
    with pytest.raises(ValueError, match="no member 'agent9'; did you mean"):
        federation.part("agent9")


def test_members_have_the_names_of_the_network() -> None:
    import networkx as nx

    graph = nx.Graph([("rome", "paris"), ("paris", "oslo")])
    federation = Federation(["a", "b"], fb.networks.from_networkx(graph))
    assert set(federation.part("paris").neighbours) == {"rome", "oslo"}


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"arms": ["a"]}, ValueError, "give at least 2 arms, not 1"),
        ({"arms": ["a", "a"]}, ValueError, "arm 'a' appears twice"),
        ({"arms": "ab"}, TypeError, "list of names"),
        ({"arms": ["a", ""]}, ValueError, "arm names must be texts .* not ''"),
        ({"arms": ["a", "\x1b]0;b\x07"]}, ValueError, "without control characters"),
        ({"gossip": 3}, TypeError, "gossip must be a network"),
        ({"gossip": fb.gossip.random_edge(RING)}, ValueError, "symmetric weights"),
        ({"gossip": fb.gossip.none(RING)}, ValueError, "symmetric weights"),
        ({"gossip": fb.gossip.from_matrix(ONE_WAY)}, ValueError, "symmetric weights"),
        (
            {"gossip": fb.gossip.unreliable(fb.gossip.metropolis(RING), 0.1)},
            ValueError,
            "symmetric weights",
        ),
        ({"gossip": fb.networks.from_edges(4, [(0, 1), (2, 3)])}, ValueError, "connected"),
        ({"members": ["a", "b"]}, ValueError, "there are 2 members, but ring"),
        ({"members": ["a", "b", "c", "c"]}, ValueError, "'c' appears twice"),
        ({"members": ["a", "b", "c", "d/e"]}, ValueError, "member 'd/e'"),
        ({"algorithm": "FedExp3"}, TypeError, "must be an algorithm such as"),
        ({"algorithm": fb.BlockGossip()}, UnsuitableError, "BlockGossip cannot .*: it gossips"),
        ({"algorithm": fb.FedFTRL()}, UnsuitableError, "FedFTRL cannot live apart: it floods"),
        ({"addresses": {"agent9": "a:1"}}, ValueError, "which is not a member; did you mean"),
        ({"addresses": {"agent1": "a"}}, ValueError, "must be host:port, not 'a'"),
        ({"addresses": {"agent1": "a:99999"}}, ValueError, "must be host:port"),
        ({"addresses": {"agent1": "a:1"}}, ValueError, "neither agent2 nor agent3 has an address"),
        ({"gossip_period": 0}, ValueError, "gossip_period must be a positive number"),
        ({"expired_loss": 0.5}, ValueError, "needs expire_after"),
        ({"expire_after": 5.0, "expired_loss": 2.0}, ValueError, "expired_loss must be in"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected(
    arguments: dict[str, Any], error: type[Exception], why: str
) -> None:
    given: dict[str, Any] = {"arms": ["a", "b"], "gossip": RING}
    with pytest.raises(error, match=why):
        Federation(**(given | arguments))


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(GOOD)
    federation = Federation.read(path)
    part = federation.part("centre")
    assert part.neighbours == {"north": 1 / 3, "south": 1 / 3}
    assert (part.gossip_period, part.limit, part.expiry) == (0.25, 50.0, (3600, 1.0))
    assert part.addresses == {"north": "north.example:7447", "centre": "10.0.0.2:7447"}
    assert federation.part("south").addresses == {"centre": "10.0.0.2:7447"}
    assert repr(part.algorithm) == repr(fb.FedExp3(0.1))


def test_a_network_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text('arms = ["a", "b"]\n[network]\nname = "grid"\nrows = 2\ncols = 3\n')
    assert Federation.read(path).members == tuple(f"agent{i}" for i in range(1, 7))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("arms = ", "armes = "), "unknown key 'armes'; did you mean 'arms'"),
        (('["centre", "south"]]', '["centre", "sout"]]'), "unknown member 'sout'; did you mean"),
        (('["centre", "south"]]', '["centre"]]'), "a link is a pair"),
        (('["centre", "south"]]', '["centre", "centre"]]'), "a link is a pair of two members"),
        (
            ('["centre", "south"]]', '["centre", "north"]]'),
            "between centre and north appears twice",
        ),
        (('["centre", "south"]]', "]"), "no path leads from north to south"),
        (('"clipped"', '"none"'), "Valid: metropolis, max_degree, fastest, clipped"),
        (('"max_degree", lazy = false', '"none"'), "live agents need symmetric weights"),
        (("gossip_period", "clip"), "clip is a setting of the gossip; write .* limit = 0.25 and"),
        (("limit = 50.0", "limit = -1"), r"\[gossip\]: limit must be in \(0, inf\], not -1"),
        (('"south"]\nlinks', '"centre"]\nlinks'), "member 'centre' appears twice"),
        (("links = [[", "links = 3 #"), "links must be a list, not 3"),
        (("[tickets]", "[other]"), "unknown key 'other'"),
        (('"max_degree"', '"max_degre"'), r"\[gossip\] gossip: unknown name 'max_degre'"),
        (('"FedExp3"', '"Fedexp"'), r"\[algorithm\]: unknown name"),
        (("expire_after", "expires"), r"\[tickets\]: unknown key 'expires'"),
        (("links = ", "#"), "give either links"),
        (('["north", "centre", "south"]\n', "[]\n"), "give at least 1 members"),
        (("gossip_period = 0.25", 'gossip_period = "soon"'), "gossip_period must be"),
        (("0.25", "1e-9"), r"gossip_period must be at least 0\.01 seconds, not 1e-09"),
        (("gossip_period = 0.25", 'modules = "."'), r"modules .*allow_modules"),
        (("gossip_period = 0.25", f"deep = {'[' * 5000}{']' * 5000}"), "is nested too deeply"),
    ],
)
def test_invalid_files_are_rejected_with_the_place_and_the_reason(
    tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises((ValueError, TypeError), match=why) as error:
        Federation.read(path)
    assert str(path) in str(error.value)


@pytest.mark.slow
def test_clipped_gossip_needs_only_the_extra_of_live_agents(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    file = tmp_path / "federation.toml"
    file.write_text(
        """
        arms = ["tea", "coffee"]
        members = ["north", "centre", "south"]
        links = [["north", "centre"], ["centre", "south"]]

        [gossip]
        name = "clipped"
        limit = 1.0
        gossip = {name = "metropolis"}
        """
    )
    code = f"""from fedbandits.live import Agent, Federation
with Agent("centre", Federation.read({str(file)!r}), {str(tmp_path / "centre.db")!r}) as shop:
    print(shop.choose().arm in ("tea", "coffee"))"""
    others = [each.name for each in PACKAGES if each.extra not in ("", "live")]
    done = run_without(others, tmp_path / "site", ["-c", code])
    assert (done.stdout, done.stderr) == ("True\n", "")
