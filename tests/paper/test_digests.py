"""Digests of the losses that seeds draw: of every family, and the same on every machine."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.paper import digests
from fedbandits.paper.cells import cells_folder
from fedbandits.paper.section import Options, Section, load_section, run_part

PINNED = {
    "activated_bernoulli": "2e567aa2",
    "fixed_activation": "b5cd4d66",
    "bernoulli": "f4202116",
    "switching": "f89ad031",
    "switching_at_random": "e74ee04e",
    "taking_turns": "68ffc430",
    "drifting": "09697b9e",
    "newcomer": "f7c281ad",
    "heterogeneous": "6d193831",
    "delayed_experts": "44fc4174",
    "linear": "23faaa2e",
    "movielens_generated": "9a7a2098",
}
"""A change here makes kept results old: tests/test_fill.py then names those to run again."""


def test_every_seeded_family_has_its_pinned_digest() -> None:
    seeded = {
        name
        for name, make in fb.problems.REGISTRY.items()
        if "seed" in inspect.signature(make).parameters
    }
    assert set(digests.instances()) == seeded
    assert digests.digests() == PINNED


@pytest.mark.parametrize("name", digests.instances())
def test_no_last_bit_decides(name: str) -> None:
    """Where losses are no coins, none is within a hundred roundings of the next step."""
    problem = digests.instances()[name]
    steps = digests.STEPS * problem.block(1, problem.horizon).astype(np.float64)
    from_edge = np.abs(steps - np.floor(steps) - 0.5)
    assert from_edge.min() > 1000 * digests.STEPS * np.finfo(np.float32).eps / 10


def test_another_coin_is_another_digest() -> None:
    losses = np.random.default_rng(0).integers(0, 2, (8, 2, 3)).astype(np.float32)
    other = losses.copy()
    other[7, 1, 2] = 1 - other[7, 1, 2]
    first, second = (digests.digest(fb.problems.from_tensor(each)) for each in (losses, other))
    assert first != second
    assert digests.changed(digests.digests() | {"bernoulli": first}) == {"bernoulli"}


@pytest.mark.parametrize("stopped", [False, True])
def test_a_section_tells_its_draws_and_whether_it_was_stopped(
    tmp_path: Path, stopped: bool
) -> None:
    options = Options(tmp_path)
    if stopped:
        cells_folder(options, "suite").mkdir(parents=True)
    run_part("suite", lambda o: Section("suite", "Suite", o.command("suite")), options)
    found = load_section(tmp_path / "suite.json")
    assert (found.draws, found.resumed) == (digests.digests(), stopped)
    # Files that were written before sections told it are read.
    data = json.loads((tmp_path / "suite.json").read_text())
    del data["draws"], data["resumed"]
    (tmp_path / "suite.json").write_text(json.dumps(data))
    assert load_section(tmp_path / "suite.json").draws == {}
