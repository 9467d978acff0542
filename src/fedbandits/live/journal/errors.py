"""The errors of opening, reading and writing a journal; each names the file and the fix."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandits.common.files import FULL


class JournalError(ValueError):
    """A journal that cannot be used."""


class CorruptJournalError(JournalError):
    """A damaged journal."""


class MissingLogError(CorruptJournalError):
    """A journal without its log, which holds the last acknowledged changes."""


class InUseError(JournalError):
    """A journal that another process, or another part of this one, has open."""


class WriteError(JournalError):
    """A failed write; the journal holds everything written before."""


class FullDiskError(WriteError, OSError):
    """A disk without room for the journal."""

    errno = errno.ENOSPC


_UNREACHABLE = ("CANTOPEN", "PERM", "AUTH", "READONLY", "IOERR", "BUSY", "LOCKED", "NOMEM")
"""SQLite's errors for a file that may be complete but cannot be accessed."""


def corrupt(path: Path, why: str) -> CorruptJournalError:
    """Return the error for a damaged file."""
    return CorruptJournalError(
        f"{path} is damaged: {why}. Restore a backup of it, or give the agent another file: it "
        "then comes back as an agent that lost its disk. Nothing in the file was changed"
    )


def is_full(error: Exception) -> bool:
    """Return whether SQLite or the system reported a full disk."""
    # The index of the log is in shared memory, which SQLite also stores as a file.
    full = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
    return getattr(error, "sqlite_errorname", "") in full or getattr(error, "errno", None) in FULL


def full_disk(path: Path) -> FullDiskError:
    """Return the error for a journal whose disk is full."""
    return FullDiskError(
        f"the disk of {path} is full: {shutil.disk_usage(path.parent).free:,} bytes are free. "
        "Nothing was written, and the journal holds all that was written before; make room there, "
        "and start the agent again"
    )


def missing_log(path: Path, log: str, rounds: int, observed: int) -> MissingLogError:
    """Return the error for a journal whose log is missing."""
    return MissingLogError(
        f"{path} lacks its log {log}. The agent that used it did not close it, and its last "
        f"commits are in the log. The file alone ends with choice {rounds:,}, of which "
        f"{observed:,} are observed; the number of lost ones is unknown, usually up to a few "
        f"hundred. Put {log} back, or restore a backup. To continue without the log, run "
        f"`fedbandits live backup --without-log {path} COPY.db` and put the copy in the place of "
        f"the journal. To start as a member that lost its disk, move {path} away"
    )


def foreign(path: Path, what: str) -> JournalError:
    """Return the error for a file of another kind."""
    return JournalError(
        f"{path} is {what}, not the journal of an agent, and was not touched; give the agent "
        "another file, or restore a backup if its journal was here"
    )


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and the system as a `JournalError` about this file."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise full_disk(path) from error
        raise _unreachable(path, error.strerror or str(error)) from error
    except sqlite3.Error as error:
        if is_full(error):
            raise full_disk(path) from error
        code = getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_")
        if code == "NOTADB":
            raise foreign(path, "not a SQLite database (or a damaged one)") from error
        if code.startswith(_UNREACHABLE):
            raise _unreachable(path, str(error)) from error
        raise corrupt(path, str(error)) from error
    except UnicodeError as error:  # a message of SQLite that quotes damaged content
        raise corrupt(path, str(error)) from error


def _unreachable(path: Path, why: str) -> JournalError:
    return JournalError(
        f"{path} cannot be opened ({why}); its folder must exist, and you need permission to read "
        "and write both"
    )
