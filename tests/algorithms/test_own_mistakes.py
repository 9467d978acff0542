"""A class of the user's that breaks the contract is answered alike in Python and in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.config.document import load_config
from fedbandits.config.experiment import ConfigError
from tests.own_things import CONFIG, LEADER, own_folder

PROBLEM = fb.problems.activated_bernoulli(4, 3, 20)
RING = fb.networks.ring(4)
GOSSIP = fb.gossip.max_degree(RING)

CALLS: dict[str, Callable[[Any], object]] = {
    "simulate": lambda algorithm: fb.simulate(PROBLEM, algorithm, GOSSIP, runs=2),
    "check_federated": lambda algorithm: fb.check_federated(algorithm, RING),
    "trajectory": lambda algorithm: fb.trajectory(PROBLEM, algorithm, GOSSIP),
    "Federation": lambda algorithm: fb.live.Federation(["a", "b"], GOSSIP, algorithm=algorithm),
}
FROZEN = "FedLeader must be a frozen dataclass; write @dataclass(frozen=True) above it"
LEAVES = '{"z": fb.Leaf("estimate", "average")}'
MISTAKES = {
    "no dataclass": (("@dataclass(frozen=True)\nclass FedL", "class FedL"), FROZEN),
    "not frozen": (("@dataclass(frozen=True)\nclass FedL", "@dataclass\nclass FedL"), FROZEN),
    "a text": (
        ('fb.Leaf("estimate", "average")', '"average"'),
        f"FedLeader.leaves['z'] must be a Leaf, not 'average'; write leaves = {LEAVES}",
    ),
    "a pair": (
        ('fb.Leaf("estimate", "average")', '("estimate", "average")'),
        "FedLeader.leaves['z'] must be a Leaf, not ('estimate', 'average'); write leaves = ",
    ),
    "a list": (
        ('{"z": fb.Leaf("estimate", "average")}', '["z"]'),
        f"FedLeader.leaves must be a mapping from names to leaves, not ['z']; write {LEAVES}",
    ),
    "one_hot": (
        ('fb.Leaf("estimate", "average")', 'fb.Leaf("estimate", "average", one_hot=True)'),
        "FedLeader.leaves['z'] is one_hot, but its combine is 'average': only flooded leaves",
    ),
    "combine": (
        ('fb.Leaf("estimate", "average")', 'fb.Leaf("estimate", "mean")'),
        "combine must be one of average, maximum, flood, not 'mean'",
    ),
    "kind": (
        ('fb.Leaf("estimate", "average")', 'fb.Leaf("estimates", "average")'),
        "kind must be one of estimate, count, raw, not 'estimates'",
    ),
}


@pytest.fixture(params=MISTAKES)
def mistake(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The module of a user, and what should be said of it."""
    change, words = MISTAKES[request.param]
    assert change[0] in LEADER
    return LEADER.replace(*change), words


def run(code: str, call: Callable[[Any], object]) -> None:
    made: dict[str, Any] = {"__name__": "leaders"}
    exec(compile(code, "leaders.py", "exec", dont_inherit=True), made)
    call(made["FedLeader"]())


@pytest.mark.parametrize("call", CALLS)
def test_in_python(mistake: tuple[str, str], call: str) -> None:
    code, words = mistake
    with pytest.raises((TypeError, ValueError)) as caught:
        run(code, CALLS[call])
    assert words in str(caught.value)
    assert "JAX" not in str(caught.value)


def test_in_a_file(mistake: tuple[str, str], tmp_path: Path) -> None:
    code, words = mistake
    with own_folder(tmp_path) as folder:
        (folder / "leaders.py").write_text(code)
        (folder / "own.toml").write_text(CONFIG)
        with pytest.raises(ConfigError) as caught:
            load_config(folder / "own.toml")
    assert f"{folder / 'own.toml'} [algorithm]" in str(caught.value)
    assert words in str(caught.value)


def test_problems_are_frozen_dataclasses() -> None:
    class Loose(fb.Problem):
        agents, arms, horizon = 4, 3, 20

        def losses(self, t: Any) -> Any:
            return np.zeros((4, 3)) + 0 * t

    with pytest.raises(TypeError, match=r"Loose must be a frozen dataclass; write @dataclass\("):
        fb.simulate(Loose(), fb.FedExp3(), GOSSIP, runs=2)
