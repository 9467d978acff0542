"""What the cells of a sweep share is read and made once."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedbandits import algorithms, gossip, networks, problems
from fedbandits.config import building
from fedbandits.sweeps.plan import Plan
from fedbandits.sweeps.workshop import Parcel, Workshop
from tests.sweeps.small_sweep import call


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every section that is made from here on, by name."""
    made: list[str] = []
    rooms = {"problem": problems, "network": networks, "gossip": gossip, "algorithm": algorithms}
    for section, room in rooms.items():
        registry: Any = room.REGISTRY
        for name, make in [*registry.items()]:

            def count(*args: Any, _make: Any = make, _section: str = section, **kwargs: Any) -> Any:
                made.append(_section)
                return _make(*args, **kwargs)

            # With what the class declares, such as its leaves.
            counted = functools.update_wrapper(count, make)
            monkeypatch.setitem(registry, name, counted)
    return made


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES_SHARED", 0), ("MOST_SHARED", 1)])
def test_what_is_shared_is_let_go_where_it_is_much(
    limit: str, value: int, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(str(plan.source))
    first, again = (workshop(plan.parcel(0))[0] for _ in range(2))
    assert again.simulation.problem is first.simulation.problem
    monkeypatch.setattr(building, limit, value)
    small = Workshop(str(plan.source))
    first, again = (small(plan.parcel(0))[0] for _ in range(2))
    assert again.simulation.gossip is not first.simulation.gossip


def test_a_file_is_read_and_its_cells_are_built_once(
    file: Path, tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    original = tomllib.loads

    def loads(text: str) -> dict[str, Any]:
        read.append(file)
        return original(text)

    monkeypatch.setattr(tomllib, "loads", loads)
    assert call("run", file, "--out", tmp_path / "out").exit_code == 0
    assert len(read) == 1
    # Of four cells; algorithms, which are a few numbers each, once more when they are played.
    assert sorted(made) == [*["algorithm"] * 8, "gossip", "network", "problem"]


def test_another_process_makes_what_batches_share_once(plan: Plan, made: list[str]) -> None:
    workshop = Workshop(str(plan.source))
    for numbers in plan.batches:
        configs = [plan.sweep.cells[i].config for i in numbers]
        workshop(Parcel(str(plan.source), configs, [plan.hashes[i] for i in numbers]))
    assert sorted(made) == [*["algorithm"] * 4, "gossip", "network", "problem"]
