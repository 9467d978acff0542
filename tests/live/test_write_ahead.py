"""A journal as a crash leaves it, with a log beside it, and what becomes of damage to either."""

import random
import shutil
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from fedbandits.live.journal import read_journal
from fedbandits.live.journal.errors import CorruptJournalError, JournalError
from fedbandits.live.journal.write_ahead import find_damage
from fedbandits.live.protocol.records import SavedAgent

from .journals import member, opened, play

FRAME = 24 + 4096


class Crashed(NamedTuple):
    """The files that a crash left, and what each commit in the log wrote."""

    file: bytes
    log: bytes
    commits: list[SavedAgent]

    def put(self, folder: Path, file: bytes | None = None, log: bytes | None = None) -> Path:
        path = folder / "shop3.db"
        (folder / "shop3.db-shm").unlink(missing_ok=True)
        path.write_bytes(self.file if file is None else file)
        path.chmod(0o600)
        written = folder / "shop3.db-wal"
        written.write_bytes(self.log if log is None else log)
        written.chmod(0o600)
        return path


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    path = tmp_path_factory.mktemp("crashed") / "shop3.db"
    commits = []
    with opened(path) as kept:
        player = member(kept.saved)
        for _ in range(5):
            play(player, 6)
            kept.write(player.changes())
            commits.append(read_journal(path).saved)
        file, log = (shutil.copy(path.with_name(f"{path.name}{end}"), path.parent / f"copy{end}")
                     for end in ("", "-wal"))  # fmt: skip
    return Crashed(Path(file).read_bytes(), Path(log).read_bytes(), commits)


def test_what_was_committed_is_there_after_a_crash(crashed: Crashed, tmp_path: Path) -> None:
    with opened(crashed.put(tmp_path)) as kept:
        assert kept.saved == crashed.commits[-1]


@pytest.mark.slow
def test_a_log_cut_off_ends_at_a_commit(crashed: Crashed, tmp_path: Path) -> None:
    """A crash in mid-write; the agent goes on from the last commit that is whole."""
    before = 0
    for length in range(32, len(crashed.log), 1997):
        path = crashed.put(tmp_path, log=crashed.log[:length])
        state = read_journal(path).saved
        with opened(path) as kept:
            assert kept.saved == state
        rounds = 0 if state.state is None else state.state.rounds
        assert rounds >= before
        before = rounds
    assert before == 24


def test_a_commit_that_a_crash_spoiled_is_not_damage(crashed: Crashed, tmp_path: Path) -> None:
    log = bytearray(crashed.log)
    log[-5000] ^= 1
    with opened(crashed.put(tmp_path, log=bytes(log))) as kept:
        assert kept.saved == crashed.commits[-2]
        player = member(kept.saved)
        play(player, 6)
        kept.write(player.changes())
    assert read_journal(tmp_path / "shop3.db").saved == crashed.commits[-1]


def commit_ends(log: bytes) -> list[int]:
    """Where each commit of a log ends: behind the frames that say how many pages there are now."""
    starts = range(32, len(log) - FRAME + 1, FRAME)
    return [start + FRAME for start in starts if struct.unpack_from(">I", log, start + 4)[0]]


@pytest.mark.slow
def test_damage_to_the_log_is_noticed(crashed: Crashed, tmp_path: Path) -> None:
    """Any flip before the last commit is reported: SQLite alone would forget what followed."""
    luck = random.Random(0)
    last = commit_ends(crashed.log)[-2]  # where the last commit begins
    places = [*range(32), *range(32, 32 + 24), *luck.sample(range(last), 60)]
    forgotten = 0
    for place in places:
        log = bytearray(crashed.log)
        log[place] ^= 1 << luck.randrange(8)
        path = crashed.put(tmp_path, log=bytes(log))
        forgotten += read_journal(path).saved != crashed.commits[-1]
        with pytest.raises(CorruptJournalError, match=r"shop3\.db-wal"), opened(path):
            pass
        assert (tmp_path / "shop3.db-wal").read_bytes() == log
    assert forgotten == len(places)


@pytest.mark.slow
def test_damage_to_the_file_under_a_log(crashed: Crashed, tmp_path: Path) -> None:
    luck = random.Random(1)
    for place in [*range(100), *luck.sample(range(len(crashed.file)), 100)]:
        file = bytearray(crashed.file)
        file[place] ^= 1 << luck.randrange(8)
        path = crashed.put(tmp_path, file=bytes(file))
        try:
            assert read_journal(path).saved == crashed.commits[-1], place
        except JournalError as error:
            assert str(path) in str(error)  # noqa: PT017


def test_a_log_of_older_salts_is_no_damage(tmp_path: Path) -> None:
    """A log begun anew lies over what it held before, which is of no use and no harm."""
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        for _ in range(20):
            play(player, 6)
            kept.write(player.changes())
        kept.sql("PRAGMA wal_checkpoint(RESTART)")
        play(player, 6)
        kept.write(player.changes())
        assert find_damage(tmp_path / "shop3.db-wal") is None
