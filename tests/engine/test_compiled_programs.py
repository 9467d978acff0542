"""What XLA makes of a round on a CPU: few kernels, and nothing worked out again and again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from fedbandits.arrays import materialised, played, sample
from fedbandits.common.backend import on_cpu
from fedbandits.common.streams import ACTIONS, round_key, words
from fedbandits.engine.compile_cache import SWITCH

pytestmark = pytest.mark.skipif(not on_cpu(), reason="kernels of a CPU")


def kernels(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """The types of what the kernels of a compiled function write."""
    program = str(jax.jit(function).lower(*arguments).compile().as_text())
    return re.findall(r" = (\S+) fusion\(", program[program.index("ENTRY") :])


def test_a_drawn_arm_takes_one_kernel_however_many_arms_there_are() -> None:
    p, uniform = np.ones((20, 5, 36), np.float32), np.ones((5, 36), np.float32)
    assert len(kernels(sample, p, uniform)) <= 2


def test_an_arm_is_drawn_once_and_not_for_each_arm_that_it_is_compared_with() -> None:
    p, uniform = np.ones((20, 5, 36), np.float32), np.ones((5, 36), np.float32)
    made = kernels(lambda p, uniform: played(sample(p, uniform), p), p, uniform)
    assert any(kind.startswith("s32[5,36]") for kind in made), made


def test_the_key_of_a_round_is_hashed_once_and_not_for_each_number_drawn_from_it() -> None:
    def drawn(times: Any) -> Any:
        return jax.vmap(lambda t: words(round_key(ACTIONS, np.uint32(0), t), (5, 36)))(times)

    made = kernels(drawn, np.arange(1, 51))
    assert sum(kind.startswith("u32[50]") for kind in made) == 2, made  # its two words


@pytest.mark.soak
def test_a_first_simulation_compiles_two_programs() -> None:
    """Each costs its own time: small steps on the way are NumPy's."""
    code = (
        "import fedbandits as fb\n"
        "problem = fb.problems.activated_bernoulli(4, 3, 20)\n"
        "fb.simulate(problem, fb.FedExp3(), fb.gossip.max_degree(fb.networks.ring(4)), runs=4)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAX_LOG_COMPILES": "1", SWITCH: "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled = re.findall(r"Finished XLA compilation of jit\((\w+)\)", done.stderr)
    assert compiled == ["play_chunk", "_recommend"]


@pytest.mark.parametrize("kind", ["int8", "int32", "uint32", "float32"])
def test_what_is_materialised_stays_what_it_is(kind: str) -> None:
    most: Any = np.finfo(kind).max if kind.startswith("f") else np.iinfo(kind).max
    least: Any = np.finfo(kind).min if kind.startswith("f") else np.iinfo(kind).min
    x = np.array([[least, 0, 1], [most, 2, most - 1]], kind)
    found = jax.jit(materialised)(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)
    assert materialised(x) is x
