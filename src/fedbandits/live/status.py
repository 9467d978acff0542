"""What an agent tells about itself: to operators, dashboards and `fedbandits live status`."""

from __future__ import annotations

import msgspec


class Neighbour(msgspec.Struct, frozen=True):
    """A neighbour, as an agent sees it.

    Attributes:
        weight: of the edge.
        silent_for: seconds since it was last heard from; None if never since the start.
        left: whether it has said goodbye.
        refused: how many of its messages were not believed.
        reasons: how many of those for which reason: `file` if it has another file of the
            federation, which says otherwise of the edge; `game` if it plays other arms or another
            algorithm; `protocol` if it has another version; `stale` if it was repeated or late;
            `numbers`; `large`; `ledger`; `message` if it was none.
        last_refusal: why the last of those was not.
        disagreement: the largest difference between its estimates and the agent's; None if it was
            never heard from.
        no_link: why there is no link to it now; None if there is one, or nobody knows.
    """

    weight: float
    silent_for: float | None
    left: bool
    refused: int
    reasons: dict[str, int]
    last_refusal: str | None
    disagreement: float | None
    no_link: str | None = None


class LossWindow(msgspec.Struct, frozen=True):
    """Mean losses over a window of time.

    Attributes:
        since: The beginning of the window, in seconds since 1970.
        observed: Number of observations.
        loss: The mean loss of the arms played, in the units of the application; none without
            observations.
        reward: The same as a reward, which is low + high - loss.
        arm_observed: Number of observations of each arm's loss, in the order of the arms: the
            rounds in which the arm was played, or with full information all rounds with that arm.
        arm_loss: The mean of these losses for each arm; none without observations.
    """

    since: float
    observed: int
    loss: float | None
    reward: float | None
    arm_observed: tuple[int, ...]
    arm_loss: tuple[float | None, ...]


class MeanLosses(msgspec.Struct, frozen=True):
    """Mean observed losses. Expired tickets are not observations.

    Attributes:
        low: The smallest possible loss or reward.
        high: The largest possible loss or reward.
        rewards: Whether the last observation was a reward.
        noise: With epsilon, the largest standard error of an estimate from one noisy bit. With n
            bits it is smaller by the square root of n. None without epsilon.
        windows: The windows by name. `hour`, `day` and `week` hold the current one (UTC) and the
            one before; `all` holds everything since the first observation.
    """

    low: float
    high: float
    rewards: bool
    noise: float | None
    windows: dict[str, LossWindow]


class Status(msgspec.Struct, frozen=True):
    """An agent at one moment.

    Attributes:
        name: of the agent.
        version: of fedbandits.
        federation_version: of the federation's file that it has.
        algorithm: its name.
        arms: their names.
        probabilities: what the next choice is drawn from, in the order of the arms.
        recommended: the arm that is likeliest.
        rounds: choices so far.
        observed: how many of them were observed.
        expired: how many expired.
        open_tickets: how many wait for their loss.
        disagreement: the largest difference to what a neighbour last sent.
        gossips: False while first rounds, in which nothing may be exchanged, are not yet observed.
        agents: N.
        gossip_period: seconds between two exchanges over an edge.
        neighbours: by name.
        uptime: seconds since the start.
        time: seconds since 1970.
        certificate_expires: when its certificate does, in seconds since 1970; None without keys.
        authority_expires: the same of the authority's.
        epsilon: ε per round for the losses of this agent (event level), even if all others collude;
            arms are public. None for no guarantee.
        baseline: what is played each time, if the agent is an apprentice; None if it plays freely.
        losses: Mean observed losses; none before the first observation.
    """

    name: str
    version: str
    federation_version: int
    algorithm: str
    arms: tuple[str, ...]
    probabilities: tuple[float, ...]
    recommended: str
    rounds: int
    observed: int
    expired: int
    open_tickets: int
    disagreement: float
    gossips: bool
    agents: int
    gossip_period: float
    neighbours: dict[str, Neighbour]
    uptime: float
    time: float
    certificate_expires: float | None = None
    authority_expires: float | None = None
    epsilon: float | None = None
    baseline: str | None = None
    losses: MeanLosses | None = None
