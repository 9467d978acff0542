"""Compiled programs are kept for the next process, where nobody chose otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import platformdirs
import pytest

from fedbandits.engine.compile_cache import SWITCH, keep_compiled_programs, kept_in

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_min_compile_time_secs",
)

SIMULATION = """
import fedbandits as fb

problem = fb.problems.bernoulli([0.2, 0.6], horizon=40, agents=3)
print(fb.simulate(problem, fb.Exp3(), runs=2))
"""


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """JAX as it is in a new process, and the user's folder for caches."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    for name, value in zip(SETTINGS, (None, -1, 1.0), strict=True):
        jax.config.update(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv(SWITCH, raising=False)
    yield tmp_path / "caches"
    for name, value in before.items():
        jax.config.update(name, value)


def settings() -> list[object]:
    return [getattr(jax.config, name) for name in SETTINGS]


def test_where_nothing_is_chosen_they_are_kept_by_kind_of_processor(untouched: Path) -> None:
    folder = kept_in()
    assert folder is not None
    assert Path(folder).parent == untouched / "fedbandits"
    assert Path(folder).is_dir()
    assert settings() == [folder, 500 * 2**20, 0.1]


def test_a_folder_that_the_user_chose_is_left_alone(untouched: Path) -> None:
    jax.config.update("jax_compilation_cache_dir", "chosen")
    keep_compiled_programs()
    assert settings() == ["chosen", -1, 1.0]
    assert not untouched.exists()


def test_limits_that_the_user_chose_are_left_alone(untouched: Path) -> None:
    jax.config.update("jax_compilation_cache_max_size", 2**30)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 5.0)
    assert kept_in() is not None
    assert settings()[1:] == [2**30, 5.0]
    assert untouched.exists()


def test_turned_off(untouched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert kept_in() is None
    assert settings() == [None, -1, 1.0]
    assert not untouched.exists()


@pytest.mark.parametrize("value", ["0", "no", "/scratch/programs"])
def test_a_word_that_says_nothing_is_refused(
    untouched: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Else programs would be kept where somebody wrote that they should not, or elsewhere."""
    monkeypatch.setenv(SWITCH, value)
    with pytest.raises(ValueError, match=f"{SWITCH} is '{value}'; .* JAX_COMPILATION_CACHE_DIR"):
        keep_compiled_programs()
    assert not untouched.exists()


@pytest.mark.parametrize("value", ["", "on", "ON"])
def test_turned_on(untouched: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert kept_in() is not None
    assert untouched.exists()


def test_turned_off_in_jax(untouched: Path) -> None:
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        assert kept_in() is None
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    assert not untouched.exists()


@pytest.mark.usefixtures("untouched")
def test_no_home_is_no_folder_called_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: Path("~/.cache/x"))
    assert kept_in() is None
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("untouched")
def test_a_home_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "caches").write_text("a file where the folder should be")
    assert kept_in() is None
    (tmp_path / "caches").unlink()
    monkeypatch.setattr(os, "access", lambda *_: False)  # as root all is writable
    assert kept_in() is None
    assert settings() == [None, -1, 1.0]


def simulated(caches: Path, **environment: str) -> tuple[int, str]:
    """A simulation in a new process: how many of its programs were kept, and what it printed."""
    chosen = {
        "XDG_CACHE_HOME": str(caches),
        "JAX_LOG_COMPILES": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # however quick the machine
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SIMULATION],
        env={**os.environ, **chosen, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.count("Persistent compilation cache hit for 'jit_play_chunk'"), done.stdout


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_finds_the_same(tmp_path: Path) -> None:
    hits, first = simulated(tmp_path)
    assert hits == 0
    assert simulated(tmp_path) == (1, first)
    # JAX's own key has the flags and the devices in it.
    assert simulated(tmp_path, XLA_FLAGS="--xla_force_host_platform_device_count=3")[0] == 0
    kept = sorted(tmp_path.rglob("*-cache"))
    assert kept
    for file in kept:
        file.write_bytes(b"cut off")
    assert simulated(tmp_path) == (0, first)


@pytest.mark.soak
def test_switched_off_nothing_is_written(tmp_path: Path) -> None:
    simulated(tmp_path, **{SWITCH: "off"})
    assert not list(tmp_path.iterdir())
