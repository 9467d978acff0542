"""The status of an agent, for operators, dashboards and `fedbandits live status`."""

from __future__ import annotations

import msgspec

from fedbandits.live.protocol.loss_sums import MeanLosses


class Neighbour(msgspec.Struct, frozen=True):
    """A neighbour, from the agent's point of view.

    Attributes:
        weight: The weight of the edge.
        silent_for: Seconds since the neighbour's last message; none before the first message.
        left: Whether the neighbour has announced that it leaves.
        refused: Number of rejected messages of the neighbour.
        reasons: Number of rejected messages by reason. `file`: the neighbour's federation file has
            other terms for the edge. `game`: it has other arms or another algorithm. `protocol`:
            it has another protocol version. `stale`: repeated or late. `numbers`: impossible
            values. `large`: too many bytes. `ledger`: impossible flows or incarnations.
            `message`: not a message.
        last_refusal: The reason for the last rejection, as a sentence; none without rejections.
        disagreement: The largest difference between the neighbour's estimates and the agent's;
            none before the first message.
        no_link: The reason for a missing link; none if the link exists or the reason is unknown.
    """

    weight: float
    silent_for: float | None
    left: bool
    refused: int
    reasons: dict[str, int]
    last_refusal: str | None
    disagreement: float | None
    no_link: str | None


class Status(msgspec.Struct, frozen=True):
    """An agent at one moment.

    Attributes:
        name: The name of the agent.
        version: The version of fedbandits.
        federation_version: The version in the agent's federation file.
        algorithm: The name of the algorithm.
        arms: The names of the arms.
        probabilities: The distribution of the next choice, in the order of the arms.
        recommended: The arm with the largest probability.
        rounds: Number of choices.
        observed: Number of observed choices.
        expired: Number of expired choices.
        open_tickets: Number of choices that wait for an observation.
        disagreement: The largest difference between the agent's estimates and those that a
            neighbour last sent.
        gossips: Whether the agent exchanges estimates. False during initial rounds without gossip.
        agents: Number of agents in the federation.
        gossip_period: Seconds between two exchanges over an edge.
        neighbours: The neighbours, by name.
        uptime: Seconds since the start.
        time: The time of this status, in seconds since 1970.
        certificate_expires: When the agent's certificate expires, in seconds since 1970; none
            without keys.
        authority_expires: When the authority's certificate expires, in seconds since 1970; none
            without keys.
        epsilon: ε per round for the losses of this agent (event level), even if all others collude;
            arms are public. None for no guarantee.
        baseline: The arm that an apprentice plays in every round; none if the agent plays freely.
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
    certificate_expires: float | None
    authority_expires: float | None
    epsilon: float | None
    baseline: str | None
    losses: MeanLosses | None
