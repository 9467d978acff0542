"""Liars: agents that send their neighbours something else than their message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fedbandits.arrays import Array
from fedbandits.attacks import Attack, lie_about
from fedbandits.common import checks
from fedbandits.common.describe import describe

from .condition import Condition

if TYPE_CHECKING:
    from fedbandits.algorithms.base import Leaf

    from .simulation import Simulation

Attacks = Mapping[int, Attack] | Mapping[str, Attack] | Mapping[int | str, Attack]
"""Attacks by the agent that makes them: its number, or its name if it has one."""


@dataclass(frozen=True)
class Liars(Condition):
    """Agents that lie, in the order of their numbers.

    Attributes:
        agents: the agents that lie; names become numbers when the condition is bound.
        attacks: the attack of each of them.
    """

    name: ClassVar[str] = "liars"

    agents: tuple[int | str, ...] = field(metadata={"static": True})
    attacks: tuple[Attack, ...]

    @staticmethod
    def of(attacks: Attacks) -> Liars:
        """Return the condition for attacks by agent.

        Example:
            >>> from fedbandits import attacks
            >>> Liars.of({3: attacks.swap()}).agents
            (3,)
        """
        if not isinstance(attacks, Mapping):
            raise TypeError(f"liars must be like {{0: fb.attacks.swap()}}, not {attacks!r}")
        return Liars(tuple(attacks), tuple(attacks.values()))

    def bind(self, simulation: Simulation) -> Liars:
        """Return the liars by number; reject unknown agents, and lies that no message can hold."""
        problem, gossip = simulation.problem, simulation.gossip
        kind = type(simulation.algorithm).__name__
        if not simulation.algorithm.leaves:
            raise ValueError(f"{kind} sends nothing, so nobody can lie")
        names = problem.agent_names or (gossip and gossip.network.names) or ()
        found: dict[int, Attack] = {}
        for who, attack in zip(self.agents, self.attacks, strict=True):
            agent = _number(who, names, problem.agents)
            if agent in found:
                raise ValueError(
                    f"liars has agent {agent} twice, by number and by name; leave one out"
                )
            _check_attack(who, attack, problem.arms)
            found[agent] = attack
        if len(found) == problem.agents:
            raise ValueError(f"all {problem.agents} agents lie; whose regret would it be?")
        numbers = sorted(found)
        return Liars(tuple(numbers), tuple(found[agent] for agent in numbers))

    def check_messages(self, message: Mapping[str, Any]) -> None:
        """Reject an attack on an entry that a leaf of the message does not have."""
        for who, attack in zip(self.agents, self.attacks, strict=True):
            entry = getattr(attack, "arm", 0)
            for leaf, value in message.items():
                if entry >= value.shape[0]:
                    raise ValueError(
                        f"liar {who} lies about entry {entry}, but {leaf!r} in the message has "
                        f"{value.shape[0]}, which are no arms: lie about one of them"
                    )

    def outgoing(self, leaf: Leaf, message: Array, t: Array) -> Array:
        """Return the message with the entries of liars replaced by their lies."""
        for v, attack in zip(self.agents, self.attacks, strict=True):
            lie = lie_about(attack, leaf.attracts, message[..., v], t)
            message = message.at[..., v].set(lie)
        return message

    @property
    def excluded(self) -> tuple[int, ...]:
        """The liars: results are those of honest agents."""
        return tuple(int(agent) for agent in self.agents)

    def describe(self) -> dict[str, Any]:
        """Return the attacks by agent as plain data."""
        described: dict[str, Any] = describe(dict(zip(self.agents, self.attacks, strict=True)))
        return described


def _check_attack(who: int | str, attack: Any, arms: int) -> None:
    if not hasattr(attack, "lie") or isinstance(attack, type):
        raise TypeError(f"liar {who}: an attack is one such as fb.attacks.swap(), not {attack!r}")
    arm = getattr(attack, "arm", 0)
    if arm >= arms:
        raise ValueError(f"liar {who} lies about arm {arm}, but there are {arms}, counted from 0")


def _number(who: Any, names: tuple[str, ...], agents: int) -> int:
    if not isinstance(who, str):
        return checks.whole(who, "an agent in liars", least=0, most=agents - 1)
    if who in names:
        return names.index(who)
    if not names:
        raise ValueError(f"liars names {who!r}, but these agents have no names: give a number")
    raise ValueError(f"liars names {who!r}{checks.did_you_mean(who, names)} No such agent")
