"""Federations of agent cores without disk, clock or network, and tests under a virtual clock."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, ParamSpec

from fedbandits.live import Federation
from fedbandits.live.protocol.agent_core import AgentCore
from fedbandits.live.protocol.records import SavedAgent
from fedbandits.live.rehearsal.virtual_clock import run_virtual

P = ParamSpec("P")


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


def virtually(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test under the virtual clock."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtual(test(*args, **kwargs))

    return run
