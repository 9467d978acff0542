"""`fedbandits doctor`: what is there, what is missing, and where things lie."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from fedbandits.common import extras
from fedbandits.data import embedded
from fedbandits.engine import compile_cache
from tests.cli.test_cli import call
from tests.instances import SMALL_CONFIG
from tests.without import OPTIONAL, run_without


def test_all_that_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(compile_cache, "kept_in", lambda: str(tmp_path / "programs"))
    done = call("doctor")
    assert done.exit_code == 0, done.stderr
    rows = {words[0]: words for line in done.stdout.splitlines() if (words := line.split())}
    assert rows["numpy"][1] == np.__version__
    assert rows["jax"][1:3] == [jax.__version__, "sim"]
    assert rows["cvxpy"][2] == "solvers"
    assert all(package.name in rows for package in extras.PACKAGES)
    assert "nothing is missing\n" in done.stdout
    assert f"JAX devices: {len(jax.devices())} × {jax.default_backend()} " in done.stdout
    assert f"compiled programs: {tmp_path / 'programs'}\n" in done.stdout
    assert f"data: {tmp_path / 'fedbandits'}\n" in done.stdout
    assert f"ratings: {embedded()}\n" in done.stdout


def test_what_is_missing_for_what(tmp_path: Path) -> None:
    done = run_without(OPTIONAL, tmp_path, ["-m", "fedbandits", "doctor"])
    assert "missing: cvxpy, clarabel, pyamg; to get them: pip install 'fedbandits[solvers]'\n" in (
        done.stdout
    )
    assert "missing: distributed; to get it: pip install 'fedbandits[cluster]'\n" in done.stdout
    assert "JAX devices: none (jax is not installed; " in done.stdout
    assert "compiled programs: are not kept\n" in done.stdout
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("  cvxpy"))
    assert row[1:6] == ["missing", "solvers", "the", "fastest", "gossip"]


def test_jax_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no\ndriver")

    monkeypatch.setattr(jax, "devices", fail)
    assert "JAX devices: none (no driver)\n" in call("doctor").stdout


def test_a_setting_that_jax_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "two")
    done = run_without((), tmp_path, ["-m", "fedbandits", "doctor"])
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"\nJAX devices: none \(.*two.*\)\ncompiled programs: are not kept\n", done.stdout
    )
    assert "\nratings: " in done.stdout


def test_jax_that_does_not_fit_its_library(tmp_path: Path) -> None:
    start = "import runpy, jaxlib.version as v; v.__version__ = '99.0.0'; "
    start += "import sys; sys.argv = ['fedbandits', 'doctor']; "
    start += "runpy.run_module('fedbandits', run_name='__main__')"
    done = run_without((), tmp_path, ["-c", start])
    assert done.returncode == 0, done.stderr
    assert "JAX devices: none (jaxlib version 99.0.0 is newer than" in done.stdout
    assert "\nratings: " in done.stdout


def test_a_cache_that_is_switched_by_a_word_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(compile_cache.SWITCH, "0")
    done = call("doctor")
    assert done.exit_code == 0, done.stderr
    assert f"compiled programs: {compile_cache.SWITCH} is '0'; it may be 'off'" in done.stdout


def test_a_file_says_how_it_would_be_played(tmp_path: Path) -> None:
    """The executor, and why no faster one plays; nothing is played or written."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL_CONFIG)
    done = call("doctor", path)
    assert done.exit_code == 0, done.output
    assert "1 simulation in one program on cpu" in done.stdout
    assert "played by the plain executor; not by kernels: kernels need a GPU" in done.stdout
    changed = ["--set", "network={name='grid',rows=200,cols=200}", "--set", "problem.agents=40000"]
    done = call("doctor", path, *changed)
    assert "played by the tiles executor" in done.stdout
    private = [*changed, "--set", "privacy.epsilon=1.0"]
    done = call("doctor", path, *private)
    assert "not by tiles: the simulation has privacy" in done.stdout
    assert sorted(tmp_path.iterdir()) == [path]
