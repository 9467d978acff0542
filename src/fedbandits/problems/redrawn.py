"""Seeds by which the losses of a problem are drawn anew, where a seed draws them."""

from __future__ import annotations

import numpy as np

from .base import Problem


def loss_seeds(problem: Problem, draws: int) -> tuple[int, ...]:
    """A seed for each of several draws of the losses: the problem's own, and others made from it.

    Example:
        >>> import fedbandits as fb
        >>> loss_seeds(fb.problems.activated_bernoulli(4, 3, 100, seed=7), 3)
        (7, 1009178997, 4255937140)
    """
    first = problem.loss_seed
    if first is None:
        raise ValueError(
            f"the losses of {problem.title} are not drawn by a seed, so there is one draw of them "
            "alone; leave draws out, or give runs, which draw the agents' randomness anew. A "
            "problem of your own that has a seed derives from fedbandits.problems.base.Seeded, or "
            "says `loss_seed` and `redraw`"
        )
    # Words that are the same are rare; some more are always enough.
    words = np.random.SeedSequence([first, 2]).generate_state(draws + 8)
    return tuple(dict.fromkeys([first, *(int(word) for word in words)]))[:draws]
