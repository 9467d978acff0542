"""Reconstruction of an agent's arms and losses from its messages by a curious neighbour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedbandits.arrays import taken
from fedbandits.common import checks
from fedbandits.results.trajectory import Trajectory

Floats = npt.NDArray[np.float64]
Heard = dict[str, Floats]
"""Messages of one round, by leaf, `[N, R, M]`."""

TRACE = 0.01
"""Losses from here on count as ones that leave a trace."""


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction:
    """An attacker's estimate of a victim's arms and losses, and the truth: `[T - 1, R]` each.

    The last round is left out, since its message is never sent.

    Attributes:
        attacker: number of the attacker.
        victim: number of the victim.
        unseen: neighbours of the victim whose messages the attacker does not see.
        arm: the attacker's estimate.
        loss: the attacker's estimate, in [0, 1]; with full information, of the arm that was played.
        likeliest: the arm that the victim's distribution alone suggests.
        true_arm: the arm played.
        true_loss: its loss, before randomised response, if any.
    """

    attacker: int
    victim: int
    unseen: int
    arm: npt.NDArray[np.int64]
    loss: Floats
    likeliest: npt.NDArray[np.int64]
    true_arm: npt.NDArray[np.int64]
    true_loss: Floats

    @property
    def traced(self) -> npt.NDArray[np.bool_]:
        """Rounds whose loss was above 0: a loss of 0 moves no estimate, whatever was played."""
        return self.true_loss > TRACE

    @property
    def arms_found(self) -> float:
        """The share of arms found, of rounds that left a trace."""
        return _share(self.arm == self.true_arm, self.traced)

    @property
    def arms_guessed(self) -> float:
        """The share of arms found by the victim's distribution alone, of the same rounds."""
        return _share(self.likeliest == self.true_arm, self.traced)

    @property
    def losses_found(self) -> float:
        """The share of losses that are found to within a half: of coins, those that are right."""
        return float((np.abs(self.loss - self.true_loss) < 0.5).mean())

    @property
    def loss_error(self) -> float:
        """The median over all rounds of the distance between the loss found and the true one."""
        return float(np.median(np.abs(self.loss - self.true_loss)))

    @property
    def loss_spread(self) -> float:
        """The median distance of the true losses from their median: the error of who sees none."""
        return float(np.median(np.abs(self.true_loss - np.median(self.true_loss))))

    def __repr__(self) -> str:
        return (
            f"Reconstruction(agent {self.attacker} looks at {self.victim}, whose other neighbours "
            f"it hears but for {self.unseen}:\n"
            f"  arms found {self.arms_found:.1%}, by guessing {self.arms_guessed:.1%}, of "
            f"{self.traced.sum():,} rounds with a loss above 0\n"
            f"  losses found to {self.loss_error:.3f}, {self.losses_found:.1%} of them to within a "
            f"half; who sees nothing is off by {self.loss_spread:.3f})"
        )


def _share(found: npt.NDArray[np.bool_], of: npt.NDArray[np.bool_]) -> float:
    return float(found[of].mean()) if of.any() else float("nan")


def reconstruct(trajectory: Trajectory, attacker: int, victim: int) -> Reconstruction:
    """Reconstruct a neighbour's arms and losses from the messages that an attacker sees.

    The attacker has the algorithm and the gossip matrix, as all agents do, and a copy of the
    victim's state. In each round it tries every arm with a loss of 0 and of 1, computes the next
    message for each, and takes the arm and the loss nearest to the true message. Errors have the
    weight of the arm's probability, since estimates of rare arms vary more. Messages that the
    victim receives and the attacker does not are replaced by the victim's own message.

    Other attacks may find more: the result is a lower bound on the leak, and a small value is no
    evidence of safety.

    Args:
        trajectory: from `fb.trajectory`.
        attacker: an agent's number.
        victim: of a neighbour.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.bernoulli([0.3, 0.5, 0.7], horizon=50, agents=4)
        >>> gossip = fb.gossip.max_degree(fb.networks.complete(4))
        >>> played = fb.trajectory(problem, fb.FedExp3(), gossip)
        >>> fb.privacy.reconstruct(played, attacker=0, victim=1).arms_found
        1.0
    """
    if not isinstance(trajectory, Trajectory):
        raise TypeError(
            "reconstruct takes every round of a small simulation: "
            f"fb.trajectory(problem, algorithm, gossip), not {type(trajectory).__name__}"
        )
    if trajectory.algorithm.noised:
        raise ValueError(
            f"{type(trajectory.algorithm).__name__} sends noised sums of whole blocks, of which "
            "this attack, that looks at single rounds, makes nothing: no evidence either way"
        )
    seen = _SeenMessages(trajectory, attacker, victim)
    data = trajectory.dataset.isel(agent=victim)
    distribution = data["distribution"].transpose("time", "arm", "run").to_numpy()
    guess = _full if trajectory.algorithm.feedback == "full" else _bandit
    true_arm = data["action"].to_numpy()[:-1].astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):  # arms that cannot have been played
        arms, losses = guess(trajectory, seen, distribution, true_arm)
    return Reconstruction(
        attacker,
        victim,
        seen.unseen,
        arms,
        losses,
        distribution[:-1].argmax(axis=1),
        true_arm,
        data["loss"].to_numpy()[:-1].astype(np.float64),
    )


class _SeenMessages:
    """The messages that an attacker sees, and what it takes the victim to have received."""

    def __init__(self, trajectory: Trajectory, attacker: int, victim: int) -> None:
        gossip = trajectory.gossip
        if gossip is None or not trajectory.algorithm.leaves:
            raise ValueError(
                f"{type(trajectory.algorithm).__name__} sends nothing: there is nothing to see"
            )
        network = gossip.network
        for name, agent in (("attacker", attacker), ("victim", victim)):
            checks.whole(agent, name, least=0, most=network.agents - 1)
        linked = network.adjacency.toarray() > 0
        if not linked[attacker, victim]:
            raise ValueError(
                f"{attacker} and {victim} are no neighbours on {network.name}, so {attacker} sees "
                f"no message of {victim}; its neighbours are "
                f"{', '.join(map(str, np.flatnonzero(linked[attacker])))}"
            )
        sees = linked[attacker] | (np.arange(network.agents) == attacker)
        near = linked[victim]
        self.unseen = int((near & ~sees).sum())
        self._leaves = trajectory.algorithm.leaves
        self._hops = trajectory.algorithm.hops
        self._victim = victim
        self.agents = network.agents
        self._seen = np.flatnonzero(sees & near)
        self._weights = gossip.matrix.toarray()[self._seen, victim]
        within = network.within(self._hops).toarray() > 0
        within[victim, victim] = False
        self._flooded = np.flatnonzero(within[attacker] & within[victim])
        """Whose floods reach both."""
        self.messages = {
            name: np.moveaxis(values, -1, 1).astype(np.float64)
            for name, values in trajectory.messages.items()
        }

    def sent(self, t: int) -> Heard:
        """Return the victim's message of round t, `[M, R]` by leaf."""
        return {name: found[t - 1, ..., self._victim] for name, found in self.messages.items()}

    def received(self, t: int) -> Heard:
        """Return an estimate of what the victim received in round t, `[M, R]` by leaf."""
        return {name: self._combined(name, found, t) for name, found in self.messages.items()}

    def _combined(self, name: str, found: Floats, t: int) -> Floats:
        how = self._leaves[name].combine
        # A flood that arrives now was sent hops - 1 rounds ago.
        row = t - 1 - (self._hops - 1 if how == "flood" else 0)
        now = found[max(row, 0)]
        own, others = now[..., self._victim], now[..., self._seen]
        combined: Floats
        if how == "maximum":
            combined = np.maximum(own, others.max(axis=-1, initial=-np.inf))
        elif how == "flood":
            combined = (own + now[..., self._flooded].sum(axis=-1)) * (row >= 0)
        else:
            combined = others @ self._weights + (1 - self._weights.sum()) * own
        return combined


def _bandit(
    trajectory: Trajectory,
    seen: _SeenMessages,
    distribution: Floats,
    true_arm: npt.NDArray[np.int64],  # noqa: ARG001
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return arm and loss of every round except the last, `[T - 1, R]`."""
    rounds, arms, runs = distribution.shape
    algorithm = trajectory.algorithm
    # Every arm with a loss of 0 and of 1, side by side: [K, R, 2 K].
    tried = np.tile(np.arange(arms), 2)
    losses = np.repeat([0.0, 1.0], arms)
    found_arm = np.zeros((rounds - 1, runs), np.int64)
    found_loss = np.zeros((rounds - 1, runs))
    state = algorithm.init(arms, seen.agents, (runs, 1), np.float64)
    for t in range(1, rounds):
        wide = _widened(state, runs, 2 * arms)
        p = np.asarray(algorithm.distribution(wide, np.int64(t)))
        received = {name: x[..., None] + 0 * p[:1] for name, x in seen.received(t).items()}
        action = np.broadcast_to(tried, (runs, 2 * arms))
        feedback = np.broadcast_to(losses, (runs, 2 * arms))
        after = algorithm.update(wide, received, action, feedback, p, np.int64(t))
        told, came = algorithm.message(after), seen.sent(t + 1)
        arm, loss = _nearest(told, came, p[..., 0], arms)
        found_arm[t - 1], found_loss[t - 1] = arm, loss
        took = algorithm.update(
            state,
            {name: x[..., None] for name, x in seen.received(t).items()},
            arm[:, None],
            loss[:, None],
            p[..., :1],
            np.int64(t),
        )
        state = algorithm.hear(took, {name: x[..., None] for name, x in came.items()})
    return found_arm, found_loss


def _nearest(
    told: Mapping[str, Any], came: Heard, p: Floats, arms: int
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the arm and the loss whose message is nearest to the true one, `[R]` each.

    Messages are taken to move in a straight line between a loss of 0 and of 1.
    """
    # Σ over leaves and entries of (w (came - at_0 - ℓ (at_1 - at_0)))², least in ℓ: [R, K]
    across, square, start = 0.0, 0.0, 0.0
    for name, message in told.items():
        weight = (p if len(came[name]) == arms else np.ones_like(came[name]))[..., None]
        at_0, at_1 = np.asarray(message)[..., :arms], np.asarray(message)[..., arms:]
        gap, slope = weight * (came[name][..., None] - at_0), weight * (at_1 - at_0)
        across = across + (gap * slope).sum(axis=0)
        square = square + (slope**2).sum(axis=0)
        start = start + (gap**2).sum(axis=0)
    loss = np.clip(across / np.where(square > 0, square, 1.0), 0.0, 1.0)
    error = start - 2 * loss * across + loss**2 * square
    # Of arms that explain the message as well as another, the one that was likelier.
    least = error.min(axis=1, keepdims=True)
    close = error <= least + 1e-12 * (1 + start)
    arm = np.where(close, p.T, -1.0).argmax(axis=1)
    return arm, np.asarray(taken(loss.T, arm))


def _full(
    trajectory: Trajectory,
    seen: _SeenMessages,
    distribution: Floats,
    true_arm: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the losses, which show, and the likeliest arms, which do not show."""
    rounds, arms, runs = distribution.shape
    algorithm = trajectory.algorithm
    found_arm = distribution[:-1].argmax(axis=1)
    found_loss = np.zeros((rounds - 1, runs))
    state = algorithm.init(arms, seen.agents, (runs,), np.float64)
    for t in range(1, rounds):
        p = np.asarray(algorithm.distribution(state, np.int64(t)))
        received, came = seen.received(t), seen.sent(t + 1)
        arm = found_arm[t - 1]
        zeros = np.zeros((arms, runs))

        def then(losses: Floats, t: int = t, arm: Any = arm, p: Any = p) -> Any:
            return algorithm.update(state, received, arm, losses, p, np.int64(t))  # noqa: B023

        at_0, at_1 = (algorithm.message(then(x)) for x in (zeros, zeros + 1))
        estimates = [
            (came[name] - at_0[name]) / (at_1[name] - at_0[name])
            for name in came
            if np.all(at_1[name] != at_0[name])
        ]
        losses = np.clip(estimates[0], 0.0, 1.0) if estimates else zeros
        found_loss[t - 1] = taken(losses, true_arm[t - 1])
        state = algorithm.hear(then(losses), came)
    return found_arm, found_loss


def _widened(state: Any, runs: int, tries: int) -> Any:
    """Return a state `[..., R, 1]` as one of shape `[..., R, 2 K]`; scalars stay."""
    return type(state)(
        *(
            x if np.ndim(x) < 2 else np.broadcast_to(x, (*np.shape(x)[:-2], runs, tries))
            for x in state
        )
    )
