"""Agents that live apart: they choose, observe and gossip, and lose nothing.

async with fb.live.Agent("shop3", federation, "shop3.db", transport) as agent:
    ticket = await agent.choose()
    await agent.observe(ticket.id, loss=0.2)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent.agent import Agent
    from .agent.blocking import BlockingAgent
    from .agent.group_commit import StoppedError, Store
    from .agent.status import LossWindow, MeanLosses, Neighbour, Status
    from .federation.certificates import KeysError
    from .federation.federation import Federation, Part
    from .federation.keys import write_keys
    from .journal import Journal, read_journal
    from .journal.errors import CorruptJournalError, InUseError, JournalError
    from .protocol.observations import (
        ConflictingObservationError,
        ExpiredTicketError,
        ObservationError,
        UnknownTicketError,
    )
    from .protocol.suitable import UnsuitableError
    from .protocol.tickets import ChoiceError, ConflictingChoiceError, Ticket
    from .rehearsal.faults import Away, ClockJump, Faults
    from .rehearsal.memory import Links, MemoryNetwork, MemoryStore, Partition
    from .rehearsal.rehearsal import rehearse
    from .service import Service, serve
    from .transport.interface import Transport
    from .transport.tls_transport import TlsTransport

# Names that wait until they are asked for: who simulates needs none of them.
_LATER = {
    "Agent": "agent.agent",
    "Away": "rehearsal.faults",
    "BlockingAgent": "agent.blocking",
    "ChoiceError": "protocol.tickets",
    "ClockJump": "rehearsal.faults",
    "ConflictingChoiceError": "protocol.tickets",
    "ConflictingObservationError": "protocol.observations",
    "CorruptJournalError": "journal.errors",
    "ExpiredTicketError": "protocol.observations",
    "Faults": "rehearsal.faults",
    "Federation": "federation.federation",
    "InUseError": "journal.errors",
    "Journal": "journal",
    "JournalError": "journal.errors",
    "KeysError": "federation.certificates",
    "Links": "rehearsal.memory",
    "LossWindow": "agent.status",
    "MeanLosses": "agent.status",
    "MemoryNetwork": "rehearsal.memory",
    "MemoryStore": "rehearsal.memory",
    "Neighbour": "agent.status",
    "ObservationError": "protocol.observations",
    "Part": "federation.federation",
    "Partition": "rehearsal.memory",
    "Service": "service",
    "Status": "agent.status",
    "StoppedError": "agent.group_commit",
    "Store": "agent.group_commit",
    "Ticket": "protocol.tickets",
    "TlsTransport": "transport.tls_transport",
    "Transport": "transport.interface",
    "UnknownTicketError": "protocol.observations",
    "UnsuitableError": "protocol.suitable",
    "read_journal": "journal",
    "rehearse": "rehearsal.rehearsal",
    "serve": "service",
    "write_keys": "federation.keys",
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
