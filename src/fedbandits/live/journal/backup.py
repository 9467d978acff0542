"""A copy of a journal at one moment, made while its agent runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fedbandits.common.files import atomic_path

from .errors import CorruptJournalError, JournalError, translate_errors
from .format import JournalContent, has_log, log_path, update_meta
from .reading import read_journal, read_only


def back_up(path: str | Path, copy: str | Path, *, without_log: bool = False) -> JournalContent:
    """Copy a journal, also while an agent writes it, and check the copy.

    SQLite copies one moment. Everything acknowledged before the call is in the copy; of later
    commits it contains a first part or nothing. Only its owner may read the copy.

    Args:
        path: the journal.
        copy: the new file, which appears complete or not at all.
        without_log: copy the file although its log, with the last acknowledged choices and
            observations, is missing.

    Returns:
        The content of the copy.

    Raises:
        JournalError: if the copy exists already, or the journal is damaged.
    """
    source, target = Path(path).resolve(), Path(copy)
    if target.exists() or has_log(target):
        raise JournalError(f"{target} exists already, and a backup must not replace another")
    if not target.parent.is_dir():
        raise JournalError(f"there is no folder {target.parent} for the backup")
    if without_log and has_log(source):
        raise JournalError(f"{log_path(source)} exists; back up the journal without --without-log")
    # Reject files of another kind, and damaged ones, before anything is written.
    read_journal(source, without_log=without_log)
    with atomic_path(target, private=True) as new:
        try:
            return _copied(source, new)
        except CorruptJournalError:
            # An agent may have started between `has_log` and the copy. Then there is a log now.
            if not has_log(source):
                raise
            return _copied(source, new)


def _copied(source: Path, new: Path) -> JournalContent:
    """Copy one moment of the journal, and check the copy."""
    try:
        with (
            translate_errors(source),
            closing(read_only(source, logged=has_log(source))) as original,
            closing(sqlite3.connect(new)) as copy,
        ):
            original.backup(copy)
            update_meta(copy, "holder", None)  # the copy has no log
            copy.commit()
        return read_journal(new)
    finally:  # SQLite leaves these if the disk is full
        for end in ("-wal", "-shm"):
            new.with_name(f"{new.name}{end}").unlink(missing_ok=True)
