"""What a plain install can do, and what it says of the rest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import fedbandits
from fedbandits.common import extras
from tests.without import OPTIONAL, run_without

ROOT = Path(fedbandits.__file__).parents[2]


def test_the_table_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {"": project["dependencies"], **project["optional-dependencies"]}
    named = {
        (match[0], extra)
        for extra, requirements in brought.items()
        if extra not in ("dev", "all")
        for requirement in requirements
        if (match := re.match(r"\w+", requirement)) and match[0] != "fedbandits"
    }
    assert named == {(package.name, package.extra) for package in extras.PACKAGES}
    assert set(brought["all"]) == {"fedbandits[sim,solvers,cluster]"}


ONE_AGENT = """
import numpy as np
import fedbandits as fb

rng = np.random.default_rng(0)
agent = fb.FedExp3()
state = agent.init(arms=3, agents=1)
for t in range(1, 1001):
    p = agent.distribution(state, np.int32(t))
    arm = rng.choice(3, p=p / p.sum())
    loss = np.float32(rng.random() < (0.2, 0.5, 0.8)[arm])
    state = agent.update(state, agent.message(state), np.int32(arm), loss, p, np.int32(t))
print(agent.distribution(state, np.int32(1001)).argmax())
"""


def test_one_agent_plays_with_the_base_alone(tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-c", ONE_AGENT])
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("command", ["--help", "--version", "list", "run --help", "doctor"])
def test_commands_that_need_no_extra(command: str, tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-m", "fedbandits", *command.split()])
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr


SIM = "is not installed; it is needed for .*: pip install 'fedbandits\\[sim\\]'"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("fb.simulate", f"jax {SIM}"),
        ("fb.load_experiment('there')", f"xarray {SIM}"),
        ("fb.networks.grid(3, 3).adjacency", f"scipy {SIM}"),
        ("fb.load('there.nc')", f"xarray {SIM}"),
        ("fb.problems.bernoulli([0.1, 0.9], agents=2, horizon=3).losses(1)", f"jax {SIM}"),
        ("fb.problems.from_table('losses.csv')", f"pandas {SIM}"),
        ("fb.problems.movielens()", f"pyarrow {SIM}"),
        ("fb.networks.ring(5).draw()", f"matplotlib {SIM}"),
        ("fb.gossip.fastest(fb.networks.ring(5))", "cvxpy .* 'fedbandits\\[solvers\\]'"),
    ],
)
def test_what_is_missing_is_named_in_python(code: str, said: str, tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-c", f"import fedbandits as fb\n{code}"])
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(f"fedbandits.common.extras.MissingExtraError: {said}", last), done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("network grid:3,3", f"scipy {SIM}"),
        ("reproduce figure1 --out .", f"jax {SIM}"),
        ("plot result.nc", f"xarray {SIM}"),
    ],
)
def test_what_is_missing_is_named_by_commands(command: str, said: str, tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-m", "fedbandits", *command.split()])
    assert done.returncode == 2
    assert re.fullmatch(f"error: {said}\n", done.stderr), done.stderr


def test_others_may_look_for_what_they_can_do_without(tmp_path: Path) -> None:
    """The finder speaks to this package alone."""
    code = (
        "import importlib.util, fedbandits\n"
        "print(importlib.util.find_spec('jax'), fedbandits.common.extras.installed('jax'))\n"
        "import jax"
    )
    done = run_without(OPTIONAL, tmp_path, ["-c", code])
    assert done.stdout == "None False\n"
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'jax'"


def test_advice_is_for_packages_that_are_missing() -> None:
    assert extras.advice(ModuleNotFoundError("mine", name="mine")) is None
    assert extras.advice(ImportError("cannot import name 'x' from 'jax'", name="jax")) is None
    # Of another version than is needed, perhaps; but there.
    gone = ModuleNotFoundError("No module named 'jax.gone'", name="jax.gone")
    assert extras.advice(gone) is None
