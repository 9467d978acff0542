"""What a plain install can do, and what it says of the rest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import fedbandits
from fedbandits.algorithms import REGISTRY
from fedbandits.common import extras
from tests.without import OPTIONAL, run_without

ROOT = Path(fedbandits.__file__).parents[2]


def test_the_table_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {"": project["dependencies"], **project["optional-dependencies"]}
    named = {
        (match[0], extra)
        for extra, requirements in brought.items()
        if extra not in ("dev", "docs", "gallery", "all")
        for requirement in requirements
        if (match := re.match(r"[\w-]+", requirement)) and match[0] != "fedbandits"
    }
    assert named == {
        (package.installed_as or package.name, package.extra) for package in extras.PACKAGES
    }
    assert set(brought["all"]) == {"fedbandits[sim,solvers,cluster,live]"}


EVERY_AGENT = """
import numpy as np
import fedbandits as fb
from fedbandits.algorithms import REGISTRY

rng = np.random.default_rng(0)
gossip = fb.gossip.max_degree(fb.networks.ring(5))
setting = fb.Setting(arms=3, agents=5, gossip=gossip, actions=rng.normal(size=(3, 2)))
# Its own rate is chosen by the network, for which SciPy is needed.
given = {"Exp3Coop": {"learning_rate": 0.5}}
for name, kind in REGISTRY.items():
    agent = kind(**given.get(name, {})).set_up(setting)
    state = agent.init(arms=3, agents=5)
    for t in map(np.int32, range(1, 21)):
        p = agent.distribution(state, t)
        arm = np.int32(rng.choice(3, p=p / p.sum()))
        losses = rng.random(3, dtype=np.float32)
        seen = losses if agent.feedback == "full" else losses[arm]
        state = agent.update(state, agent.message(state), arm, seen, p, t)
    print(name)
"""


def test_every_algorithm_plays_with_the_base_alone(tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-c", EVERY_AGENT])
    assert (done.stdout.split(), done.stderr) == (list(REGISTRY), "")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "--version", "list", "run --help", "doctor"])
def test_commands_that_need_no_extra(command: str, tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-m", "fedbandits", *command.split()])
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr


SIM = "is not installed; it is needed for .*: pip install 'fedbandits\\[sim\\]'"


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("network grid:3,3", f"scipy {SIM}"),
        ("reproduce figure1 --out .", f"jax {SIM}"),
        ("plot result.nc", f"matplotlib {SIM}"),
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
