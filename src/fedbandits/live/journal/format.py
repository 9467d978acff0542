"""What stands in the file of a journal, and how it is known to be what was written.

SQLite has no checksums. Every value here bears one, over its key and its content, and one row, the
head, holds how many values there are and the sum of their checksums: a value that is changed,
missing, doubled or of an older day does not go unseen.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fedbandits.live.protocol.records import Identity, Saved

from .errors import corrupt

APPLICATION = 0x66624A6C
"""Marks the file as a journal of a live agent: "fbJl"."""

VERSION = 2
"""The version of the format. Since version 2 `holder` is up to date in the file itself, without its
log: the process that opened the journal, or None once the journal is closed."""

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE edges (neighbour TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tickets (round INTEGER PRIMARY KEY, status TEXT NOT NULL, value BLOB NOT NULL)",
)


class Origin(msgspec.Struct, frozen=True):
    """What never changes: whose journal it is, and what was drawn when it began."""

    identity: Identity
    life: str
    seed: bytes


class Head(NamedTuple):
    """What all values come to: their numbers, and the sum of their checksums modulo 2⁶⁴."""

    tickets: int
    edges: int
    total: int


class Checksums:
    """The checksum of every value in the file.

    Attributes:
        origin: of the origin.
        state: of the state.
        edges: by neighbour.
        tickets: by round.
        total: of all of them.
    """

    def __init__(
        self, origin: int, state: int, edges: dict[str, int], tickets: dict[int, int]
    ) -> None:
        self.origin = origin
        self.state = state
        self.edges = edges
        self.tickets = tickets
        self.total = origin + state + sum(edges.values()) + sum(tickets.values())

    def head(self) -> Head:
        """What the head has to say."""
        return Head(len(self.tickets), len(self.edges), self.total % 2**64)


class Content(NamedTuple):
    """All that stands in a journal.

    Attributes:
        identity: whose it is.
        saved: what its agent goes on from.
        holder: the process that has it open, or was killed when it had; None if it was closed.
        checksums: of the values.
    """

    identity: Identity
    saved: Saved
    holder: int | None
    checksums: Checksums


TICKET = zlib.crc32(b"ticket")
_encode = msgspec.msgpack.Encoder().encode


def seal(value: Any, start: int) -> tuple[bytes, int]:
    """A value as it is kept, and its checksum.

    Args:
        value: plain data.
        start: the checksum of its key, from which its own goes on.
    """
    body = _encode(value)
    checksum = zlib.crc32(body, start)
    return checksum.to_bytes(4, "little") + body, checksum


def named(key: str) -> int:
    """What the checksum of the value under a key goes on from."""
    return zlib.crc32(key.encode())


def put(connection: sqlite3.Connection, key: str, content: Any) -> int:
    """Replace one of the values that every journal has; return its checksum."""
    value, checksum = seal(content, named(key))
    connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    return checksum


def log_of(path: Path) -> Path:
    """The write-ahead log of a journal: what was written last, until it is moved into the file."""
    return path.with_name(f"{path.name}-wal")


def has_log(path: Path) -> bool:
    """Whether there is anything in the log."""
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


def create(path: Path, identity: Identity, seed: bytes | None) -> None:
    """A new journal, which appears whole or not at all."""
    if has_log(path):
        raise corrupt(
            path, f"{log_of(path).name} is there, with what was written last, and it is not"
        )
    origin = Origin(
        identity, secrets.token_hex(4), secrets.token_bytes(32) if seed is None else seed
    )
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    # The seed foretells every choice: it is nobody else's to read.
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA fullfsync=ON")
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")
            connection.execute("BEGIN")
            for table in SCHEMA:
                connection.execute(table)
            first, origin_sum = seal(origin, named("origin"))
            state, state_sum = seal(None, named("state"))
            head, _ = seal(Checksums(origin_sum, state_sum, {}, {}).head(), named("head"))
            holder, _ = seal(None, named("holder"))
            rows = {"origin": first, "state": state, "head": head, "holder": holder}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows.items())
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode=WAL")
        new.rename(path)
        _sync_folder(path.parent)
    finally:
        new.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file last, where folders can be synced."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
