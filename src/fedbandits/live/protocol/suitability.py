"""The algorithms that live agents can run: they add to received values, or to a share of them."""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm

from .messages import Vector

_ROUNDS = 3
_TOLERANCE = 1e-9


class UnsuitableError(ValueError):
    """An algorithm that needs a common round or the simulator."""


def check_suitable(algorithm: AnyAlgorithm, arms: int, agents: int) -> dict[str, Vector]:
    """Reject algorithms that live agents cannot run.

    A ledger needs the agent's own contribution: what `update` adds, g, less the forgotten share
    1 - λ of the received values. This function tries the first rounds with numbers: if c more is
    received, the next message must be λ c larger, with the same λ in [0, 1] every time.

    Returns:
        λ of every entry, by average leaf; below 1 where the algorithm forgets.

    Raises:
        UnsuitableError: if the algorithm needs a common round, draws its noise from a simulator, or
            fails this trial.
    """
    name = type(algorithm).__name__
    floods = [leaf for leaf, how in algorithm.leaves.items() if how.combine == "flood"]
    why = algorithm.common_round
    if floods:
        why = f"it floods {', '.join(floods)}, which arrive a fixed number of rounds later"
    if algorithm.noised:
        why = (
            "its noise comes from a simulator, as floating-point numbers of a known seed; their "
            "last digits may reveal what they should hide (Mironov, 2012), so its ε would not be a "
            "guarantee"
        )
    if why is not None:
        raise UnsuitableError(
            f"{name} cannot live apart: {why}. FedExp3 can, like all algorithms that add to the "
            "values they received"
        )
    kept_shares: dict[str, Vector] = {}
    averages = [leaf for leaf, how in algorithm.leaves.items() if how.combine == "average"]
    for leaf in averages:
        shares = _shares(algorithm, leaf, arms, agents)
        one, within = shares[0], shares.min() > -_TOLERANCE and shares.max() < 1 + _TOLERANCE
        if not within or not np.allclose(shares, one, rtol=0, atol=_TOLERANCE):
            raise UnsuitableError(
                f"{name} cannot live apart: its {leaf!r} after a round is not the received value, "
                "or a fixed share of it, plus its own contribution, so no ledger can keep its "
                "average"
            )
        kept_shares[leaf] = np.where(one > 1 - _TOLERANCE, 1.0, one)
    return kept_shares


def _shares(algorithm: AnyAlgorithm, leaf: str, arms: int, agents: int) -> Vector:
    """Return the shares of 1 and of 2 more received that the next message has: `[trials, M]`."""
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
