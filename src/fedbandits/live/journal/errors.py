"""Why a journal is not opened, read or written: each names the file and what to do."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandits.common.files import FULL


class JournalError(ValueError):
    """A journal that cannot be used as it is; says why."""


class ForeignFileError(JournalError):
    """The file is not a journal."""


class NewerJournalError(JournalError):
    """A newer version of this library wrote the file."""


class OtherJournalError(JournalError):
    """The journal is another agent's, or of another algorithm, other arms or another seed."""


class CorruptJournalError(JournalError):
    """The file is not what was written to it."""


class MissingLogError(CorruptJournalError):
    """The log of the journal is missing, and with it what was acknowledged last."""


class InUseError(JournalError):
    """Another process, or another part of this one, has the journal open."""


class WriteError(JournalError):
    """Something was not written; the journal holds all that was written before."""


class FullDiskError(WriteError, OSError):
    """The disk has no room for the journal."""

    errno = errno.ENOSPC


_UNREACHABLE = ("CANTOPEN", "PERM", "AUTH", "READONLY", "IOERR", "BUSY", "LOCKED", "NOMEM")
"""What SQLite says where the file may be whole and cannot be had."""


def corrupt(path: Path, why: str) -> CorruptJournalError:
    """The error for a damaged file."""
    return CorruptJournalError(
        f"{path} is damaged: {why}. Restore a backup of it, or give the agent another file: it "
        "then comes back as one that lost its disk. Nothing in the file was changed"
    )


def is_full(error: Exception) -> bool:
    """Return whether SQLite or the system found no room on a disk."""
    # The index of the log lies in shared memory, which SQLite also keeps as a file.
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


def foreign(path: Path, what: str) -> ForeignFileError:
    """The error for a file of another kind."""
    return ForeignFileError(
        f"{path} is {what}, not the journal of an agent, and was not touched; give the agent "
        "another file, or restore a backup if its journal was here"
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What SQLite and the system say of a file, in our words."""
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
            raise foreign(path, "no SQLite database (or one that is damaged)") from error
        if code.startswith(_UNREACHABLE):
            raise _unreachable(path, str(error)) from error
        raise corrupt(path, str(error)) from error
    except UnicodeError as error:  # SQLite names what it found, and that is no text
        raise corrupt(path, str(error)) from error


def _unreachable(path: Path, why: str) -> JournalError:
    return JournalError(
        f"{path} cannot be opened ({why}); its folder must be there, and both must be yours to "
        "read and write"
    )
