"""One process at a time writes a journal."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import filelock

from .errors import InUseError, JournalError, foreign
from .reading import read_journal


def locked(path: Path) -> filelock.BaseFileLock:
    """A lock that goes with the process, however that ends."""
    if path.is_dir():
        raise foreign(path, "a folder")
    if not path.parent.is_dir():
        # filelock would make the folder. It may be a disk that is not there yet, with the journal.
        raise FileNotFoundError(errno.ENOENT, f"no folder {path.parent}")
    lock = filelock.FileLock(f"{path}.lock", mode=0o600)  # anyone who can open it can hold it
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        who = "another process"
        with suppress(JournalError):
            content = read_journal(path)
            who = f"agent {content.identity.agent!r}"
            if content.holder is not None:
                who += f" in process {content.holder}"
        raise InUseError(
            f"{path} is in use by {who}; stop that one, or give this agent a file of its own "
            f"(`fedbandits live show {path}` reads it meanwhile)"
        ) from None
    Path(lock.lock_file).chmod(0o600)  # earlier versions made it readable for all
    return lock
