"""A journal is copied while its agent goes on: one moment of it, whole."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.live.journal import Journal, back_up, backup, read_journal
from fedbandits.live.journal.errors import (
    CorruptJournalError,
    ForeignFileError,
    JournalError,
    translate_errors,
)

from .journals import identity, played_journal
from .test_kill import ROOT, Undisturbed, in_order, without_times


@pytest.mark.slow
def test_while_an_agent_writes(tmp_path: Path) -> None:
    """Each copy is the agent as it once was, and no earlier than when the copy was asked for."""
    path, luck = tmp_path / "shop3.db", random.Random(0)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.live.killed", str(path), "1", "0"],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    pipe, told = child.stdout, list[str]()

    def listen() -> None:
        for line in pipe:
            told.append(line.decode().strip())

    listener = threading.Thread(target=listen)
    listener.start()
    copies = []
    try:
        end = time.monotonic() + 60
        for number in range(8):
            while len(told) < 30 * number + 2:
                assert time.monotonic() < end
                time.sleep(0.01)
            time.sleep(luck.uniform(0, 0.05))
            before = told[1:]  # all but "running"
            copies.append((before, tmp_path / f"copy{number}.db"))
            back_up(path, copies[-1][1])
    finally:
        child.kill()
        child.wait()
        listener.join()
        pipe.close()
    twin = Undisturbed(read_journal(path).saved.life)
    for before, copy in copies:
        saved = read_journal(copy).saved
        state = saved.state
        assert state is not None
        while len(twin.told) < state.rounds + state.observed:
            twin.step()
        assert in_order(before, twin.told)
        assert without_times(state) == without_times(twin.member.state_record())
        tickets = [
            msgspec.structs.replace(t, issued=0.0, id=f"{twin.life}-{t.round}")
            for t in saved.tickets
        ]
        assert tickets == twin.tickets()
    assert len(copies[-1][0]) > len(copies[0][0])


def test_an_agent_goes_on_from_a_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    played_journal(path)
    before = path.read_bytes()
    content = back_up(path, copy)
    assert content.saved == read_journal(path).saved
    assert path.read_bytes() == before
    assert copy.stat().st_mode & 0o777 == 0o600

    async def opened() -> object:
        journal = Journal(copy)
        saved = await journal.open(identity())
        await journal.close()
        return saved

    assert asyncio.run(opened()) == content.saved


def test_a_copy_on_a_full_disk_names_the_copy(
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


def test_what_was_not_copied_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    played_journal(path)
    files = sorted(tmp_path.iterdir())
    copy.write_text("the last backup")
    with pytest.raises(JournalError, match=r"copy.db exists already"):
        back_up(path, copy)
    assert copy.read_text() == "the last backup"
    copy.unlink()
    with pytest.raises(JournalError, match="exists already"):
        back_up(path, path)
    with pytest.raises(JournalError, match="no folder"):
        back_up(path, tmp_path / "no" / "copy.db")
    with pytest.raises(JournalError, match="cannot be opened"):
        back_up(tmp_path / "no.db", copy)
    (tmp_path / "text").write_text("a letter")
    with pytest.raises(ForeignFileError):
        back_up(tmp_path / "text", copy)
    (tmp_path / "text").unlink()
    # A copy that cannot be read is none.
    really = read_journal

    def reads_no_copy(file: Path, **how: bool) -> object:
        if file != path:
            raise CorruptJournalError("not what was copied")
        return really(file, **how)

    monkeypatch.setattr("fedbandits.live.journal.backup.read_journal", reads_no_copy)
    with pytest.raises(CorruptJournalError, match="not what was copied"):
        back_up(path, copy)
    assert sorted(tmp_path.iterdir()) == files


def test_the_command(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    played_journal(path)
    done = CliRunner().invoke(app, ["live", "backup", str(path), str(copy)])
    assert done.exit_code == 0, done.output
    assert "holds 40 choices" in done.output
    assert read_journal(copy).saved == read_journal(path).saved
    done = CliRunner().invoke(app, ["live", "backup", str(path), str(copy)])
    assert done.exit_code != 0
    assert "exists already" in done.output


def test_nobody_else_may_read_a_copy(tmp_path: Path) -> None:
    """Nor while it is made."""
    path = tmp_path / "shop3.db"
    played_journal(path)
    mask = os.umask(0)
    try:
        back_up(path, tmp_path / "copy.db")
    finally:
        os.umask(mask)
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
