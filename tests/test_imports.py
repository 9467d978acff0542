"""Importing the package loads nothing but itself; everything heavy waits until it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "jax scipy networkx cvxpy pyamg xarray pandas pyarrow matplotlib typer rich h5netcdf h5py dask "
    "tomlkit platformdirs filelock "
    "distributed"
)


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*{{m.partition('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_else() -> None:
    """So the command answers Ctrl-C from its first moment on."""
    assert not loaded_after("import fedbandits") & {"numpy", *HEAVY.split()}


def test_algorithms_load_numpy_only() -> None:
    loaded = loaded_after("import fedbandits as fb; fb.FedExp3, fb.networks, fb.gossip, fb.live")
    assert "numpy" in loaded
    assert not loaded & set(HEAVY.split())


PRESS = """
import os, signal, sys

class Press:
    @staticmethod
    def find_spec(name, path, target=None):
        if name == {!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press)
"""


@pytest.mark.parametrize("module", ["fedbandits.cli", "numpy", "typer", "fedbandits.cli.tune"])
def test_ctrl_c_while_the_command_loads_ends_in_a_line(tmp_path: Path, module: str) -> None:
    """It is pressed where a module is about to be imported."""
    (tmp_path / "sitecustomize.py").write_text(PRESS.format(module))
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", "fedbandits", "list"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


def test_sweeps_load_what_they_need_when_they_need_it() -> None:
    loaded = loaded_after("import fedbandits as fb, fedbandits.sweeps.run; fb.load_experiment")
    assert not loaded & set(HEAVY.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import fedbandits.engine.simulate",
        pytest.param("import fedbandits as fb; fb.simulate", marks=pytest.mark.soak),
    ],
)
def test_engine_needs_no_plotting_or_command_line(statement: str) -> None:
    loaded = loaded_after(statement)
    assert "jax" in loaded
    assert not loaded & {"matplotlib", "typer", "rich", "cvxpy", "xarray", "pandas", "networkx"}


def test_every_public_name_is_there() -> None:
    import fedbandits as fb
    from fedbandits.algorithms import REGISTRY

    assert all(hasattr(fb, name) for name in dir(fb))
    # And nothing that is not for users.
    assert dir(fb) == sorted({*fb.__all__, *REGISTRY, "__version__"})
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fb.nonsense  # noqa: B018


@pytest.mark.soak
def test_a_second_command_compiles_nothing(tmp_path: Path) -> None:
    """Commands keep compiled programs, in the user's cache folder and nowhere else."""
    (tmp_path / "small.toml").write_text(
        '[problem]\nname = "bernoulli"\nmeans = [0.2, 0.6]\nagents = 3\nhorizon = 40\n'
        '[algorithm]\nname = "Exp3"\n'
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "caches"), "JAX_LOG_COMPILES": "1"}
    command = [sys.executable, "-m", "fedbandits", "run", "small.toml", "--quiet"]
    hits = []
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        hits.append(done.stderr.count("Persistent compilation cache hit for 'jit_play_chunk'"))
    assert hits == [0, 1]
