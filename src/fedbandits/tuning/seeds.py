"""Seeds for tuning and fresh ones, never the same, and what they draw."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedbandits.common import checks
from fedbandits.problems import Problem


def stage_seeds(
    stage: Literal["tuning", "fresh"], count: int, seed: int, problem: Problem
) -> tuple[int, ...]:
    """Distinct 32-bit seeds: even ones for tuning, odd ones that are fresh, and never one given.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> stage_seeds("tuning", 2, 0, problem)
        (2968811710, 3677149158)
    """
    count = checks.whole(count, "draws", least=1)
    seed = checks.seed32(seed)
    avoided = {seed, problem.loss_seed}
    parity = 0 if stage == "tuning" else 1
    # Words that are the same or avoided are rare; twice as many and some are always enough.
    drawn = np.random.SeedSequence([seed, parity]).generate_state(2 * count + 8)
    found = dict.fromkeys((int(word) & ~1) | parity for word in drawn)
    return tuple(word for word in found if word not in avoided)[:count]


def draws_losses(problem: Problem) -> bool:
    """Whether another seed gives other losses."""
    return problem.loss_seed is not None


def redraw(problem: Problem, seed: int) -> Problem:
    """The same instance with its losses drawn anew; itself where losses are not drawn."""
    return problem.redraw(seed)


def in_words(count: int, redrawn: bool) -> str:
    """What so many seeds stand for."""
    if not redrawn:
        return "the same losses as ever"
    return "one draw of the losses" if count == 1 else f"{count} draws of the losses"
