"""A name in a configuration calls nothing that is not known to make what its section needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedbandits.config.document import load_config
from fedbandits.config.experiment import ConfigError
from tests.own_things import CONFIG, own_folder

STRIKES = """
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import fedbandits as fb

if TYPE_CHECKING:
    from fedbandits.networks import Network as Hidden
    from fedbandits.problems import Problem as Hidden


def strike(marker: str) -> None:
    Path(marker).touch()


def silent(marker: str):
    strike(marker)


def hidden(marker: str) -> Hidden:
    strike(marker)


def either(marker: str) -> fb.networks.Network | fb.gossip.Gossip | fb.Problem | None:
    strike(marker)


ready = functools.partial(strike)
cached = functools.cache(strike)


@dataclass(frozen=True)
class Loud:
    marker: str

    def __post_init__(self) -> None:
        strike(self.marker)


@dataclass(frozen=True)
class Called(Loud):
    def __call__(self, t: float) -> float:
        return 0.1


class Proxy:
    '''Runs code where a check asks for its class.'''

    def __init__(self, marker: str) -> None:
        self.marker = marker

    @property
    def __class__(self):
        raise RuntimeError("asked for its class")

    def __call__(self, marker: str) -> None:
        strike(marker)


proxy = Proxy("")
"""

NAMES = [
    f"strikes:{name}"
    for name in (
        "strike",
        "silent",
        "hidden",
        "either",
        "ready",
        "cached",
        "Loud",
        "Called",
        "Proxy",
        "proxy",
    )
]
RATE = 'algorithm={{name = "FedExp3", learning_rate = {}}}'
PLACES = {
    "problem": "problem={}",
    "problem in a problem": 'problem={{name = "scaled", low = 0, high = 1, problem = {}}}',
    "network": "network={}",
    "gossip": "gossip={}",
    "gossip in gossip": 'gossip={{name = "clipped", limit = 1.0, gossip = {}}}',
    "algorithm": "algorithm={}",
    "rate": RATE,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with own_folder(tmp_path) as made:
        (made / "strikes.py").write_text(STRIKES)
        (made / "own.toml").write_text(CONFIG)
        yield made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_called_that_is_not_of_the_contract(folder: Path, place: str, name: str) -> None:
    table = f'{{name = "{name}", marker = "{folder / "struck"}"}}'
    with pytest.raises(ConfigError, match=f"{name} .*; it must be"):
        load_config(folder / "own.toml", [PLACES[place].format(table)])
    assert not (folder / "struck").exists()


@pytest.mark.parametrize("place", PLACES)
def test_nothing_installed_is_called(folder: Path, place: str) -> None:
    (folder / "strike").write_text(f"#!/bin/sh\ntouch {folder}/struck\n")
    (folder / "strike").chmod(0o700)
    for table in (
        f'{{name = "click:edit", editor = "touch {folder}/struck", filename = "z"}}',
        f'{{name = "subprocess:Popen", args = "{folder}/strike"}}',
        f'{{name = "os:system", command = "touch {folder}/struck"}}',
        f'{{name = "posix:system", command = "touch {folder}/struck"}}',
        '{name = "sys:modules"}',
        '{name = "builtins:eval"}',
    ):
        with pytest.raises(ConfigError, match="it must be"):
            load_config(folder / "own.toml", [PLACES[place].format(table)])
    assert not (folder / "struck").exists()


def test_the_annotation_is_named(folder: Path) -> None:
    (folder / "own.toml").write_text(CONFIG)
    for name, words in (
        ("strike", "a function annotated with -> 'None'; it must be a function annotated with ->"),
        ("silent", "a function without a return annotation; it must be a function annotated"),
        ("hidden", "imported outside of `if TYPE_CHECKING`"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(folder / "own.toml", [f'network={{name = "strikes:{name}", marker = ""}}'])
        assert words in str(caught.value)


def test_functions_that_are_wrapped_or_bound_are_taken(folder: Path) -> None:
    (folder / "shapes.py").write_text(
        "import functools\n"
        "import fedbandits as fb\n"
        "@functools.cache\n"
        "def cached(agents: int) -> fb.networks.Network:\n"
        "    return fb.networks.from_edges(agents, [(0, v) for v in range(1, agents)])\n"
        "class Shapes:\n"
        "    @classmethod\n"
        "    def star(cls, agents: int) -> 'fb.networks.Network':\n"
        "        return cached(agents)\n"
    )
    for name in ("cached", "Shapes.star"):
        change = f'network={{name = "shapes:{name}", agents = 4}}'
        assert load_config(folder / "own.toml", [change, "algorithm.name=FedExp3"]).network
