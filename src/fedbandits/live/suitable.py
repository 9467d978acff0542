"""Which algorithms can live apart: those that add to what they received, round by round."""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm

_ROUNDS = 3


class UnsuitableError(ValueError):
    """An algorithm that cannot live without a round in common, or beyond the simulator."""


def check_suitable(algorithm: AnyAlgorithm, arms: int, agents: int) -> None:
    """Refuse what needs a common round, or a simulator, or does not add to what it received.

    The last is tried with numbers: with c more received, the next message must be c more. Only
    then is what `update` adds the agent's own, and may be counted in a ledger.
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
    if changed := _changed_otherwise(algorithm, arms, agents):
        raise UnsuitableError(
            f"{name} cannot live apart: its {changed!r} after a round is not what it received plus "
            "something of its own, so no ledger can keep its average"
        )


def _changed_otherwise(algorithm: AnyAlgorithm, arms: int, agents: int) -> str | None:
    """The first average leaf that does not add to what was received."""
    averages = [name for name, leaf in algorithm.leaves.items() if leaf.combine == "average"]
    state = algorithm.init(arms, agents, dtype=np.float64)
    feedback = np.full(arms, 0.5) if algorithm.feedback == "full" else np.float64(0.5)
    first = algorithm.rounds_before_gossip(arms)
    for t in map(np.int64, range(1, first + _ROUNDS + 1)):
        sent = algorithm.message(state)
        p = np.asarray(algorithm.distribution(state, t), np.float64)
        arm = np.int64(p.argmax())
        after = algorithm.update(state, sent, arm, feedback, p, t)
        for name in averages if t > first else ():
            more = dict(sent) | {name: sent[name] + 1.0}
            other = algorithm.message(algorithm.update(state, more, arm, feedback, p, t))
            plain = algorithm.message(after)
            if not np.allclose(other[name], plain[name] + 1.0, rtol=1e-9, atol=1e-9):
                return name
        state = after
    return None
