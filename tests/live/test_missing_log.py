"""A journal whose write-ahead log is missing is refused; a crash never leaves such a journal."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from fedbandits.cli import app
from fedbandits.live.journal import Journal, back_up, read_journal
from fedbandits.live.journal.errors import CorruptJournalError, MissingLogError
from fedbandits.live.journal.format import key_checksum, seal
from fedbandits.live.protocol.records import Changes

from .journals import SEED, Opened, identity, member, opened, play, unsaved

ROOT = Path(__file__).parents[2]


def write(kept: Opened, rounds: int) -> None:
    """Play more rounds from the journal's state, in one commit."""
    player = member(read_journal(kept.journal.path).saved)
    play(player, rounds)
    kept.write(player.changes())


def rounds_of(path: Path) -> int:
    state = read_journal(path).saved.state
    return 0 if state is None else state.rounds


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def copy_of(path: Path, folder: Path, *, log: bytes | None) -> Path:
    """Copy the main file of a journal, with this log or without one."""
    folder.mkdir(exist_ok=True)
    copy = Path(shutil.copy(path, folder / path.name))
    log_of(copy).unlink(missing_ok=True)
    if log is not None:
        write_private(log_of(copy), log)
    return copy


def write_private(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def files_of(path: Path) -> dict[str, bytes]:
    """Return the contents of a journal's files, without the memory that its readers share."""
    found = path.parent.glob(f"{path.name}*")
    return {file.name: file.read_bytes() for file in found if not file.name.endswith("-shm")}


def refused(path: Path, kind: type[CorruptJournalError] = MissingLogError) -> str:
    """Return the error of everything that reads a journal; check that no file changes."""
    path.with_name(f"{path.name}.lock").touch()
    before = files_of(path)
    with pytest.raises(kind) as opening:
        asyncio.run(Journal(path).open(identity(), SEED))
    with pytest.raises(kind):
        read_journal(path)
    with pytest.raises(kind):
        back_up(path, path.with_name("backup.db"))
    assert files_of(path) == before
    return str(opening.value)


@pytest.mark.parametrize("log", [None, b""])
def test_a_file_without_its_log_is_refused(log: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        write(kept, 30)
        kept.sql("PRAGMA wal_checkpoint(FULL)")
        write(kept, 12)
        copy = copy_of(path, tmp_path / "copy", log=log)
    error = refused(copy)
    assert "shop3.db-wal" in error
    assert "ends with choice 30, of which 24 are observed" in error
    assert "Put shop3.db-wal back" in error
    assert f"fedbandits live backup --without-log {copy}" in error
    assert rounds_of(path) == 42


def test_nothing_was_written_since_the_journal_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    for _ in range(2):
        with opened(path):
            copy = copy_of(path, tmp_path / "copy", log=log_of(path).read_bytes())
        with opened(copy) as kept:
            assert kept.saved.state is None
        assert not log_of(path).exists()


def test_a_log_older_than_the_file_is_refused(tmp_path: Path) -> None:
    """SQLite would apply it, and return to an earlier state of the journal."""
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        write(kept, 12)
        before = log_of(path).read_bytes()
        write(kept, 12)
        kept.sql("PRAGMA wal_checkpoint(FULL)")
        copy = copy_of(path, tmp_path / "copy", log=before)
    error = refused(copy, CorruptJournalError)
    assert "shop3.db-wal is older than the file" in error


class Crash(NamedTuple):
    """The files of a journal at one moment, and the rounds acknowledged before."""

    file: bytes
    log: bytes | None
    rounds: int

    def put(self, path: Path) -> None:
        write_private(path, self.file)
        log_of(path).unlink(missing_ok=True)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        if self.log is not None:
            write_private(log_of(path), self.log)


@contextmanager
def crashes(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Crash]]:
    """Record the files of a journal before each statement that can write to them."""
    found: list[Crash] = []
    acknowledged = [0]
    connect, written = sqlite3.connect, Opened.write

    def snapshot(_: str) -> None:
        log = log_of(path).read_bytes() if log_of(path).exists() else None
        found.append(Crash(path.read_bytes(), log, acknowledged[0]))

    def traced(address: str | Path, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(address, **options)
        if "mode=rw" in str(address):
            snapshot("")
            connection.set_trace_callback(snapshot)
        return connection

    def write_and_count(kept: Opened, changes: Changes) -> None:
        written(kept, changes)
        acknowledged[0] = changes.state.rounds if changes.state else acknowledged[0]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", traced)
        patch.setattr(Opened, "write", write_and_count)
        yield found
        snapshot("")


@pytest.mark.slow
def test_a_crash_at_any_statement_is_no_missing_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a second crash, while the agent starts again."""
    path, again = tmp_path / "shop3.db", tmp_path / "again.db"
    with crashes(path, monkeypatch) as first:
        for _ in range(2):
            with opened(path) as kept:
                for _ in range(3):
                    write(kept, 6)
                kept.sql("PRAGMA wal_checkpoint(PASSIVE)")
                write(kept, 6)
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


@pytest.mark.parametrize("end", ["exits", "is collected"])
def test_a_program_that_does_not_close_its_journal(end: str, tmp_path: Path) -> None:
    """SQLite deletes the log then; the file must say that nothing is missing."""
    path = tmp_path / "shop3.db"
    code = f"""
import asyncio, gc, os, time
from fedbandits.live.journal import Journal
from tests.live.journals import identity, member, play
async def main():
    journal = Journal({str(path)!r})
    saved = await journal.open(identity(), b"seed")
    player = member(saved)
    play(player, 20)
    await journal.write(player.changes())
    return journal
kept = asyncio.run(main())
if {end == "is collected"}:
    del kept
    while os.path.exists({str(log_of(path))!r}):  # the thread of the journal may hold it a while
        gc.collect()
        time.sleep(0.01)
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
    assert not log_of(path).exists()
    with opened(path, seed=b"seed") as kept:
        assert kept.saved.state is not None
        assert kept.saved.state.rounds == 20


def test_a_journal_that_cannot_be_marked_as_closed_keeps_its_log(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    code = f"""
import resource, signal
from pathlib import Path
from tests.live.journals import opened
from tests.live.test_missing_log import log_of, write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path({str(path)!r})
with opened(path) as kept:
    for _ in range(20):
        write(kept, 1)
    full = log_of(path).stat().st_size
    assert full > 2 * path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, full))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert log_of(path).exists()
    with opened(path) as kept:
        assert kept.saved.state is not None
        assert kept.saved.state.rounds == 20
    assert not log_of(path).exists()


def test_a_backup_needs_no_log(tmp_path: Path) -> None:
    path, copy = tmp_path / "shop3.db", tmp_path / "copy.db"
    with opened(path) as kept:
        write(kept, 20)
        back_up(path, copy)
        write(kept, 20)
    assert read_journal(copy).holder is None
    with opened(copy) as kept:
        assert kept.saved.state is not None
        assert kept.saved.state.rounds == 20


def test_a_journal_of_version_1_needs_no_log(tmp_path: Path) -> None:
    """Its backups bear the process that had it open."""
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        write(kept, 20)
    holder, _ = seal(7, key_checksum("holder"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'holder'", (holder,))
        connection.execute("PRAGMA user_version=1")
    with opened(path) as kept:
        write(kept, 20)
        copy = copy_of(path, tmp_path / "copy", log=None)
    refused(copy)  # it has this version's mark now


def test_a_backup_without_the_log_saves_what_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        write(kept, 30)
        kept.sql("PRAGMA wal_checkpoint(FULL)")
        write(kept, 12)
        whole = ["live", "backup", "--without-log", str(path), str(tmp_path / "none.db")]
        done = CliRunner().invoke(app, whole)
        assert done.exit_code != 0
        assert "shop3.db-wal exists" in done.output.replace("\n", " ")
        copy = copy_of(path, tmp_path / "copy", log=None)
    saved = tmp_path / "saved.db"
    done = CliRunner().invoke(app, ["live", "backup", "--without-log", str(copy), str(saved)])
    assert done.exit_code == 0, done.output
    assert "holds 30 choices" in done.output
    with opened(saved) as kept:
        assert kept.saved.state is not None
        assert kept.saved.state.rounds == 30


def test_a_write_after_the_log_is_gone_from_the_folder(tmp_path: Path) -> None:
    """The commits of the running agent still succeed; the next start reports the loss."""
    path = tmp_path / "shop3.db"
    code = f"""
import os
from pathlib import Path
from tests.live.journals import member, opened, play
path = Path({str(path)!r})
with opened(path) as kept:
    player = member(kept.saved)
    play(player, 10)
    kept.write(player.changes())
    os.remove(str(path) + "-wal")
    play(player, 10)
    kept.write(player.changes())
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 9
    refused(path)


def test_the_same_life_goes_on_after_the_log_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        write(kept, 30)
        log = log_of(path).read_bytes()
        copy = copy_of(path, tmp_path / "copy", log=None)
    refused(copy)
    write_private(log_of(copy), log)
    undisturbed = member(unsaved())
    play(undisturbed, 30)
    with opened(copy) as kept:
        assert play(member(kept.saved), 10) == play(undisturbed, 10)


FORKED = """
import asyncio, os, sys
from pathlib import Path
from fedbandits.live.journal import Journal, read_journal
from tests.live.journals import SEED, identity

path = Path(sys.argv[1])
journal = Journal(path)
asyncio.run(journal.open(identity(), SEED))
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
print(read_journal(path).holder == os.getpid())
"""


def test_a_forked_child_does_not_close_the_journal_of_its_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "shop3.db")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
