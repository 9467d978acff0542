"""A journal whose write-ahead log is missing or damaged is rejected; a crash causes neither."""

from __future__ import annotations

import os
import random
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.live.journal import back_up, read_journal
from fedbandits.live.journal.errors import CorruptJournalError, JournalError, MissingLogError
from fedbandits.live.journal.format import key_checksum, log_path, seal
from fedbandits.live.journal.write_ahead import find_damage
from fedbandits.live.protocol.records import Changes, SavedAgent

from .journals import (
    ROOT,
    Opened,
    copy_of,
    member,
    opened,
    play,
    put_private,
    rejected,
    rounds_of,
    unsaved,
)

FRAME = 24 + 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop3.db"


def rejected_by_all(path: Path, kind: type[CorruptJournalError] = MissingLogError) -> str:
    """Return the error of opening a journal; check that readers and backups raise it too."""
    with pytest.raises(kind):
        read_journal(path)
    with pytest.raises(kind):
        back_up(path, path.with_name("backup.db"))
    return rejected(path, kind)


@pytest.mark.parametrize("log", [None, b""])
def test_a_file_without_its_log_is_rejected(log: bytes | None, path: Path) -> None:
    with opened(path) as journal:
        journal.play(30)
        journal.sql("PRAGMA wal_checkpoint(FULL)")
        journal.play(12)
        content = log_path(path).read_bytes()
        copy = copy_of(path, path.parent / "copy", log)
    error = rejected_by_all(copy)
    assert "shop3.db-wal" in error
    assert "ends with choice 30, of which 24 are observed" in error
    assert "Put shop3.db-wal back" in error
    assert f"fedbandits live backup --without-log {copy}" in error
    assert rounds_of(path) == 42
    # The agent continues once the log is back.
    put_private(log_path(copy), content)
    undisturbed = member(unsaved())
    play(undisturbed, 42)
    with opened(copy) as journal:
        assert play(member(journal.saved), 10) == play(undisturbed, 10)


def test_a_journal_without_a_write_since_its_opening(path: Path) -> None:
    for _ in range(2):
        with opened(path):
            copy = copy_of(path, path.parent / "copy", log_path(path).read_bytes())
        with opened(copy) as journal:
            assert journal.saved.state is None
        assert not log_path(path).exists()


def test_a_log_older_than_the_file_is_rejected(path: Path) -> None:
    """SQLite would apply it, and return to an earlier state of the journal."""
    with opened(path) as journal:
        journal.play(12)
        before = log_path(path).read_bytes()
        journal.play(12)
        journal.sql("PRAGMA wal_checkpoint(FULL)")
        copy = copy_of(path, path.parent / "copy", before)
    error = rejected_by_all(copy, CorruptJournalError)
    assert "shop3.db-wal is older than the file" in error


class Crash(NamedTuple):
    """The files of a journal at one moment, and the rounds acknowledged before."""

    file: bytes
    log: bytes | None
    rounds: int

    def put(self, path: Path, file: bytes | None = None, log: bytes | None = None) -> Path:
        """Restore these files, or damaged ones."""
        put_private(path, self.file if file is None else file)
        put_private(log_path(path), self.log if log is None else log)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        return path


@contextmanager
def crashes(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Crash]]:
    """Record the files of a journal before each statement that can write to them."""
    found: list[Crash] = []
    acknowledged = [0]
    connect, write = sqlite3.connect, Opened.write

    def snapshot(_: str) -> None:
        log = log_path(path).read_bytes() if log_path(path).exists() else None
        found.append(Crash(path.read_bytes(), log, acknowledged[0]))

    def traced(address: str | Path, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(address, **options)
        if "mode=rw" in str(address):
            snapshot("")
            connection.set_trace_callback(snapshot)
        return connection

    def write_and_count(journal: Opened, changes: Changes) -> None:
        write(journal, changes)
        acknowledged[0] = changes.state.rounds if changes.state else acknowledged[0]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced)
        patch.setattr(Opened, "write", write_and_count)
        yield found
        snapshot("")


@pytest.mark.slow
def test_a_crash_at_any_statement_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a second crash, while the agent starts again."""
    again = path.with_name("again.db")
    with crashes(path, monkeypatch) as first:
        for _ in range(2):
            with opened(path) as journal:
                for _ in range(3):
                    journal.play(6)
                journal.sql("PRAGMA wal_checkpoint(PASSIVE)")
                journal.play(6)
    assert len(first) > 40
    assert first[-1].rounds == 48
    for crash in dict.fromkeys(first):
        crash.put(again)
        with crashes(again, monkeypatch) as second, opened(again):
            assert rounds_of(again) >= crash.rounds
        for other in dict.fromkeys(second):
            other.put(again)
            with opened(again):
                assert rounds_of(again) >= crash.rounds


def run(code: str, path: Path, *, status: int = 0) -> None:
    """Run a program with an open journal after 20 rounds, and check its exit status."""
    begin = """
import asyncio, gc, os, resource, signal, sys, time
from pathlib import Path
from fedbandits.live.journal import Journal, read_journal
from fedbandits.live.journal.format import log_path
from tests.live.journals import SEED, identity, member, opened, play
path = Path(sys.argv[1])
async def begin():
    journal = Journal(path)
    player = member(await journal.open(identity(), SEED))
    play(player, 20)
    await journal.write(player.changes())
    return journal
"""
    command = [sys.executable, "-W", "ignore", "-c", begin + code, str(path)]
    done = subprocess.run(command, cwd=ROOT, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize(
    "code",
    [
        "journal = asyncio.run(begin())",
        # The thread of the journal may hold it for a moment.
        """
journal = asyncio.run(begin())
del journal
while log_path(path).exists():
    gc.collect()
    time.sleep(0.01)
os._exit(0)
""",
    ],
    ids=["exit", "collection"],
)
def test_a_program_that_does_not_close_its_journal(code: str, path: Path) -> None:
    """SQLite then deletes the log, and the file shows that nothing is missing."""
    run(code, path)
    assert not log_path(path).exists()
    with opened(path):
        assert rounds_of(path) == 20


def test_a_journal_that_cannot_be_marked_as_closed_keeps_its_log(path: Path) -> None:
    code = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with opened(path) as journal:
    for _ in range(20):
        journal.play(1)
    full = log_path(path).stat().st_size
    assert full > 2 * path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, full))
"""
    run(code, path)
    assert log_path(path).exists()
    with opened(path):
        assert rounds_of(path) == 20
    assert not log_path(path).exists()


def test_the_next_start_reports_a_log_deleted_while_the_agent_ran(path: Path) -> None:
    """The commits of the running agent still succeed."""
    code = """
with opened(path) as journal:
    player = journal.play(10)
    log_path(path).unlink()
    play(player, 10)
    journal.write(player.changes())
    os._exit(9)
"""
    run(code, path, status=9)
    rejected_by_all(path)


@pytest.mark.skipif(os.name != "posix", reason="fork is POSIX")
def test_a_forked_child_does_not_close_the_journal_of_its_parent(path: Path) -> None:
    code = """
journal = asyncio.run(begin())
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
assert read_journal(path).holder == os.getpid()
"""
    run(code, path)


def test_a_journal_of_version_1_needs_no_log(path: Path) -> None:
    """Its backups name the process that had it open."""
    with opened(path) as journal:
        journal.play(20)
    holder, _ = seal(7, key_checksum("holder"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'holder'", (holder,))
        connection.execute("PRAGMA user_version=1")
    with opened(path) as journal:
        journal.play(20)
        copy = copy_of(path, path.parent / "copy")
    rejected_by_all(copy)  # it has the mark of version 2 now


def test_a_backup_without_the_log_saves_the_content_of_the_file(path: Path) -> None:
    with opened(path) as journal:
        journal.play(30)
        journal.sql("PRAGMA wal_checkpoint(FULL)")
        journal.play(12)
        whole = ["live", "backup", "--without-log", str(path), str(path.with_name("none.db"))]
        done = CliRunner().invoke(app, whole)
        assert done.exit_code != 0
        assert "shop3.db-wal exists" in done.output.replace("\n", " ")
        copy = copy_of(path, path.parent / "copy")
    saved = path.with_name("saved.db")
    done = CliRunner().invoke(app, ["live", "backup", "--without-log", str(copy), str(saved)])
    assert done.exit_code == 0, done.output
    assert "contains 30 choices" in done.output
    with opened(saved):
        assert rounds_of(saved) == 30


# Damage in a log that a crash left


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crash, list[SavedAgent]]:
    """The files that a crash left, and the agent after each commit in the log."""
    path = tmp_path_factory.mktemp("crashed") / "shop3.db"
    commits = []
    with opened(path) as journal:
        for _ in range(5):
            journal.play(6)
            commits.append(read_journal(path).saved)
        return Crash(path.read_bytes(), log_path(path).read_bytes(), 30), commits


Crashed = tuple[Crash, list[SavedAgent]]


def test_a_crash_spoils_the_last_commit_alone(crashed: Crashed, path: Path) -> None:
    crash, commits = crashed
    with opened(crash.put(path)) as journal:
        assert journal.saved == commits[-1]
    assert crash.log is not None
    log = bytearray(crash.log)
    log[-5000] ^= 1
    with opened(crash.put(path, log=bytes(log))) as journal:
        assert journal.saved == commits[-2]
        journal.play(6)
    assert read_journal(path).saved == commits[-1]


@pytest.mark.slow
def test_a_log_cut_off_ends_at_a_commit(crashed: Crashed, path: Path) -> None:
    crash, before = crashed[0], 0
    assert crash.log is not None
    for length in range(32, len(crash.log), 1997):
        crash.put(path, log=crash.log[:length])
        saved = read_journal(path).saved
        with opened(path) as journal:
            assert journal.saved == saved
        rounds = 0 if saved.state is None else saved.state.rounds
        assert rounds >= before
        before = rounds
    assert before == 24


def last_commit(log: bytes) -> int:
    """Return where the last commit of a log begins: after a frame with the number of all pages."""
    starts = range(32, len(log) - FRAME + 1, FRAME)
    ends = [start + FRAME for start in starts if struct.unpack_from(">I", log, start + 4)[0]]
    return ends[-2]


@pytest.mark.slow
def test_damage_to_the_log_is_detected(crashed: Crashed, path: Path) -> None:
    """SQLite alone would silently ignore the commits after any flip before the last one."""
    (crash, commits), luck = crashed, random.Random(0)
    assert crash.log is not None
    for place in [*range(32 + 24), *luck.sample(range(last_commit(crash.log)), 60)]:
        log = bytearray(crash.log)
        log[place] ^= 1 << luck.randrange(8)
        crash.put(path, log=bytes(log))
        assert read_journal(path).saved != commits[-1]
        with pytest.raises(CorruptJournalError, match=r"shop3\.db-wal"), opened(path):
            pass
        assert log_path(path).read_bytes() == log


@pytest.mark.slow
def test_damage_to_the_file_under_a_log_is_detected_or_harmless(
    crashed: Crashed, path: Path
) -> None:
    (crash, commits), luck = crashed, random.Random(1)
    for place in [*range(100), *luck.sample(range(len(crash.file)), 100)]:
        file = bytearray(crash.file)
        file[place] ^= 1 << luck.randrange(8)
        crash.put(path, file=bytes(file))
        try:
            assert read_journal(path).saved == commits[-1], place
        except JournalError as error:
            assert str(path) in str(error)  # noqa: PT017


def test_remains_of_an_earlier_log_are_not_damage(path: Path) -> None:
    """A restarted log overwrites its former content, which has other salts."""
    with opened(path) as journal:
        for _ in range(20):
            journal.play(6)
        journal.sql("PRAGMA wal_checkpoint(RESTART)")
        journal.play(6)
        assert find_damage(log_path(path)) is None
