"""The durable memory of a live agent: one SQLite file that one process at a time writes.

When `write` returns, the changes are on disk (write-ahead log, synchronous=FULL). SQLite runs in a
separate thread, so that the event loop continues while the disk syncs. After an error, all later
writes fail: the agent's memory is ahead of the file, and later changes would not fit. The journal
must then be opened again, with the state of the last complete write.
"""

from __future__ import annotations

import asyncio
import errno
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
from fedbandits.live.protocol.records import Changes, Identity, SavedAgent

from . import format as form
from .errors import (
    InUseError,
    JournalError,
    WriteError,
    corrupt,
    foreign,
    full_disk,
    is_full,
    translate_errors,
)
from .reading import read_journal
from .write_ahead import find_damage

T = TypeVar("T")

LOG_BYTES = 4_194_304
"""The size to which SQLite cuts back a larger write-ahead log."""

_SEED_BYTES = 64
"""The largest key of the hash that draws arms."""


class Journal:
    """The journal of one agent.

    Args:
        path: the file. Nothing is created before `open`.

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
        self.path = Path(path).resolve()  # a link and its target are the same journal
        self._executor: ThreadPoolExecutor | None = None
        self._lock: filelock.BaseFileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._end: Callable[[], object] | None = None
        self._checksums = form.Checksums(0, 0, {}, {})
        self._failed: str | None = None

    async def open(self, identity: Identity, seed: bytes | None = None) -> SavedAgent:
        """Open the journal, or create it.

        Args:
            identity: must equal that of an existing file.
            seed: the seed of the choices, up to 64 bytes; drawn by chance for a new file by
                default. Must equal that of an existing file.

        Returns:
            The state of the last write.

        Raises:
            JournalError: if the file cannot be used; it is then unchanged.
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
            # Runs after `_open`, which may still be running.
            executor.submit(self._release)
            executor.shutdown(wait=False)
            raise

    async def write(self, changes: Changes) -> None:
        """Write all changes or none; they are on disk when this returns."""
        if self._executor is None:
            raise JournalError(f"{self.path} is not open; nothing can be written to it")
        await self._in_thread(lambda: self._write(changes))

    async def close(self) -> None:
        """Finish pending writes and release the file."""
        if self._executor is None:
            return
        try:
            await self._in_thread(self._release)
        finally:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # The methods below run in the journal's thread.

    def _open(self, identity: Identity, seed: bytes | None) -> SavedAgent:
        try:
            with translate_errors(self.path):
                self._lock = _locked(self.path)
                if not self.path.exists():
                    form.create(self.path, identity, seed)
                if form.has_log(self.path) and (why := find_damage(form.log_path(self.path))):
                    raise corrupt(self.path, why)
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
                f"{self.path} rejects writes after an error ({self._failed}); open it again: it "
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
                "before; repair the disk or free space, and start the agent again"
            ) from error

    def _put_changes(self, connection: sqlite3.Connection, changes: Changes) -> None:
        sums = self._checksums
        rows = []
        for ticket in changes.tickets:
            value, checksum = form.seal(ticket, form.TICKET_KEY)
            sums.total += checksum - sums.tickets.get(ticket.round, 0)
            sums.tickets[ticket.round] = checksum
            rows.append((ticket.round, ticket.status, value))
        if rows:
            connection.executemany("REPLACE INTO tickets VALUES (?, ?, ?)", rows)
        if changes.forgotten:
            for t in changes.forgotten:
                sums.total -= sums.tickets.pop(t, 0)
            forgotten = [(t,) for t in changes.forgotten]
            connection.executemany("DELETE FROM tickets WHERE round = ?", forgotten)
        for neighbour, edge in changes.edges.items():
            sums.total -= sums.edges.pop(neighbour, 0)
            if edge is None:
                connection.execute("DELETE FROM edges WHERE neighbour = ?", (neighbour,))
                continue
            value, checksum = form.seal(edge, form.key_checksum(neighbour))
            sums.total += checksum
            sums.edges[neighbour] = checksum
            connection.execute("REPLACE INTO edges VALUES (?, ?)", (neighbour, value))
        if changes.state is not None:
            before, sums.state = sums.state, form.update_meta(connection, "state", changes.state)
            sums.total += sums.state - before
        form.update_meta(connection, "head", sums.head())

    def _release(self) -> None:
        if self._end is not None:
            self._end()
        self._connection = self._end = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _locked(path: Path) -> filelock.BaseFileLock:
    """Return the lock of a journal, which the system releases when the process ends."""
    if path.is_dir():
        raise foreign(path, "a folder")
    if not path.parent.is_dir():
        # filelock would create the folder, which may be on a disk that is not mounted yet.
        raise FileNotFoundError(errno.ENOENT, f"no folder {path.parent}")
    lock = filelock.FileLock(f"{path}.lock", mode=0o600)  # every reader of it could hold it
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        holder = "another process"
        with suppress(JournalError):
            content = read_journal(path)
            holder = f"agent {content.identity.agent!r}"
            if content.holder is not None:
                holder += f" in process {content.holder}"
        raise InUseError(
            f"{path} is in use by {holder}; stop that one, or give this agent another file "
            f"(`fedbandits live show {path}` reads it meanwhile)"
        ) from None
    Path(lock.lock_file).chmod(0o600)  # earlier versions let every user read it
    return lock


def _check_same(
    path: Path, content: form.JournalContent, identity: Identity, seed: bytes | None
) -> None:
    """Reject the journal of another agent, or of this one with other settings."""
    for what in ("agent", "algorithm", "arms", "low", "high", "epsilon"):
        holds, expected = getattr(content.identity, what), getattr(identity, what)
        if holds != expected:
            hint = ""
            if what == "algorithm":  # the agent may use a default that has changed
                hint = "to continue, write the journal's into the federation's file; or "
            raise JournalError(
                f"{path} is a journal with {what} {_shown(holds)}, not {_shown(expected)}; {hint}"
                "give the agent its own file, or a new one to start again"
            )
    if seed is not None and seed != content.saved.seed:
        raise JournalError(
            f"{path} began with another seed; leave the seed out to continue, or give a new file "
            "to start again"
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
    """Return a connection whose commits are on disk when they return."""
    address = f"{path.as_uri()}?mode=rw"
    # One thread at a time uses it; the last may be the thread that collects the journal.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # on macOS, plain syncs are not durable
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
        # The next commit overwrites the log from its start, with other salts: `find_damage` then
        # ignores the remains of a commit that a crash interrupted.
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
    connection.execute(f"PRAGMA user_version={form.VERSION}")  # also for a journal of version 1
    form.update_meta(connection, "holder", os.getpid())
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(FULL)")


def _end(connection: sqlite3.Connection, path: Path, process: int) -> None:
    """Mark the journal as closed, and move the log into the file.

    A forked child also calls this at its exit, but must not close the journal of its parent.
    """
    if os.getpid() != process:
        return
    try:
        form.update_meta(connection, "holder", None)
    except sqlite3.Error:
        # A full disk. The mark stays in the file, so the log must stay too. SQLite deletes the log
        # with the last connection, unless that connection is read-only.
        reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        with suppress(sqlite3.Error), closing(reader):
            reader.execute("SELECT key FROM meta").fetchone()
            connection.close()
    finally:
        connection.close()
