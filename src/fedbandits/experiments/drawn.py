"""Which losses seeds draw today: what tells whether a number was measured on the same."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

import numpy as np

import fedbandits as fb
from fedbandits.problems import Problem

AGENTS, ARMS, ROUNDS = 3, 5, 16
STEPS = 100
"""To a unit of loss: where losses are no coins, devices differ in their last bits."""


def instances() -> dict[str, Problem]:
    """A small one of every family in `fb.problems` that a seed draws, by name."""
    problems, sizes = fb.problems, (AGENTS, ARMS, ROUNDS)
    means = np.linspace(0.2, 0.8, ARMS)
    return {
        "activated_bernoulli": problems.activated_bernoulli(*sizes),
        "fixed_activation": problems.fixed_activation(*sizes),
        "bernoulli": problems.bernoulli(means, ROUNDS, agents=AGENTS),
        "switching": problems.switching(*sizes),
        "switching_at_random": problems.switching_at_random(*sizes, spread=0.2),
        "taking_turns": problems.taking_turns(*sizes, period=4, spread=0.2),
        "drifting": problems.drifting(*sizes, spread=0.2),
        "newcomer": problems.newcomer(*sizes, spread=0.05),
        "heterogeneous": problems.heterogeneous(*sizes),
        "delayed_experts": problems.delayed_experts(*sizes, cluster=2, block=2),
        "linear": problems.linear(*sizes, dimension=3),
        "movielens_generated": problems.movielens_generated(AGENTS, ROUNDS),
    }


def digest(problem: Problem) -> str:
    """Eight hexadecimal digits of all its losses, the same on every machine.

    Example:
        >>> first, other = (fb.problems.bernoulli([0.5, 0.5], 64, agents=1, seed=s) for s in (0, 1))
        >>> digest(first) == digest(first), digest(first) == digest(other)
        (True, False)
    """
    losses = problem.block(1, problem.horizon)
    steps = np.rint(STEPS * losses.astype(np.float64)).astype("<i4")
    return hashlib.sha256(steps.tobytes()).hexdigest()[:8]


@functools.cache
def _digests() -> Mapping[str, str]:
    return {name: digest(problem) for name, problem in instances().items()}


def digests() -> dict[str, str]:
    """Of every family that a seed draws, by name; made once."""
    return dict(_digests())


def changed(before: Mapping[str, str]) -> set[str]:
    """The families whose draws are no longer what they were; one that is new has not changed.

    Example:
        >>> changed(digests())
        set()
        >>> sorted(changed({"bernoulli": "elsewhere", "linear": digests()["linear"]}))
        ['bernoulli']
    """
    now = _digests()
    return {name for name, found in before.items() if now.get(name) != found}
