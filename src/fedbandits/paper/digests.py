"""Digests of the losses that seeds draw: they show whether kept numbers are out of date."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

import numpy as np

import fedbandits as fb
from fedbandits.problems import Problem

AGENTS, ARMS, ROUNDS = 3, 5, 16
STEPS = 100
"""Steps to which a unit of loss is rounded: the last bits of some losses differ by device."""


def instances() -> dict[str, Problem]:
    """Return a small problem of every seeded family in `fb.problems`, by name."""
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
    """Return eight hexadecimal digits of all losses, the same on every machine.

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
    """Return the digest of every seeded family, by name."""
    return dict(_digests())


def changed(before: Mapping[str, str]) -> set[str]:
    """Return the families whose digests differ from earlier ones; new families do not count.

    Example:
        >>> changed(digests())
        set()
        >>> sorted(changed({"bernoulli": "elsewhere", "linear": digests()["linear"]}))
        ['bernoulli']
    """
    now = _digests()
    return {name for name, found in before.items() if now.get(name) != found}
