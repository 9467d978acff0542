"""The engine asks XLA for the same programs as before, and for no more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from . import digests
from .__main__ import file_name
from .normal_form import normal_form
from .sequences import SEQUENCES
from .table import PLACED, PROGRAMS

QUICK = {"FedExp3", "GossipUCB", "privacy with liars"}
ROOT = Path(__file__).parents[3]


def slow(names: Any, quick: set[str]) -> list[Any]:
    """Return parameters of which few stay in `make quick`."""
    return [pytest.param(x, marks=() if x in quick else pytest.mark.slow) for x in names]


def text(name: str, folder: Path) -> str:
    """Return the text of a program; where devices are missing, another process has them."""
    if name not in PLACED or len(jax.devices("cpu")) >= 2:
        return PROGRAMS[name].text()
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    command = [sys.executable, "-m", "tests.engine.golden", name, "--texts", str(folder)]
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path}
    subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)
    return (folder / file_name(name)).read_text(encoding="utf-8").removesuffix("\n")


@pytest.mark.pinned
@pytest.mark.parametrize("name", slow(PROGRAMS, QUICK))
def test_a_program_is_what_it_was(name: str, tmp_path: Path) -> None:
    """Digests hold for one version of JAX; with another, a program is the same when made again."""
    found, pinned = digests.digest(text(name, tmp_path)), digests.pinned()
    if pinned["versions"] == digests.versions():
        assert found == pinned["programs"][name], (
            f"the program {name!r} has changed; to see how, run `python -m tests.engine.golden "
            f"--texts DIR {name!r}` on both commits and compare the files"
        )
    else:
        jax.clear_caches()
        assert found == digests.digest(text(name, tmp_path))


def test_every_program_is_pinned_and_none_is_left_over() -> None:
    assert list(PROGRAMS) == list(digests.pinned()["programs"])


@pytest.mark.parametrize("name", slow(SEQUENCES, {"seeds", "conditions"}))
def test_a_sequence_compiles_as_many_programs(name: str) -> None:
    assert SEQUENCES[name].count() == SEQUENCES[name].programs


def lowered(function: Any) -> str:
    return normal_form(jax.jit(function).lower(np.ones(3, np.float32), np.ones(3, np.float32)))


def test_names_and_calls_make_no_difference_but_operations_and_their_order_do() -> None:
    @jax.jit
    def helper(x: Any) -> Any:
        return jnp.sin(x) * 2

    def one(x: Any, y: Any) -> Any:
        return {"first": helper(x) - helper(y)}

    def other(a: Any, b: Any) -> Any:
        return [jax.jit(lambda u, v: jax.jit(helper)(u) - jnp.sin(v) * 2)(a, b)]

    assert lowered(one) == lowered(other)
    changed = {
        lowered(lambda x, y: helper(x) + helper(y)),
        lowered(lambda x, y: helper(y) - helper(x)),
        lowered(lambda x, y: -(helper(y) - helper(x))),
    }
    assert len(changed) == 3
    assert lowered(one) not in changed
