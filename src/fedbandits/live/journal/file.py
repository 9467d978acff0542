"""The durable memory of a live agent: one SQLite file, which one process at a time writes.

What `write` has returned from is on disk (write-ahead log, synchronous=FULL). All of SQLite runs in
a thread of its own, so that the event loop goes on while the disk syncs. After an error nothing
more is written: the agent has gone on from what is not in the file, so what came next would not
fit. It is opened again, and goes on from the last that was written whole.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import filelock

from fedbandits.common.files import others_have_access
from fedbandits.live.protocol.records import Changes, Identity, Saved

from . import format as form
from .errors import (
    InUseError,
    JournalError,
    OtherJournalError,
    WriteError,
    corrupt,
    full_disk,
    is_full,
    reading,
)
from .lock import locked
from .reading import read_journal
from .write_ahead import damage

T = TypeVar("T")

LOG_BYTES = 4_194_304
"""What the write-ahead log is cut back to, should it ever have grown beyond."""

_SEED_BYTES = 64
"""The longest key of the hash that draws arms."""


class Journal:
    """The journal of one agent.

    Args:
        path: its file. Nothing is touched before `open`.

    Example:
        >>> import asyncio, tempfile
        >>> async def begin(path):
        ...     journal = Journal(path)
        ...     saved = await journal.open(Identity("shop3", "{}", ("tea", "coffee")), b"seed")
        ...     await journal.close()
        ...     return saved.seed, saved.state, saved.tickets
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(begin(f"{folder}/shop3.db"))
        (b'seed', None, [])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()  # a link to a journal is no other journal
        self._executor: ThreadPoolExecutor | None = None
        self._lock: filelock.BaseFileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._end: Callable[[], object] | None = None
        self._checksums = form.Checksums(0, 0, {}, {})
        self._failed: str | None = None

    async def open(self, identity: Identity, seed: bytes | None = None) -> Saved:
        """Begin a journal, or go on with it.

        Args:
            identity: whose it is; must be that of the file.
            seed: of the choices, up to 64 bytes; by default drawn when the journal begins. Must be
                that of the file.

        Returns:
            What was written last.

        Raises:
            JournalError: if the file cannot be gone on with; it is then as it was.
        """
        if seed is not None and not 1 <= len(seed) <= _SEED_BYTES:
            raise ValueError(f"a seed must have 1 to {_SEED_BYTES} bytes, not {len(seed)}")
        if self._executor is not None:
            raise InUseError(f"{self.path} is open already; close it first")
        self._executor = ThreadPoolExecutor(1, f"journal {self.path.name}")
        try:
            return await self._in_thread(lambda: self._open(identity, seed))
        except BaseException:
            executor, self._executor = self._executor, None
            # Comes after `_open`, should that still be under way.
            executor.submit(self._release)
            executor.shutdown(wait=False)
            raise

    async def write(self, changes: Changes) -> None:
        """Write all of it or nothing; on disk when it returns."""
        if self._executor is None:
            raise JournalError(f"{self.path} is not open; nothing can be written to it")
        await self._in_thread(lambda: self._write(changes))

    async def close(self) -> None:
        """Let go of the file; what is under way is written first."""
        if self._executor is None:
            return
        try:
            await self._in_thread(self._release)
        finally:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # What runs in the thread

    def _open(self, identity: Identity, seed: bytes | None) -> Saved:
        try:
            with reading(self.path):
                self._lock = locked(self.path)
                if not self.path.exists():
                    form.create(self.path, identity, seed)
                if form.has_log(self.path) and (fault := damage(form.log_of(self.path))):
                    raise corrupt(self.path, fault)
                content = read_journal(self.path)
                _check_same(self.path, content, identity, seed)
                _check_private(self.path)
                self._connection = connection = _writing(self.path)
                # Runs also without `close`, because SQLite deletes the log with the connection.
                self._end = weakref.finalize(self, _end, connection, self.path, os.getpid())
                self._checksums = content.checksums
                self._failed = None
                _mark_open(connection)
                return content.saved
        except BaseException:
            self._release()
            raise

    def _write(self, changes: Changes) -> None:
        if self._failed is not None:
            raise WriteError(
                f"{self.path} is not written to after an error ({self._failed}); open it again: it "
                "holds all that was written before"
            )
        assert self._connection is not None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._put_changes(self._connection, changes)
            self._connection.execute("COMMIT")
        except Exception as error:
            self._failed = str(error)
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            if is_full(error):
                raise full_disk(self.path) from error
            raise WriteError(
                f"{self.path}: nothing was written ({error}). It holds all that was written "
                "before; mend the disk or free space, and start the agent again"
            ) from error

    def _put_changes(self, connection: sqlite3.Connection, changes: Changes) -> None:
        sums = self._checksums
        rows = []
        for ticket in changes.tickets:
            value, checksum = form.seal(ticket, form.TICKET)
            sums.total += checksum - sums.tickets.get(ticket.round, 0)
            sums.tickets[ticket.round] = checksum
            rows.append((ticket.round, ticket.status, value))
        if rows:
            connection.executemany("REPLACE INTO tickets VALUES (?, ?, ?)", rows)
        if changes.forgotten:
            for t in changes.forgotten:
                sums.total -= sums.tickets.pop(t, 0)
            gone = [(t,) for t in changes.forgotten]
            connection.executemany("DELETE FROM tickets WHERE round = ?", gone)
        for neighbour, edge in changes.edges.items():
            sums.total -= sums.edges.pop(neighbour, 0)
            if edge is None:
                connection.execute("DELETE FROM edges WHERE neighbour = ?", (neighbour,))
                continue
            value, checksum = form.seal(edge, form.named(neighbour))
            sums.total += checksum
            sums.edges[neighbour] = checksum
            connection.execute("REPLACE INTO edges VALUES (?, ?)", (neighbour, value))
        if changes.state is not None:
            before, sums.state = sums.state, self._put("state", changes.state)
            sums.total += sums.state - before
        self._put("head", sums.head())

    def _put(self, key: str, content: object) -> int:
        """Write one of the values that are always there; its checksum."""
        assert self._connection is not None
        return form.put(self._connection, key, content)

    def _release(self) -> None:
        if self._end is not None:
            self._end()
        self._connection = self._end = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _check_same(path: Path, content: form.Content, identity: Identity, seed: bytes | None) -> None:
    """Refuse to go on with what another agent, or this one under other terms, has begun."""
    kept = content.identity
    for what in ("agent", "algorithm", "arms", "low", "high", "epsilon"):
        holds, expected = getattr(kept, what), getattr(identity, what)
        if holds != expected:
            go_on = ""
            if what == "algorithm":  # which the agent may have by a default that was another once
                go_on = "to go on, write the journal's into the federation's file; or "
            raise OtherJournalError(
                f"{path} is a journal with {what} {_shown(holds)}, not {_shown(expected)}; {go_on}"
                "give the agent the file that is its own, or a new one to start anew"
            )
    if seed is not None and seed != content.saved.seed:
        raise OtherJournalError(
            f"{path} began with another seed; leave the seed out to go on with it, or give a new "
            "file to start anew"
        )


def _check_private(path: Path) -> None:
    """Reject a journal that every user of the machine may read or write."""
    files = (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm")))
    public = [str(file) for file in files if file.exists() and others_have_access(file)]
    if public:
        raise JournalError(
            f"every user of this machine has access to {' '.join(public)}, and a journal holds the "
            f"seed of all choices: chmod 600 {' '.join(public)}"
        )


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _writing(path: Path) -> sqlite3.Connection:
    """A connection whose commits are on disk when they return."""
    address = f"{path.as_uri()}?mode=rw"
    # One thread at a time uses it; the last may be the one that collects the journal.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # macOS: a sync that is one
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
        # The next commit overwrites the log from its start, with other salts: `damage` then ignores
        # the remains of a commit that a crash interrupted.
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
    except BaseException:
        connection.close()
        raise
    return connection


def _mark_open(connection: sqlite3.Connection) -> None:
    """Mark the file itself, without its log, as one that has a log.

    The mark is in the log first, and the log is never empty from then on. After a crash a file with
    the mark therefore has a log.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA user_version={form.VERSION}")  # of a journal of version 1 too
    form.put(connection, "holder", os.getpid())
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(FULL)")


def _end(connection: sqlite3.Connection, path: Path, process: int) -> None:
    """Mark the journal as closed, and move the log into the file.

    A forked child inherits this duty at its exit, but not the journal.
    """
    if os.getpid() != process:
        return
    try:
        form.put(connection, "holder", None)
    except sqlite3.Error:
        # A full disk. The mark stays in the file, so the log must stay too. SQLite deletes the log
        # with the last connection, unless that connection is read-only.
        reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        with suppress(sqlite3.Error), closing(reader):
            reader.execute("SELECT key FROM meta").fetchone()
            connection.close()
    finally:
        connection.close()
