"""The same problem with its losses drawn anew, where a seed draws them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .base import Problem


def draws_losses(problem: Problem) -> bool:
    """Whether another seed gives other losses."""
    return seed_of(problem) is not None


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


def seed_of(problem: Any) -> int | None:
    """The seed of the losses, also of a problem inside a problem; None where there is none."""
    inner = getattr(problem, "problem", None)
    if isinstance(inner, Problem):
        return seed_of(inner)
    fields = dataclasses.fields(problem) if dataclasses.is_dataclass(problem) else ()
    return int(problem.seed) if "seed" in {field.name for field in fields} else None


def loss_seeds(problem: Problem, draws: int) -> tuple[int, ...]:
    """A seed for each of several draws of the losses: the problem's own, and others made from it.

    Example:
        >>> import fedbandits as fb
        >>> loss_seeds(fb.problems.activated_bernoulli(4, 3, 100, seed=7), 3)
        (7, 1009178997, 4255937140)
    """
    own = seed_of(problem)
    if own is None:
        raise ValueError(
            f"the losses of {problem.title} are not drawn by a seed, so there is one draw of them "
            "alone; leave draws out, or give runs, which draw the agents' randomness anew"
        )
    # Words that are the same are rare; some more are always enough.
    words = np.random.SeedSequence([own, 2]).generate_state(draws + 8)
    return tuple(dict.fromkeys([own, *(int(word) for word in words)]))[:draws]
