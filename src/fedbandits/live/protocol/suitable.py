"""Which algorithms can live apart: those that add to what they received, or to a share of it."""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm

from .messages import Vector

_ROUNDS = 3
_CLOSE = 1e-9


class UnsuitableError(ValueError):
    """An algorithm that cannot live without a round in common, or beyond the simulator."""


def check_suitable(algorithm: AnyAlgorithm, arms: int, agents: int) -> dict[str, Vector]:
    """Refuse what needs a common round, or a simulator, or does not add to what it received.

    The last is tried with numbers, in the first rounds: with c more received, the next message must
    be λ c more, with the same λ in [0, 1]. Only then is what `update` adds, g, and takes away,
    1 - λ of what it received, the agent's own, and may be counted in a ledger.

    Returns:
        λ of every entry, by average leaf: below 1 where the algorithm forgets.
    """
    name = type(algorithm).__name__
    floods = [leaf for leaf, how in algorithm.leaves.items() if how.combine == "flood"]
    why = algorithm.common_round
    if floods:
        why = f"it floods {', '.join(floods)}, which arrive a fixed number of rounds later"
    if algorithm.noised:
        why = (
            "its noise is a simulator's, floating-point numbers of a known seed, and whoever sees "
            "their last digits may tell what they should hide (Mironov, 2012): its ε would be no "
            "guarantee"
        )
    if why is not None:
        raise UnsuitableError(
            f"{name} cannot live apart: {why}. FedExp3 can, and all that add to what they received"
        )
    kept: dict[str, Vector] = {}
    averages = [leaf for leaf, how in algorithm.leaves.items() if how.combine == "average"]
    for leaf in averages:
        shares = _shares(algorithm, leaf, arms, agents)
        one, within = shares[0], shares.min() > -_CLOSE and shares.max() < 1 + _CLOSE
        if not within or not np.allclose(shares, one, rtol=0, atol=_CLOSE):
            raise UnsuitableError(
                f"{name} cannot live apart: its {leaf!r} after a round is not what it received, or "
                "a fixed share of that, plus something of its own, so no ledger can keep its "
                "average"
            )
        kept[leaf] = np.where(one > 1 - _CLOSE, 1.0, one)
    return kept


def _shares(algorithm: AnyAlgorithm, leaf: str, arms: int, agents: int) -> Vector:
    """How much of 1 and of 2 more received the next message of some rounds has: `[tries, M]`."""
    state = algorithm.init(arms, agents, dtype=np.float64)
    feedback = np.full(arms, 0.5) if algorithm.feedback == "full" else np.float64(0.5)
    first = algorithm.rounds_before_gossip(arms)
    shares = []
    for t in map(np.int64, range(1, first + _ROUNDS + 1)):
        sent = algorithm.message(state)
        p = np.asarray(algorithm.distribution(state, t), np.float64)
        arm = np.int64(p.argmax())
        after = algorithm.update(state, sent, arm, feedback, p, t)
        for more in (1.0, 2.0) if t > first else ():
            received = dict(sent) | {leaf: sent[leaf] + more}
            other = algorithm.message(algorithm.update(state, received, arm, feedback, p, t))
            shares.append((other[leaf] - algorithm.message(after)[leaf]) / more)
        state = after
    return np.stack(shares)
