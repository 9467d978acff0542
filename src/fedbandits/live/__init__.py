"""Agents that live apart: they choose, observe and gossip, and lose nothing.

async with fb.live.Agent("shop3", federation, "shop3.db", transport) as agent:
    ticket = await agent.choose()
    await agent.observe(ticket.id, loss=0.2)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent
    from .blocking import BlockingAgent
    from .faults import Away, ClockJump, Faults
    from .federation import Federation, Part
    from .group_commit import StoppedError, Store
    from .journal import Journal, read_journal
    from .journal.errors import CorruptJournalError, InUseError, JournalError
    from .keys import KeysError, write_keys
    from .memory import Links, MemoryNetwork, MemoryStore, Partition
    from .observations import (
        ConflictingObservationError,
        ExpiredTicketError,
        ObservationError,
        UnknownTicketError,
    )
    from .rehearsal import rehearse
    from .service import Service, serve
    from .status import LossWindow, MeanLosses, Neighbour, Status
    from .suitable import UnsuitableError
    from .tickets import ChoiceError, ConflictingChoiceError, Ticket
    from .tls_transport import TlsTransport
    from .transport import Transport

# Names that wait until they are asked for: who simulates needs none of them.
_LATER = {
    "Agent": "agent",
    "Away": "faults",
    "BlockingAgent": "blocking",
    "ChoiceError": "tickets",
    "ClockJump": "faults",
    "ConflictingChoiceError": "tickets",
    "ConflictingObservationError": "observations",
    "CorruptJournalError": "journal.errors",
    "ExpiredTicketError": "observations",
    "Faults": "faults",
    "Federation": "federation",
    "InUseError": "journal.errors",
    "Journal": "journal",
    "JournalError": "journal.errors",
    "KeysError": "keys",
    "Links": "memory",
    "LossWindow": "status",
    "MeanLosses": "status",
    "MemoryNetwork": "memory",
    "MemoryStore": "memory",
    "Neighbour": "status",
    "ObservationError": "observations",
    "Part": "federation",
    "Partition": "memory",
    "Service": "service",
    "Status": "status",
    "StoppedError": "group_commit",
    "Store": "group_commit",
    "Ticket": "tickets",
    "TlsTransport": "tls_transport",
    "Transport": "transport",
    "UnknownTicketError": "observations",
    "UnsuitableError": "suitable",
    "read_journal": "journal",
    "rehearse": "rehearsal",
    "serve": "service",
    "write_keys": "keys",
}

__all__ = [
    "Agent",
    "Away",
    "BlockingAgent",
    "ChoiceError",
    "ClockJump",
    "ConflictingChoiceError",
    "ConflictingObservationError",
    "CorruptJournalError",
    "ExpiredTicketError",
    "Faults",
    "Federation",
    "InUseError",
    "Journal",
    "JournalError",
    "KeysError",
    "Links",
    "LossWindow",
    "MeanLosses",
    "MemoryNetwork",
    "MemoryStore",
    "Neighbour",
    "ObservationError",
    "Part",
    "Partition",
    "Service",
    "Status",
    "StoppedError",
    "Store",
    "Ticket",
    "TlsTransport",
    "Transport",
    "UnknownTicketError",
    "UnsuitableError",
    "read_journal",
    "rehearse",
    "serve",
    "write_keys",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
