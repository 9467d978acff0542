"""A journal as it is read: as a whole, at one moment, and every value checked.

Nothing is changed, and no lock is needed: who looks at the journal of a running agent reads it this
way, and an agent reads its own before it writes.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedbandits.live.protocol.loss_sums import record_size
from fedbandits.live.protocol.records import EdgeRecord, Saved, StateRecord, TicketRecord

from .errors import (
    CorruptJournalError,
    JournalError,
    NewerJournalError,
    corrupt,
    foreign,
    missing_log,
    reading,
)
from .format import (
    APPLICATION,
    SCHEMA,
    TICKET,
    VERSION,
    Checksums,
    Content,
    Head,
    Origin,
    has_log,
    log_of,
    named,
)

T = TypeVar("T")

_ORIGIN = msgspec.msgpack.Decoder(Origin)
_STATE: msgspec.msgpack.Decoder[StateRecord | None] = msgspec.msgpack.Decoder(StateRecord | None)
_HEAD = msgspec.msgpack.Decoder(Head)
_HOLDER: msgspec.msgpack.Decoder[int | None] = msgspec.msgpack.Decoder(int | None)
_EDGE = msgspec.msgpack.Decoder(EdgeRecord)
_TICKET = msgspec.msgpack.Decoder(TicketRecord)


def read_journal(path: str | Path, *, without_log: bool = False) -> Content:
    """What a journal holds, also while an agent writes it; changes nothing and takes no lock.

    Args:
        path: of the journal.
        without_log: read the file although the log that belongs to it is missing.

    Raises:
        JournalError: for a file of another kind, a damaged one, or one that lacks its log.
    """
    path = Path(path).resolve()
    try:
        return _read(path, without_log=without_log)
    except CorruptJournalError:
        # An agent that began to write between two looks at the file; then there is a log now.
        if not has_log(path):
            raise
        return _read(path, without_log=without_log)


def _read(path: Path, *, without_log: bool) -> Content:
    """All that stands in a journal, checked; changes nothing, and needs no lock."""
    with reading(path):
        if path.is_dir():
            raise foreign(path, "a folder")
        if path.stat().st_size == 0:
            # `create` leaves none such: once there was something in it.
            raise corrupt(path, "it is empty (0 bytes)")
        logged = has_log(path)
        before = _state_in_file(path) if logged else None
        with closing(_connection(path, logged=logged)) as connection:
            # One moment, whatever an agent writes meanwhile.
            connection.execute("BEGIN")
            _check_format(connection, path)
            if logged and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                raise corrupt(path, f"it does not know of {log_of(path).name}")
            if not logged and not without_log:
                _check_closed(connection, path)
            content = _load(connection, path)
            if before is not None and _progress(before) > _progress(content.saved.state):
                raise corrupt(path, f"{log_of(path).name} is older than the file")
            return content


def _connection(path: Path, *, logged: bool) -> sqlite3.Connection:
    """Open a journal for reading, with its log or without one."""
    # Without a log, "immutable" keeps SQLite from creating files for one.
    how = "mode=ro" if logged else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, isolation_level=None)


def _check_closed(connection: sqlite3.Connection, path: Path) -> None:
    """Reject a file without a log whose agent did not close it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('holder', 'state')"))
    holder, _ = _unsealed(path, meta.get("holder"), _HOLDER, named("holder"), "the holder")
    if version >= 2 and holder is not None:
        state, _ = _unsealed(path, meta.get("state"), _STATE, named("state"), "the state")
        rounds, observed = (0, 0) if state is None else (state.rounds, state.observed)
        raise missing_log(path, log_of(path).name, rounds, observed)


def _state_in_file(path: Path) -> StateRecord | None:
    """Return the state in a file that has a log, without that log.

    None if the state cannot be read, since a checkpoint runs or was interrupted.
    """
    with suppress(JournalError), reading(path), closing(_connection(path, logged=False)) as alone:
        row = alone.execute("SELECT value FROM meta WHERE key = 'state'").fetchone() or (None,)
        return _unsealed(path, row[0], _STATE, named("state"), "the state")[0]
    return None


def _progress(state: StateRecord | None) -> tuple[int, int]:
    """Return the numbers of choices made and of tickets closed, which only grow."""
    return (0, 0) if state is None else (state.rounds, state.observed + state.expired)


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise foreign(path, f"a SQLite database of another program (application {application:#x})")
    if version > VERSION:
        raise NewerJournalError(
            f"{path} is a journal of version {version}, and this fedbandits reads up to version "
            f"{VERSION}; install a newer fedbandits, or give the agent another file"
        )
    if version < 1:
        raise corrupt(path, f"it says it is of version {version}, which there never was")


def _load(connection: sqlite3.Connection, path: Path) -> Content:
    (health,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if health != "ok":
        raise corrupt(path, " ".join(str(health).split()))
    tables = connection.execute("SELECT sql FROM sqlite_schema ORDER BY rowid").fetchall()
    if tables != [(table,) for table in SCHEMA]:
        raise corrupt(path, "its tables are not those of a journal")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if meta.keys() != {"origin", "state", "head", "holder"}:
        raise corrupt(path, f"it holds {', '.join(sorted(map(str, meta)))}")
    origin, origin_sum = _unsealed(path, meta["origin"], _ORIGIN, named("origin"), "the origin")
    state, state_sum = _unsealed(path, meta["state"], _STATE, named("state"), "the state")
    head, _ = _unsealed(path, meta["head"], _HEAD, named("head"), "the head")
    holder, _ = _unsealed(path, meta["holder"], _HOLDER, named("holder"), "the holder")

    edges: dict[str, EdgeRecord] = {}
    edge_sums: dict[str, int] = {}
    for neighbour, value in connection.execute("SELECT neighbour, value FROM edges"):
        what = f"the edge to {neighbour!r}"
        edge, edge_sums[neighbour] = _unsealed(path, value, _EDGE, named(str(neighbour)), what)
        edges[neighbour] = edge
    tickets: list[TicketRecord] = []
    ticket_sums: dict[int, int] = {}
    for t, status, value in connection.execute("SELECT * FROM tickets ORDER BY round"):
        what = f"the ticket of round {t}"
        ticket, ticket_sums[t] = _unsealed(path, value, _TICKET, TICKET, what)
        if (ticket.round, ticket.status) != (t, status):
            raise corrupt(path, f"{what} is under another round or status")
        tickets.append(ticket)

    checksums = Checksums(origin_sum, state_sum, edge_sums, ticket_sums)
    if head != checksums.head():
        raise corrupt(path, f"it should hold {head}, and holds {checksums.head()}")
    saved = Saved(origin.life, origin.seed, state, edges, tickets)
    if fault := contradiction(saved, len(origin.identity.arms)):
        raise corrupt(path, fault)
    return Content(origin.identity, saved, holder, checksums)


def contradiction(saved: Saved, arms: int) -> str | None:
    """What in a journal cannot be true together; None if nothing is."""
    state = saved.state
    if state is None:
        return f"{len(saved.tickets)} tickets and no state" if saved.tickets else None
    for ticket in saved.tickets:
        if not 1 <= ticket.round <= state.rounds:
            return f"a ticket of round {ticket.round}, and the agent is at round {state.rounds}"
        if not all(0 <= arm < arms for arm in (ticket.arm, *ticket.absent, max(ticket.would, 0))):
            return f"the ticket of round {ticket.round} has an arm that is none of {arms}"
        if ticket.status == "open" and len(ticket.p) != 8 * arms:
            return f"the ticket of round {ticket.round} was not drawn from {arms} arms"
        if ticket.status != "open" and ticket.event and len(ticket.p) != 8:
            return f"the closed ticket of round {ticket.round} lacks its probability"
    if state.losses is not None and len(state.losses.sums) != record_size(arms):
        return f"its sums of losses do not fit {arms} arms"
    closed = state.observed + state.expired
    waiting = sum(ticket.status == "open" for ticket in saved.tickets)
    if closed + waiting != state.rounds or len(saved.tickets) - waiting > closed:
        return (
            f"{state.rounds} rounds, and {state.observed} observed, {state.expired} expired and "
            f"{waiting} open tickets"
        )
    return None


def _unsealed(
    path: Path, kept: Any, decoder: msgspec.msgpack.Decoder[T], start: int, what: str
) -> tuple[T, int]:
    """What `seal` has sealed, and its checksum."""
    if not isinstance(kept, bytes):
        raise corrupt(path, f"{what} is no bytes")
    checksum = zlib.crc32(kept[4:], start)
    if checksum.to_bytes(4, "little") != kept[:4]:
        raise corrupt(path, f"the checksum of {what} is wrong")
    try:
        return decoder.decode(kept[4:]), checksum
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise corrupt(path, f"{what} cannot be read ({error})") from error
