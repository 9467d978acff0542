"""Who lies, and whether the lie can be told: checked before anything is played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.attacks import Attack
from fedbandits.common import checks
from fedbandits.gossip.base import Gossip
from fedbandits.problems.base import Problem

Liars = Mapping[int, Attack] | Mapping[str, Attack] | Mapping[int | str, Attack]
"""Attacks by who tells them: the agent's number, or its name where it has one."""


def checked_liars(
    liars: Liars | None, problem: Problem, algorithm: AnyAlgorithm, gossip: Gossip | None
) -> dict[int, Attack]:
    """Attacks by the agents' numbers, in order; refused if nobody is left, or nothing is sent."""
    if not liars:
        return {}
    if not isinstance(liars, Mapping):
        raise TypeError(f"liars must be like {{0: fb.attacks.swap()}}, not {liars!r}")
    if not algorithm.leaves:
        raise ValueError(f"{type(algorithm).__name__} sends nothing, so nobody can lie")
    names = problem.agent_names or (gossip and gossip.network.names) or ()
    found: dict[int, Attack] = {}
    for who, attack in liars.items():
        agent = _number(who, names, problem.agents)
        if agent in found:
            raise ValueError(f"liars has agent {agent} twice, by number and by name; leave one out")
        if not hasattr(attack, "lie") or isinstance(attack, type):
            raise TypeError(
                f"liar {who}: an attack is one such as fb.attacks.swap(), not {attack!r}"
            )
        arm = getattr(attack, "arm", 0)
        if arm >= problem.arms:
            raise ValueError(
                f"liar {who} lies about arm {arm}, but there are {problem.arms}, counted from 0"
            )
        found[agent] = attack
    if len(found) == problem.agents:
        raise ValueError(f"all {problem.agents} agents lie; whose regret would it be?")
    return dict(sorted(found.items()))


def _number(who: Any, names: tuple[str, ...], agents: int) -> int:
    if not isinstance(who, str):
        return checks.whole(who, "an agent in liars", least=0, most=agents - 1)
    if who in names:
        return names.index(who)
    if not names:
        raise ValueError(f"liars names {who!r}, but these agents have no names: give a number")
    raise ValueError(f"liars names {who!r}{checks.did_you_mean(who, names)} No such agent")


def check_entries(liars: Mapping[int, Attack], message: Mapping[str, Any]) -> None:
    """Refuse a lie about an entry that a message does not have: it would be no lie."""
    for who, attack in liars.items():
        for leaf, value in message.items():
            if getattr(attack, "arm", 0) >= value.shape[0]:
                raise ValueError(
                    f"liar {who} lies about entry {attack.arm}, but {leaf!r} in the message has "  # type: ignore[attr-defined]
                    f"{value.shape[0]}, which are no arms: lie about one of them"
                )
