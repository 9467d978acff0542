"""A copy of a journal at one moment, made while its agent goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fedbandits.common.files import atomic_path

from .errors import CorruptJournalError, JournalError, reading
from .format import Content, has_log, log_of, put
from .reading import read_journal


def back_up(path: str | Path, copy: str | Path, *, without_log: bool = False) -> Content:
    """Copy a journal, also while an agent writes it; the copy is read and checked before it counts.

    SQLite copies one moment: all that was acknowledged before the call is in it, and of what came
    meanwhile a beginning or nothing. Private to its owner, as a journal is.

    Args:
        path: of the journal.
        copy: the file that appears, whole or not at all.
        without_log: copy the file although its log, with the last acknowledged choices and
            observations, is missing.

    Returns:
        What the copy holds.

    Raises:
        JournalError: if there is something under the copy's name, or the journal is damaged.
    """
    source, target = Path(path).resolve(), Path(copy)
    if target.exists() or has_log(target):
        raise JournalError(f"{target} is there already, and a backup is not to replace another")
    if not target.parent.is_dir():
        raise JournalError(f"there is no folder {target.parent} for the backup")
    if without_log and has_log(source):
        raise JournalError(f"{log_of(source)} exists; back up the journal without --without-log")
    # Reject files of another kind, and damaged ones, before anything is written.
    read_journal(source, without_log=without_log)
    with atomic_path(target, private=True) as new:
        try:
            return _copied(source, new)
        except CorruptJournalError:
            # An agent that began to write between two looks at the file; then there is a log now.
            if not has_log(source):
                raise
            return _copied(source, new)


def _copied(source: Path, new: Path) -> Content:
    """Copy in one step, which is one moment of the journal; check the copy."""
    # Without a log the file is all there is, and SQLite need put nothing beside it.
    how = "mode=ro" if has_log(source) else "mode=ro&immutable=1"
    try:
        with (
            reading(source),
            closing(sqlite3.connect(f"{source.as_uri()}?{how}", uri=True)) as there,
            closing(sqlite3.connect(new)) as here,
        ):
            there.backup(here)
            put(here, "holder", None)  # the copy has no log
            here.commit()
        return read_journal(new)
    finally:  # SQLite leaves these if the disk is full
        for end in ("-wal", "-shm"):
            new.with_name(f"{new.name}{end}").unlink(missing_ok=True)
