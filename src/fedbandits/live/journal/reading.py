"""Reading a journal: one moment of it, with every value checked.

Reading changes nothing and takes no lock. Operators read the journal of a running agent, and an
agent reads its own before it writes.
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedbandits.live.protocol.loss_sums import record_size
from fedbandits.live.protocol.records import EdgeRecord, SavedAgent, StateRecord, TicketRecord

from .errors import (
    CorruptJournalError,
    JournalError,
    corrupt,
    foreign,
    missing_log,
    translate_errors,
)
from .format import (
    APPLICATION,
    SCHEMA,
    TICKET_KEY,
    VERSION,
    Checksums,
    Head,
    JournalContent,
    Origin,
    has_log,
    key_checksum,
    log_path,
)

T = TypeVar("T")

_META: dict[str, msgspec.msgpack.Decoder[Any]] = {
    "origin": msgspec.msgpack.Decoder(Origin),
    "state": msgspec.msgpack.Decoder(StateRecord | None),
    "head": msgspec.msgpack.Decoder(Head),
    "holder": msgspec.msgpack.Decoder(int | None),
}
_EDGE = msgspec.msgpack.Decoder(EdgeRecord)
_TICKET = msgspec.msgpack.Decoder(TicketRecord)


def read_journal(path: str | Path, *, without_log: bool = False) -> JournalContent:
    """Return the content of a journal, also while an agent writes it.

    Args:
        path: the journal.
        without_log: read the file although its log is missing.

    Raises:
        JournalError: for a file of another kind, a damaged one, or one that lacks its log.
    """
    path = Path(path).resolve()
    try:
        return _read(path, without_log=without_log)
    except CorruptJournalError:
        # An agent may have started between two steps of reading. Then there is a log now.
        if not has_log(path):
            raise
        return _read(path, without_log=without_log)


def read_only(path: Path, *, logged: bool) -> sqlite3.Connection:
    """Open a journal for reading, with its log or without one."""
    # Without a log, "immutable" keeps SQLite from creating files for one.
    how = "mode=ro" if logged else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, isolation_level=None)


def _read(path: Path, *, without_log: bool) -> JournalContent:
    with translate_errors(path):
        if path.is_dir():
            raise foreign(path, "a folder")
        if path.stat().st_size == 0:
            # `create` never leaves an empty file, so this one has lost its content.
            raise corrupt(path, "it is empty (0 bytes)")
        logged = has_log(path)
        before = _state_in_file(path) if logged else None
        with closing(read_only(path, logged=logged)) as connection:
            # A transaction reads one moment while an agent writes.
            connection.execute("BEGIN")
            _check_format(connection, path)
            if logged and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                raise corrupt(path, f"it does not refer to {log_path(path).name}")
            if not logged and not without_log:
                _check_closed(connection, path)
            content = _load(connection, path)
            if before is not None and _progress(before) > _progress(content.saved.state):
                raise corrupt(path, f"{log_path(path).name} is older than the file")
            return content


def _check_closed(connection: sqlite3.Connection, path: Path) -> None:
    """Reject a file without a log whose agent did not close it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('holder', 'state')"))
    if version >= 2 and _meta(path, meta, "holder")[0] is not None:
        state, _ = _meta(path, meta, "state")
        rounds, observed = (0, 0) if state is None else (state.rounds, state.observed)
        raise missing_log(path, log_path(path).name, rounds, observed)


def _state_in_file(path: Path) -> StateRecord | None:
    """Return the state in a file that has a log, without that log.

    None if the state cannot be read, since a checkpoint runs or was interrupted.
    """
    with (
        suppress(JournalError),
        translate_errors(path),
        closing(read_only(path, logged=False)) as alone,
    ):
        meta = dict(alone.execute("SELECT key, value FROM meta WHERE key = 'state'"))
        state: StateRecord | None = _meta(path, meta, "state")[0]
        return state
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
        raise JournalError(
            f"{path} is a journal of version {version}, and this fedbandits reads up to version "
            f"{VERSION}; install a newer fedbandits, or give the agent another file"
        )
    if version < 1:
        raise corrupt(path, f"it has version {version}, which never existed")


def _load(connection: sqlite3.Connection, path: Path) -> JournalContent:
    (health,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if health != "ok":
        raise corrupt(path, " ".join(str(health).split()))
    tables = connection.execute("SELECT sql FROM sqlite_schema ORDER BY rowid").fetchall()
    if tables != [(table,) for table in SCHEMA]:
        raise corrupt(path, "its tables are not those of a journal")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    if meta.keys() != _META.keys():
        raise corrupt(path, f"it holds {', '.join(sorted(map(str, meta)))}")
    (origin, origin_sum), (state, state_sum) = (_meta(path, meta, k) for k in ("origin", "state"))
    (head, _), (holder, _) = (_meta(path, meta, key) for key in ("head", "holder"))

    edges: dict[str, EdgeRecord] = {}
    edge_sums: dict[str, int] = {}
    for neighbour, value in connection.execute("SELECT neighbour, value FROM edges"):
        what, start = f"the edge to {neighbour!r}", key_checksum(str(neighbour))
        edges[neighbour], edge_sums[neighbour] = _unsealed(path, value, _EDGE, start, what)
    tickets: list[TicketRecord] = []
    ticket_sums: dict[int, int] = {}
    for t, status, value in connection.execute("SELECT * FROM tickets ORDER BY round"):
        what = f"the ticket of round {t}"
        ticket, ticket_sums[t] = _unsealed(path, value, _TICKET, TICKET_KEY, what)
        if (ticket.round, ticket.status) != (t, status):
            raise corrupt(path, f"{what} is under another round or status")
        tickets.append(ticket)

    checksums = Checksums(origin_sum, state_sum, edge_sums, ticket_sums)
    if head != checksums.head():
        raise corrupt(path, f"it should hold {head}, and holds {checksums.head()}")
    saved = SavedAgent(origin.life, origin.seed, state, edges, tickets)
    if why := contradiction(saved, len(origin.identity.arms)):
        raise corrupt(path, why)
    return JournalContent(origin.identity, saved, holder, checksums)


def contradiction(saved: SavedAgent, arms: int) -> str | None:
    """Return two values of a journal that contradict each other; None without any."""
    state = saved.state
    if state is None:
        return f"{len(saved.tickets)} tickets and no state" if saved.tickets else None
    for ticket in saved.tickets:
        if not 1 <= ticket.round <= state.rounds:
            return f"a ticket of round {ticket.round}, and the agent is at round {state.rounds}"
        if not all(0 <= arm < arms for arm in (ticket.arm, *ticket.absent, max(ticket.would, 0))):
            return f"the ticket of round {ticket.round} has an arm beyond the {arms} arms"
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


def _meta(path: Path, meta: dict[str, Any], key: str) -> tuple[Any, int]:
    """Return one of the values that every journal has, and its checksum."""
    return _unsealed(path, meta.get(key), _META[key], key_checksum(key), f"the {key}")


def _unsealed(
    path: Path, sealed: Any, decoder: msgspec.msgpack.Decoder[T], start: int, what: str
) -> tuple[T, int]:
    """Return a value that `seal` has sealed, and its checksum."""
    if not isinstance(sealed, bytes):
        raise corrupt(path, f"{what} has the wrong type")
    checksum = zlib.crc32(sealed[4:], start)
    if checksum.to_bytes(4, "little") != sealed[:4]:
        raise corrupt(path, f"the checksum of {what} is wrong")
    try:
        return decoder.decode(sealed[4:]), checksum
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise corrupt(path, f"{what} cannot be read ({error})") from error
