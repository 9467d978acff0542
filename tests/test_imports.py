"""Importing the package loads nothing but itself; everything heavy waits until it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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


PUBLIC = {
    "": """
        AcceleratedFedExp3 Algorithm BlockGossip Comparison DelayedFTRL Exp3 Exp3Coop FedExp3
        FedFTRL FedHedge Gossip GossipUCB HeldFedExp3 Leaf LinearBlockGossip Milestone Network
        NotFederatedError PrivateFedExp3 Problem Result Setting SharingFedExp3 TrackingFedExp3
        Uniform __version__ accelerated attacks bounds check_federated compare gossip live load
        load_experiment networks plot privacy problems schedules simulate trajectory tuning
    """,
    "accelerated": "steps",
    "attacks": "defame promote swap",
    "bounds": "forgetting_bound",
    "gossip": """
        Gossip clipped fastest from_matrix max_degree metropolis none random_edge unreliable
    """,
    "live": """
        Agent Away BlockingAgent ChoiceError ClockJump ConflictingChoiceError
        ConflictingObservationError CorruptJournalError ExpiredTicketError Faults Federation
        InUseError Journal JournalError KeysError Links LossWindow MeanLosses MemoryNetwork
        MemoryStore Neighbour ObservationError Part Partition Service Status StoppedError Store
        Ticket TlsTransport Transport UnknownTicketError UnsuitableError read_journal rehearse serve
        write_keys
    """,
    "networks": """
        Network complete erdos_renyi from_adjacency from_edges from_networkx grid path
        preferential_attachment random_geometric read_graphml ring square_grid star two_clusters
    """,
    "privacy": "randomised_response reconstruct",
    "problems": """
        Adaptive Problem activated_bernoulli adaptive bernoulli cdn crowded delayed_experts drifting
        fixed_activation from_function from_table from_tensor heterogeneous hit_favourite linear
        movielens movielens_generated newcomer scaled switching switching_at_random taking_turns
        warming_cache
    """,
    "schedules": "Schedule anytime constant mixing_aware power small_loss",
    "tuning": "Choice Report choose redraw report",
}
"""The public names of the package, and of each of its public modules."""


def test_public_names() -> None:
    import fedbandits as fb

    modules = {name for name in fb.__all__ if isinstance(getattr(fb, name), ModuleType)}
    assert modules | {""} == set(PUBLIC)
    for module, names in PUBLIC.items():
        there: Any = getattr(fb, module) if module else fb
        assert dir(there) == sorted(names.split())
        assert all(hasattr(there, name) for name in dir(there))
    assert sum(len(names.split()) for names in PUBLIC.values()) <= 165
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
