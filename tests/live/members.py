"""Federations of members without disk, clock or network, for tests."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from fedbandits.live import Federation
from fedbandits.live.protocol.member import Member
from fedbandits.live.protocol.records import Saved


def empty(life: str = "life") -> Saved:
    """A journal in which nothing is."""
    return Saved(life, life.encode(), None, {}, [])


def member(
    federation: Federation,
    name: str | None = None,
    saved: Saved | None = None,
    incarnation: Callable[[], int] | None = None,
    **options: Any,
) -> Member:
    """One member of a federation, the first by default."""
    part = federation.part(name or federation.members[0])
    numbers = count(1)
    return Member(
        part.name,
        part.algorithm,
        part.arms,
        part.agents,
        part.neighbours,
        saved or empty(part.name),
        incarnation or (lambda: next(numbers)),
        limit=part.limit,
        expiry=part.expiry,
        **options,
    )


def members(federation: Federation, life: str = "") -> dict[str, Member]:
    """All of them."""
    return {name: member(federation, name, empty(f"{name}{life}")) for name in federation.members}


def exchange(everyone: dict[str, Member]) -> None:
    """Everyone reports once, and every message arrives at once."""
    for name, one in everyone.items():
        for owner, report in one.reports():
            for back, flow in everyone[owner].receive(name, report):
                assert everyone[back].receive(owner, flow) == []
