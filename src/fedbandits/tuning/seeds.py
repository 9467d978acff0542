"""Seeds for tuning and fresh ones, never the same, and losses drawn anew from them."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from fedbandits import checks
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
    own = _seed_of(problem)
    avoided = {seed} if own is None else {seed, own}
    parity = 0 if stage == "tuning" else 1
    # Words that are the same or avoided are rare; twice as many and some are always enough.
    drawn = np.random.SeedSequence([seed, parity]).generate_state(2 * count + 8)
    found = dict.fromkeys((int(word) & ~1) | parity for word in drawn)
    return tuple(word for word in found if word not in avoided)[:count]


def draws_losses(problem: Problem) -> bool:
    """Whether another seed gives other losses."""
    return _seed_of(problem) is not None


def redraw(problem: Problem, seed: int) -> Problem:
    """The same instance with its losses drawn anew; itself where losses are not drawn.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.switching(agents=3, arms=5, horizon=100, seed=1)
        >>> other = redraw(problem, 2)
        >>> int(other.seed), bool((other.best_arms == problem.best_arms).all())
        (2, True)
    """
    if not draws_losses(problem):
        return problem
    opened: Any = problem
    if isinstance(getattr(problem, "problem", None), Problem):
        changes: dict[str, Any] = {"problem": redraw(opened.problem, seed)}
    else:
        changes = {"seed": seed if isinstance(opened.seed, int) else np.uint32(seed)}
    redrawn: Problem = dataclasses.replace(opened, **changes)
    return redrawn


def _seed_of(problem: Any) -> int | None:
    """The seed of the losses, also of a problem inside a problem; None where there is none."""
    inner = getattr(problem, "problem", None)
    if isinstance(inner, Problem):
        return _seed_of(inner)
    fields = dataclasses.fields(problem) if dataclasses.is_dataclass(problem) else ()
    return int(problem.seed) if "seed" in {field.name for field in fields} else None


def in_words(count: int, redrawn: bool) -> str:
    """What so many seeds stand for."""
    if not redrawn:
        return "the same losses as ever"
    return "one draw of the losses" if count == 1 else f"{count} draws of the losses"
