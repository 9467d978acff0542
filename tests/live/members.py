"""Federations of agent cores, without disk, clock or network."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from fedbandits.live import Federation
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.records import SavedAgent


def empty(life: str = "life") -> SavedAgent:
    """Return the content of a new journal."""
    return SavedAgent(life, life.encode(), None, {}, [])


def member(
    federation: Federation,
    name: str | None = None,
    saved: SavedAgent | None = None,
    incarnation: Callable[[], int] | None = None,
    **options: Any,
) -> AgentCore:
    """Return one member of a federation, the first by default."""
    part = federation.part(name or federation.members[0])
    numbers = count(1)
    incarnation = incarnation or (lambda: next(numbers))
    return AgentCore(part, saved or empty(part.name), incarnation, **options)


def members(federation: Federation, life: str = "") -> dict[str, AgentCore]:
    """Return all members."""
    return {name: member(federation, name, empty(f"{name}{life}")) for name in federation.members}


def exchange(everyone: dict[str, AgentCore]) -> None:
    """Let every member report once, and deliver every message at once."""
    for name, one in everyone.items():
        for owner, report in one.reports():
            for back, flow in everyone[owner].receive(name, report):
                assert everyone[back].receive(owner, flow) == []
