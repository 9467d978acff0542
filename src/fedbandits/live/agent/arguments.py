"""Validation of the arguments of an agent, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.common.describe import canonical, describe
from fedbandits.live.federation.federation import Federation, Part, distinct_names
from fedbandits.live.transport.interface import Transport

from .group_commit import Store


def own_part(name: str, federation: Any) -> Part:
    """Return this agent's part of the federation."""
    if isinstance(federation, Federation):
        return federation.part(name)
    if not isinstance(federation, Part):
        raise TypeError(f"federation must be a Federation or a Part of one, not {federation!r}")
    if federation.name != name:
        raise ValueError(f"this is the part of {federation.name!r}, not of {name!r}")
    return federation


def check_same_game(part: Part, algorithm: AnyAlgorithm | None, arms: Sequence[str] | None) -> None:
    """Reject an algorithm or arms that differ from the federation's."""
    if algorithm is not None:
        given, agreed = (canonical(describe(each)) for each in (algorithm, part.algorithm))
        if given != agreed:
            raise ValueError(f"the federation plays {part.algorithm}, not {algorithm}")
    if arms is not None and distinct_names(arms, "arm", least=2) != part.arms:
        raise ValueError(
            f"the federation's arms are {', '.join(part.arms)}, in this order, and not "
            f"{', '.join(arms)}"
        )


def own_transport(part: Part, transport: Any) -> Transport | None:
    """Return the transport; reject one of another agent or without a neighbour's address."""
    if transport is None:
        return None
    if not all(hasattr(transport, method) for method in ("start", "send", "stop")):
        raise TypeError(f"transport must have start, send and stop, not be {transport!r}")
    if getattr(transport, "name", part.name) != part.name:
        raise ValueError(f"this is the transport of {transport.name!r}, not of {part.name!r}")
    if new := sorted(part.neighbours.keys() - getattr(transport, "neighbours", part.neighbours)):
        raise ValueError(
            f"the transport of {part.name!r} does not know where {', '.join(new)} can be reached; "
            "start the agent again, with a transport that does"
        )
    checked: Transport = transport
    return checked


def as_store(store: Any) -> Store:
    """Return a journal for the name of a file, and any other store unchanged."""
    if isinstance(store, str | Path):
        from fedbandits.live.journal import Journal

        return Journal(store)
    if not hasattr(store, "write"):
        raise TypeError(f"store must be the name of a file or a store, not {store!r}")
    checked: Store = store
    return checked
