"""Sizes beyond what 32 bits count or memory holds: refused at once, by value and limit."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits import algorithms, config, networks, problems
from fedbandits.common import checks
from tests.cli.test_cli import call
from tests.engine.simulations import simulate_draws, simulate_each
from tests.instances import SMALL_CONFIG

GIVEN = {
    "agents": 4, "arms": 2, "horizon": 10, "cluster": 2, "block": 2, "means": [0.1, 0.2],
    "rows": 2, "cols": 2, "path": 2, "links": 2, "radius": 0.5, "probability": 0.5,
    "edges": [(0, 1)],
}  # fmt: skip
"""A value for every argument that a constructor asks for."""

ABSURD = [2**31, 10**13, 2**63 - 1, 10**30]


def sizes() -> list[tuple[str, str]]:
    """Every argument of every constructor that counts something."""
    found = []
    for registry in (problems.REGISTRY, networks.REGISTRY, algorithms.REGISTRY):
        for name, make in registry.items():
            for key, parameter in inspect.signature(make).parameters.items():
                if "int" in str(parameter.annotation).split() and key != "seed":
                    found.append((name, key))
    return found


MAKE: Mapping[str, Callable[..., Any]] = {
    **problems.REGISTRY,
    **networks.REGISTRY,
    **algorithms.REGISTRY,
}


def arguments(name: str) -> dict[str, Any]:
    parameters = inspect.signature(MAKE[name]).parameters
    asked = {key for key, parameter in parameters.items() if parameter.default is parameter.empty}
    return {key: GIVEN[key] for key in asked | ({"agents"} & set(parameters))}


def test_every_kind_has_sizes() -> None:
    found = sizes()
    assert {name for name, _ in found} >= set(networks.REGISTRY) - {"read_graphml"}
    assert ("activated_bernoulli", "horizon") in found
    assert ("BlockGossip", "block") in found
    assert ("Exp3Coop", "hops") in found


@pytest.mark.parametrize(("name", "key"), sizes())
def test_absurd_sizes_are_refused_when_they_are_given(name: str, key: str) -> None:
    for size in ABSURD:
        with pytest.raises(ValueError, match=r"must be (at most|below) .*, not \d"):
            MAKE[name](**arguments(name) | {key: size})


@pytest.mark.parametrize("name", [n for n, key in sizes() if key == "horizon"])
def test_the_longest_horizon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_memory", lambda: 2.0**32)  # not for that many ratings
    given = arguments(name)
    with pytest.raises(ValueError, match=r"horizon must be at most 2,147,483,646, not 2,147,483,6"):
        MAKE[name](**given | {"horizon": 2**31 - 1})
    if name == "movielens_generated":
        with pytest.raises(ValueError, match=r" ratings, of 4 agents at horizon .* GiB of memory"):
            MAKE[name](**given | {"horizon": 2**31 - 2})
    else:
        assert MAKE[name](**given | {"horizon": 2**31 - 2}).horizon == 2**31 - 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: problems.activated_bernoulli(10**5, 10**5, 10),
        lambda: problems.from_function(lambda t: t, agents=10**5, arms=10**5, horizon=1),
        lambda: problems.linear(1000, 1000, 10, dimension=10**7),
        lambda: problems.switching(2, 2, 2**31 - 2, parts=2**31 - 2),
        lambda: networks.complete(10**5),
        lambda: networks.grid(10**5, 10**4),
        lambda: networks.square_grid(10**9),
        lambda: networks.ring(10**9),
        lambda: networks.path(10**9),
        lambda: networks.star(10**9),
        lambda: networks.random_geometric(10**6, 0.5),
        lambda: networks.erdos_renyi(10**6, 0.5),
        lambda: networks.two_clusters(10**5, 3),
        lambda: networks.preferential_attachment(10**7, 100),
        lambda: networks.from_edges(10**9, [(0, 1)]),
    ],
)
def test_what_memory_cannot_hold_is_refused(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_memory", lambda: 8.0 * 2**30)
    with pytest.raises(ValueError, match=r"would take .* GiB of memory .* this machine has 8; "):
        make()


def test_large_but_possible_networks_are_made() -> None:
    assert networks.grid(300, 300).agents == 90_000
    assert len(networks.complete(300).edges) == 300 * 299 // 2


PROBLEM = problems.activated_bernoulli(4, 3, 20)
GOSSIP = fb.gossip.max_degree(networks.grid(2, 2))


@pytest.mark.parametrize(
    "play",
    [
        lambda runs: fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=runs),
        lambda runs: simulate_each(PROBLEM, [fb.FedExp3()], GOSSIP, runs=runs),
        lambda runs: simulate_draws([PROBLEM], fb.FedExp3(), GOSSIP, runs=runs),
    ],
)
def test_too_many_runs_are_refused(
    play: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="runs must be at most 2,147,483,647, not 10,000,000,000"):
        play(10**10)
    monkeypatch.setattr(checks, "_memory", lambda: 2.0**30)
    with pytest.raises(ValueError, match=r"recorded of 100,000,000 runs would take .* has 1; "):
        play(10**8)


def test_too_many_hops_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_memory", lambda: 2.0**30)
    with pytest.raises(ValueError, match=r"on their way over 2,147,483,647 hops would take"):
        fb.simulate(PROBLEM, fb.Exp3Coop(0.1, hops=2**31 - 1), GOSSIP, runs=1)


@dataclass(frozen=True, eq=False)
class Own(fb.Problem):
    """A problem of a user's own, which nobody has checked."""

    agents: int = field(metadata={"static": True})
    arms: int = field(metadata={"static": True})
    horizon: int = field(metadata={"static": True})

    def losses(self, t: Any) -> Any:
        return np.zeros((self.agents, self.arms))


def test_problems_of_a_users_own_are_checked_too() -> None:
    with pytest.raises(ValueError, match=r"horizon must be at most 2,147,483,646, not 10,000"):
        fb.simulate(Own(4, 3, 10**13), fb.Uniform())
    with pytest.raises(ValueError, match=r"arms must be at most"):
        fb.simulate(Own(4, 2**63 - 1, 10), fb.Uniform())


# On the command line.


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_CONFIG)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("problem.horizon=10000000000000", "horizon must be at most 2,147,483,646, not 10,000,000"),
        ("problem.horizon=0x7fffffffffffffff", "horizon must be at most 2,147,483,646, not 9,223"),
        ("problem.arms=0x7fffffffffffffff", "arms must be at most 2,147,483,647, not 9,223,372"),
        (f"problem.horizon={10**30}", "horizon must be at most 2,147,483,646, not 1,000,000,000"),
        (f"network.rows={10**30}", "agents must be at most 2,147,483,647, not 2,000,000,000"),
        (f"runs={10**30}", "runs must be at most 2,147,483,647, not 1,000,000,000"),
        (f"runs=[2, {10**30}]", "runs must be at most 2,147,483,647, not 1,000,000,000"),
        (f"problem.horizon=[20, {10**30}]", "horizon must be at most 2,147,483,646, not 1,000,0"),
        (f"algorithm.learning_rate={10**400}", "must be a number that a float can hold, not 1000"),
        (f"problem.means=[{10**400}, 0, 1]", "[problem] with --set problem.means=[1000"),
    ],
)
def test_absurd_values_are_one_line(change: str, message: str, small: Path) -> None:
    failed = call("run", small, "--out", small.parent / "out", "--set", change)
    assert failed.exit_code == 2
    assert failed.stderr.startswith("error: ")
    assert message in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert not (small.parent / "out").exists()


def test_a_sweep_of_more_cells_than_anybody_can_play(small: Path) -> None:
    seeds = f"seed={list(range(1000))}"
    rates = f"algorithm.learning_rate={[rate / 1000 for rate in range(1000)]}"
    failed = call("run", small, "--set", seeds, "--set", rates)
    assert failed.exit_code == 2
    assert "1000 × 1000 values make 1,000,000 cells; a sweep has at most 100,000" in failed.stderr
    swept = f"algorithm=[{{name='FedExp3', learning_rate={list(range(1000))}, exploration=" + (
        f"{{name='power', a=0.5, c={list(range(1000))}}}}}]"
    )
    failed = call("run", small, "--set", swept)
    assert "1000 × 1000 values make 1,000,000 cells" in failed.stderr


def test_other_commands(small: Path) -> None:
    failed = call("tune", small, "--out", small.parent / "out", "--budget", str(10**30))
    assert "budget must be at most 10,000, not 1,000,000" in failed.stderr
    failed = call("network", f"complete:{10**30}")
    assert "agents must be at most 2,147,483,647, not 1,000,000" in failed.stderr
    for args in (["network", "grid:2,2", "--horizon"], ["reproduce", "figure1", "--runs"]):
        failed = call(*args, str(10**30))
        assert failed.exit_code == 2
        assert "Invalid value" in failed.stderr


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 9 TiB"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nallocating 9 bytes."),
    ],
)
def test_out_of_memory_is_one_line(
    error: Exception, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> None:
        raise error

    monkeypatch.setattr(config, "read_document", fails)
    failed = call("run", small)
    assert failed.exit_code == 2
    assert failed.stderr == f"error: out of memory: {' '.join(str(error).split())}\n"


def test_other_errors_keep_their_traceback(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(config, "read_document", fails)
    assert isinstance(call("run", small).exception, RuntimeError)


def test_a_container_has_less_memory_than_its_machine(tmp_path: Path) -> None:
    groups, root = tmp_path / "cgroup", tmp_path / "root"
    assert checks.container_memory(groups, root) == math.inf
    (root / "service" / "job").mkdir(parents=True)
    groups.write_text("1:cpu:/\n0::/service/job\n")
    assert checks.container_memory(groups, root) == math.inf
    (root / "service" / "job" / "memory.max").write_text("max\n")
    (root / "service" / "memory.max").write_text("1073741824\n")
    assert checks.container_memory(groups, root) == 2**30
