"""JAX does not survive a fork: who simulates in a forked process is told what to do instead."""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_A_CHILD = """
import os, signal, sys
import fedbandits as fb

def in_a_child(what):
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)
    signal.alarm(60)  # what hangs is ended
    try:
        print(what())
    except BaseException as error:
        print(f"{type(error).__name__}: {error}")
    sys.stdout.flush()
    os._exit(0)

problem = fb.problems.activated_bernoulli(agents=5, arms=3, horizon=12)

def play():
    return "played", fb.simulate(problem, fb.Exp3(), runs=1).dataset.sizes["time"]
"""


def said(script: str) -> list[str]:
    """What a process of its own prints; JAX warns of a fork on the other channel."""
    command = [sys.executable, "-c", IN_A_CHILD + script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("imported", ["", "fb.simulate"])
def test_a_process_forked_after_jax_started_is_refused(imported: str) -> None:
    """Also where the parent has not simulated, nor loaded the engine."""
    (line,) = said(f"import jax\n{imported}\njax.devices()\nin_a_child(play)")
    assert line.startswith(
        "RuntimeError: this process was forked from one in which JAX was at work"
    )
    assert 'multiprocessing.get_context("spawn")' in line
    assert "only in the children" in line


@pytest.mark.soak
def test_a_process_forked_before_jax_started_simulates() -> None:
    """The engine may be loaded: what counts is whether JAX was at work."""
    both = said("fb.simulate\nin_a_child(play)\nin_a_child(play)\nprint(play())\nin_a_child(play)")
    assert both[:3] == ["('played', 12)"] * 3
    assert both[3].startswith("RuntimeError: this process was forked")
    assert len(both) == 4
