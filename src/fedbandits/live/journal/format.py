"""The format of a journal's file, and the checksums that detect every change of it.

SQLite has no checksums. Here every value has one, over its key and its content. One row, the head,
holds the number of values and the sum of their checksums. A value that is changed, missing, doubled
or outdated is therefore detected.
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

from fedbandits.live.protocol.records import Identity, SavedAgent

from .errors import corrupt

APPLICATION = 0x66624A6C
"""The application id of a journal in SQLite: "fbJl"."""

VERSION = 2
"""The version of the format. Since version 2 `holder` is up to date in the file itself, without its
log: the process that opened the journal, or None once the journal is closed."""

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE edges (neighbour TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tickets (round INTEGER PRIMARY KEY, status TEXT NOT NULL, value BLOB NOT NULL)",
)


class Origin(msgspec.Struct, frozen=True):
    """The values that never change: the identity, and the random life and seed."""

    identity: Identity
    life: str
    seed: bytes


class Head(NamedTuple):
    """The numbers of values, and the sum of all checksums modulo 2⁶⁴."""

    tickets: int
    edges: int
    total: int


class Checksums:
    """The checksum of every value in the file.

    Attributes:
        origin: The checksum of the origin.
        state: The checksum of the state.
        edges: The checksums of the edges, by neighbour.
        tickets: The checksums of the tickets, by round.
        total: The sum of all checksums.
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
        """Return the head of a file with these values."""
        return Head(len(self.tickets), len(self.edges), self.total % 2**64)


class JournalContent(NamedTuple):
    """The content of a journal.

    Attributes:
        identity: The identity of the agent.
        saved: The state from which the agent continues.
        holder: The process that has the journal open, or was killed while it had; None if closed.
        checksums: The checksums of the values.
    """

    identity: Identity
    saved: SavedAgent
    holder: int | None
    checksums: Checksums


TICKET_KEY = zlib.crc32(b"ticket")
_encode = msgspec.msgpack.Encoder().encode


def seal(value: Any, start: int) -> tuple[bytes, int]:
    """Return a value with its checksum, as the file stores it, and the checksum.

    Args:
        value: plain data.
        start: the checksum of its key, with which its own checksum begins.
    """
    body = _encode(value)
    checksum = zlib.crc32(body, start)
    return checksum.to_bytes(4, "little") + body, checksum


def key_checksum(key: str) -> int:
    """Return the number with which the checksum of the value under a key begins."""
    return zlib.crc32(key.encode())


def update_meta(connection: sqlite3.Connection, key: str, content: Any) -> int:
    """Replace one of the values that every journal has, and return its checksum."""
    value, checksum = seal(content, key_checksum(key))
    connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    return checksum


def log_path(path: Path) -> Path:
    """Return the write-ahead log of a journal, which holds the last commits."""
    return path.with_name(f"{path.name}-wal")


def has_log(path: Path) -> bool:
    """Return whether a journal has a log with content."""
    log = log_path(path)
    return log.exists() and log.stat().st_size > 0


def create(path: Path, identity: Identity, seed: bytes | None) -> None:
    """Create a journal, which appears complete or not at all."""
    if has_log(path):
        raise corrupt(path, f"{log_path(path).name} exists with the last commits, but the file not")
    origin = Origin(
        identity, secrets.token_hex(4), secrets.token_bytes(32) if seed is None else seed
    )
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    # The seed predicts every choice, so only the owner may read it.
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
            values = {
                key: seal(value, key_checksum(key))
                for key, value in (
                    ("origin", origin),
                    ("state", None),
                    ("holder", None),
                )
            }
            head = Checksums(values["origin"][1], values["state"][1], {}, {}).head()
            values["head"] = seal(head, key_checksum("head"))
            rows = [(key, value) for key, (value, _) in values.items()]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode=WAL")
        new.rename(path)
        _sync_folder(path.parent)
    finally:
        new.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable, on systems that can sync a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
