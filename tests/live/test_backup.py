"""A backup of a journal is one moment of it, complete, while the agent runs."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.live.journal import back_up, backup, read_journal
from fedbandits.live.journal.errors import CorruptJournalError, JournalError, translate_errors

from .journals import ROOT, opened, played_journal
from .test_kill import Undisturbed, check_same, in_order


@pytest.mark.slow
def test_a_backup_while_an_agent_writes(tmp_path: Path) -> None:
    """Each copy is an earlier state of the agent, but not earlier than the call."""
    path, luck = tmp_path / "shop3.db", random.Random(0)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.live.killed", str(path), "1", "0"],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    pipe, acknowledged = child.stdout, list[str]()

    def listen() -> None:
        for line in pipe:
            acknowledged.append(line.decode().strip())

    listener = threading.Thread(target=listen)
    listener.start()
    copies = []
    try:
        end = time.monotonic() + 60
        for number in range(8):
            while len(acknowledged) < 30 * number + 2:
                assert time.monotonic() < end
                time.sleep(0.01)
            time.sleep(luck.uniform(0, 0.05))
            before = acknowledged[1:]  # without "running"
            copies.append((before, tmp_path / f"copy{number}.db"))
            back_up(path, copies[-1][1])
    finally:
        child.kill()
        child.wait()
        listener.join()
        pipe.close()
    twin = Undisturbed(read_journal(path).saved.life)
    for before, copy in copies:
        check_same(read_journal(copy).saved, twin)
        assert in_order(before, twin.acknowledged)
    assert len(copies[-1][0]) > len(copies[0][0])


def test_an_agent_continues_from_a_private_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    played_journal(path)
    before = path.read_bytes()
    mask = os.umask(0)
    try:
        content = back_up(path, copy)
    finally:
        os.umask(mask)
    assert content.saved == read_journal(path).saved
    assert content.holder is None
    assert path.read_bytes() == before
    assert copy.stat().st_mode & 0o777 == 0o600
    with opened(copy) as journal:
        assert journal.saved == content.saved


def test_a_backup_of_an_open_journal_needs_no_log(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    with opened(path) as journal:
        journal.play(20)
        back_up(path, copy)
        journal.play(20)
    assert read_journal(copy).holder is None
    with opened(copy) as journal:
        assert journal.saved.state is not None
        assert journal.saved.state.rounds == 20


def test_a_full_disk_is_reported_for_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    played_journal(path)
    files = sorted(tmp_path.iterdir())

    def fail(source: Path, _: Path) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        with translate_errors(source):
            raise error

    monkeypatch.setattr(backup, "_copied", fail)
    with pytest.raises(OSError, match="bytes are free; make room there") as caught:
        back_up(path, copy)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(copy))
    assert sorted(tmp_path.iterdir()) == files


def test_a_failed_backup_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy, text = tmp_path / "shop3.db", tmp_path / "copy.db", tmp_path / "text"
    played_journal(path)
    files = sorted(tmp_path.iterdir())
    copy.write_text("the last backup")
    text.write_text("a letter")
    for source, target, error, why in (
        (path, copy, JournalError, r"copy.db exists already"),
        (path, path, JournalError, "exists already"),
        (path, tmp_path / "no" / "copy.db", JournalError, "no folder"),
        (tmp_path / "no.db", tmp_path / "new.db", JournalError, "cannot be opened"),
        (text, tmp_path / "new.db", JournalError, "not a SQLite database"),
    ):
        with pytest.raises(error, match=why):
            back_up(source, target)
    assert copy.read_text() == "the last backup"
    copy.unlink()
    text.unlink()
    original = read_journal

    def reject_copy(file: Path, **options: bool) -> object:
        if file != path:
            raise CorruptJournalError("differs from the original")
        return original(file, **options)

    monkeypatch.setattr("fedbandits.live.journal.backup.read_journal", reject_copy)
    with pytest.raises(CorruptJournalError, match="differs from the original"):
        back_up(path, copy)
    assert sorted(tmp_path.iterdir()) == files


def test_the_command(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    played_journal(path)
    done = CliRunner().invoke(app, ["live", "backup", str(path), str(copy)])
    assert done.exit_code == 0, done.output
    assert "contains 40 choices" in done.output
    assert read_journal(copy).saved == read_journal(path).saved
    done = CliRunner().invoke(app, ["live", "backup", str(path), str(copy)])
    assert done.exit_code != 0
    assert "exists already" in done.output
