"""Live agents: each chooses, observes and gossips on its own machine, and loses nothing.

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
    from .agent.status import Neighbour, Status
    from .federation.certificates import KeysError
    from .federation.federation import Federation, Part
    from .federation.keys import write_keys
    from .journal import Journal, read_journal
    from .journal.errors import CorruptJournalError, InUseError, JournalError
    from .protocol.loss_sums import LossWindow, MeanLosses
    from .protocol.observations import (
        ConflictingObservationError,
        ExpiredTicketError,
        ObservationError,
        UnknownTicketError,
    )
    from .protocol.suitability import UnsuitableError
    from .protocol.tickets import ChoiceError, ConflictingChoiceError, Ticket
    from .rehearsal.faults import Away, ClockJump, Faults
    from .rehearsal.memory import Links, MemoryNetwork, MemoryStore, Partition
    from .rehearsal.rehearsal import rehearse
    from .service import Service, serve
    from .transport.interface import Transport
    from .transport.tls_transport import TlsTransport

# Modules that are imported at the first use of one of these names, since simulations need none.
_MODULES = {
    "agent.agent": "Agent",
    "agent.blocking": "BlockingAgent",
    "agent.group_commit": "StoppedError Store",
    "agent.status": "Neighbour Status",
    "federation.certificates": "KeysError",
    "federation.federation": "Federation Part",
    "federation.keys": "write_keys",
    "journal": "Journal read_journal",
    "journal.errors": "CorruptJournalError InUseError JournalError",
    "protocol.loss_sums": "LossWindow MeanLosses",
    "protocol.observations": (
        "ConflictingObservationError ExpiredTicketError ObservationError UnknownTicketError"
    ),
    "protocol.suitability": "UnsuitableError",
    "protocol.tickets": "ChoiceError ConflictingChoiceError Ticket",
    "rehearsal.faults": "Away ClockJump Faults",
    "rehearsal.memory": "Links MemoryNetwork MemoryStore Partition",
    "rehearsal.rehearsal": "rehearse",
    "service": "Service serve",
    "transport.interface": "Transport",
    "transport.tls_transport": "TlsTransport",
}
_LATER = {name: module for module, names in _MODULES.items() for name in names.split()}

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
