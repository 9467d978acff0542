"""Random histories of federations in which one valid member lies, and is then removed."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.live import Federation
from fedbandits.live.protocol.edge import owns
from fedbandits.live.protocol.messages import (
    VERSION,
    EdgeTerms,
    FlowMessage,
    Message,
    MessageFormat,
    RejectedMessageError,
    ReportMessage,
    encode,
    packed,
)
from fedbandits.networks import Network

from .histories import ARMS, SMALL, History, without

MEANS = dict(zip(ARMS, (0.2, 0.5, 0.8), strict=True))
"""Mean losses of the arms: the first is the best, the last is the worst."""

Attack = Callable[[int, random.Random], float]
"""Return the size of the n-th lie. The liar reports the worst arm as better by this size."""

ATTACKS: Mapping[str, Attack] = {
    "constant": lambda _n, _chance: 1e15,
    "large": lambda _n, _chance: 2.0**40,
    "growing": lambda n, _chance: 1.01 ** min(n, 60_000),
    "alternating": lambda n, _chance: 2.0**40 * (-1.0) ** n,
    "random": lambda _n, chance: chance.choice((1, -1)) * 10 ** chance.uniform(0, 16),
    "no number": lambda n, _chance: (np.inf, np.nan, 1e12)[n % 3],
}


class Liar:
    """A member with valid keys that follows the protocol in form and lies in every number.

    Args:
        name: the name of the member.
        federation: the federation, whose terms the liar has to state.
        form: the format of messages.
        attack: the lie.
        chance: decides which numbers of the protocol are wrong, too.
    """

    def __init__(
        self,
        name: str,
        federation: Federation,
        form: MessageFormat,
        attack: Attack,
        chance: random.Random,
    ) -> None:
        self.name, self.form = name, form
        self.part = federation.part(name)
        self.attack, self.chance = attack, chance
        self.lies = 0
        self.others = dict.fromkeys(self.part.neighbours, 0)
        self.incarnations = dict.fromkeys(self.part.neighbours, 1)
        self.sequences = dict.fromkeys(self.part.neighbours, 0)

    def answer(self, sender: str, message: Message) -> bytes | None:
        """Record the numbers of a message, and return the answer to a report."""
        if message.receiver_incarnation > self.incarnations[sender]:
            self.incarnations[sender] = message.receiver_incarnation + 1
        if message.sender_incarnation != self.others[sender]:
            self.others[sender], self.sequences[sender] = message.sender_incarnation, 0
        self.sequences[sender] = max(self.sequences[sender], message.sequence)
        return self.lie(sender) if isinstance(message, ReportMessage) else None

    def lie(self, neighbour: str) -> bytes:
        """Return a message that the neighbour may believe."""
        self.lies += 1
        size = self.attack(self.lies, self.chance)
        owner = owns(self.name, neighbour)
        self.sequences[neighbour] += owner
        if self.chance.random() < 0.001:
            self.incarnations[neighbour] += 1
        sequence = self.sequences[neighbour]
        if self.chance.random() < 0.001:
            sequence = self.chance.choice((0, sequence + 1, 2**62))
        numbers = (
            VERSION,
            self.form.game,
            self.incarnations[neighbour],
            self.others[neighbour],
            sequence,
            EdgeTerms(self.part.neighbours[neighbour], self.part.limit),
        )
        # The worst arm is reported as better by `size`, and the best one as worse.
        lie = packed({"z": np.array([size, 0.0, -size])})
        return encode(FlowMessage(*numbers, lie, lie) if owner else ReportMessage(*numbers, lie))


class LyingHistory(History):
    """A history in which one member lies until it is removed.

    Args:
        chance: decides everything but the lies.
        attack: the lie.
        network: the links; random by default.
    """

    checked_every = 500

    def __init__(
        self, chance: random.Random, attack: Attack, network: Network | None = None
    ) -> None:
        self.given = network
        super().__init__(chance, fb.FedExp3())
        algorithm = self.federation.algorithm
        self.form = MessageFormat.of(algorithm, algorithm.init(len(ARMS), len(self.everyone)), ARMS)
        self.log = deque(maxlen=12)  # type: ignore[assignment]  # the last ones are read
        self.liar = Liar(
            self.chance.choice(removable(self.network, self.everyone)),
            self.federation,
            self.form,
            attack,
            random.Random(chance.getrandbits(32)),
        )

    def draw_network(self) -> Network:
        """Return the network that was given, or a random one of at least three agents."""
        if self.given is not None:
            return self.given
        while (network := super().draw_network()).agents < 3:
            pass
        return network

    def draw_limit(self) -> float:
        """Set no limit, so that lies do all the harm that they can."""
        return math.inf

    def happenings(self) -> tuple[Callable[[], Coroutine[Any, Any, None] | None], ...]:
        """Return mostly decisions and lies; disks are lost too rarely to forget all of them."""
        return (
            *[self.choose] * 30,
            *[self.observe] * 30,
            *[self.lie] * 30,
            self.observe_again,
            self.crash,
            *[self.come_back] * 3,
            self.change_links,
            self.cut,
            self.jump_clock,
            self.seldom,
        )

    def check_all(self) -> None:
        """Check also that honest members accept all messages of honest members."""
        super().check_all()
        for name, agent in self.agents.items():
            for neighbour, refused in agent._monitor.rejections.items():
                if neighbour != self.liar.name:
                    assert not refused["numbers"], f"{name} refused numbers of {neighbour}"

    def lie(self) -> None:
        """Send a lie to every neighbour."""
        for neighbour in self.liar.part.neighbours:
            self.mail.carry(self.liar.name, neighbour, self.liar.lie(neighbour))

    async def seldom(self) -> None:
        """Let a member lose its disk or leave, once in ten times."""
        if self.chance.random() < 0.1:
            await self.chance.choice((self.lose_disk, self.leave))()

    def someone(self) -> tuple[str, Any]:
        honest = [name for name in self.federation.members if name != self.liar.name]
        name = self.chance.choice(honest)
        return name, self.agents.get(name)

    def draw_loss(self, arm: str) -> float:
        """Return a random loss with the arm's mean."""
        return float(self.chance.random() < MEANS[arm])

    async def start(self, name: str) -> None:
        if name != self.liar.name:
            await super().start(name)
            return

        def receive(sender: str, payload: bytes) -> None:
            with suppress(RejectedMessageError):
                answer = self.liar.answer(sender, self.form.decode(payload))
                if answer is not None:
                    self.mail.carry(name, sender, answer)

        await self.mail.transport(name).start(receive)

    def jump_clock(self) -> None:
        self.clocks[self.chance.choice(self.everyone)] = 1e9 + self.chance.uniform(-3600, 3600)

    async def come_to_rest(self) -> None:
        """Remove the liar, and check that the honest members recover."""
        await self.mail.transport(self.liar.name).stop()
        members = tuple(name for name in self.everyone if name != self.liar.name)
        network = without(self.network, self.everyone.index(self.liar.name))
        self.federation = Federation(ARMS, self.weights(network), members, **self.options)
        for agent in self.agents.values():
            await agent.adopt(self.federation)
        self.everyone = members
        await super().come_to_rest()

    @property
    def rounding(self) -> float:  # type: ignore[override]  # by the flows of the moment
        """Return the error of a sum of numbers as large as the largest flow."""
        return SMALL + 4 * float(np.spacing(self.largest_flow()))

    @property
    def agreement(self) -> float:  # type: ignore[override]  # by the flows of the moment
        """Return the difference that exchanges leave where flows are as large as the largest.

        Where the network has cycles, large flows can stay that cancel, and have few digits.
        """
        values = [ledger.values["z"] for ledger in self.ledgers().values()]
        digits = float(np.spacing(self.largest_flow()))
        return SMALL + 50 * digits / max(1.0, float(np.abs(values).max()))

    def largest_flow(self) -> float:
        """Return the largest flow of the honest members."""
        edges = [edge for ledger in self.ledgers().values() for edge in ledger.edges.values()]
        return max((float(np.abs(edge.flow["z"]).max()) for edge in edges), default=1.0)


def removable(network: Network, members: tuple[str, ...]) -> list[str]:
    """Return the members without which the others are still connected."""
    return [
        name
        for v, name in enumerate(members)
        if network.agents > 2 and without(network, v).connected
    ]
