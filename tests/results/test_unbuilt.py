"""A result prints the same before and after its dataset is built, and printing loads no xarray."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import fedbandits as fb
from fedbandits.results.result import Unbuilt
from fedbandits.results.summary import COLUMNS, text_table

FOUR = fb.gossip.max_degree(fb.networks.ring(4))


def problem(horizon: int = 60, **arguments: Any) -> fb.Problem:
    return fb.problems.activated_bernoulli(agents=4, arms=3, horizon=horizon, **arguments)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one run": {"runs": 1},
    "a liar": {"liars": {0: fb.attacks.swap()}},
    "blurred": {"privacy": fb.privacy.randomised_response(1.0)},
    "against the final arm": {"against": "final"},
    "with snapshots": {"record": "agents"},
    "on draws": {"draws": 2},
    "float64": {"dtype": "float64"},
}


@pytest.mark.parametrize("case", CASES)
def test_it_prints_what_its_dataset_says(case: str) -> None:
    result = fb.simulate(problem(), fb.FedExp3(), FOUR, **{"runs": 3, **CASES[case]})
    before = repr(result)
    assert isinstance(result.dataset, xr.Dataset)
    assert repr(result) == before
    assert repr(fb.Result(result.dataset, result.gossip)) == before


def test_names_are_printed() -> None:
    losses = np.random.default_rng(0).uniform(size=(30, 3, 2))
    named = replace(
        fb.problems.from_tensor(losses), agent_names=tuple("abc"), arm_names=("tea", "coffee")
    )
    result = fb.simulate(named, fb.Exp3(), runs=3)
    before = repr(result)
    assert "worst agent (" in before
    result.summary()
    assert repr(result) == before


def test_where_runs_have_losses_of_their_own() -> None:
    watching = fb.problems.hit_favourite(problem(40))
    result = fb.simulate(watching, fb.FedExp3(), FOUR, runs=3)
    before = repr(result)
    assert "uniform play, on these losses" in before
    result.summary()
    assert repr(result) == before


def test_the_table_is_that_of_pandas() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        scale = 10.0 ** rng.integers(-3, 5)
        values = rng.normal(size=(4, 3)) * scale
        values[rng.uniform(size=values.shape) < 0.2] = rng.choice([np.nan, 0.0, 0.5, 3.0, -1.0])
        rows = {f"row {'x' * i}": tuple(row.tolist()) for i, row in enumerate(values)}
        theirs = pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))
        assert text_table(rows) == theirs.round(2).to_string()


def test_it_is_built_once_and_the_same_when_replaced() -> None:
    result = fb.simulate(problem(), fb.FedExp3(), FOUR, runs=2)
    assert isinstance(result.held, Unbuilt)
    assert result.dataset is result.dataset
    assert replace(result, gossip=None).dataset is result.dataset
    assert result.dataset.attrs == result.held.attrs


@pytest.mark.slow
def test_a_simulation_that_is_printed_loads_no_xarray() -> None:
    code = (
        "import sys, fedbandits as fb\n"
        "problem = fb.problems.bernoulli([0.2, 0.6], horizon=20, agents=3)\n"
        "print(fb.simulate(problem, fb.Exp3(), runs=2))\n"
        "print(*sorted({'xarray', 'pandas', 'dask'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "best in hindsight" in done.stdout
    assert done.stdout.endswith("\n\n"), done.stdout
