"""What a journal keeps, and that an agent goes on from it as if nothing had been."""

import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fedbandits.live.journal import Journal, read_journal
from fedbandits.live.journal import format as form
from fedbandits.live.journal import reading as journal_reading
from fedbandits.live.journal.errors import FullDiskError, InUseError, JournalError, WriteError
from fedbandits.live.protocol.records import Changes, TicketRecord
from fedbandits.live.protocol.tickets import REMEMBERED

from .journals import (
    SEED,
    Opened,
    gossip,
    identity,
    loss_of,
    member,
    opened,
    play,
    played_journal,
    unsaved,
)

ROOT = Path(__file__).parents[2]
NOTHING = Changes(None, {}, [], [])


def test_goes_on_as_if_undisturbed(tmp_path: Path) -> None:
    undisturbed = member(unsaved(), ("shop4",))
    others = [member(unsaved(b"other"), ("shop3",), "shop4") for _ in range(2)]
    for day in range(4):
        with opened(tmp_path / "shop3.db") as kept:
            interrupted = member(kept.saved, ("shop4",))
            assert interrupted.rounds == 25 * day
            assert interrupted.open_tickets == 5 * day
            for other, agent in zip(others, (undisturbed, interrupted), strict=True):
                play(other, 10)
                gossip(agent, other)
            assert play(interrupted, 25) == play(undisturbed, 25)
            assert (
                interrupted.ledger.values["z"].tobytes() == undisturbed.ledger.values["z"].tobytes()
            )
            kept.write(interrupted.changes())
    with opened(tmp_path / "shop3.db") as kept:
        again = member(kept.saved, ("shop4",))
        # Tickets of all days are still known: open ones are observed, the same again is once.
        late = f"{kept.saved.life}-5"
        again.observe(late, 0.5, now=0.0)
        again.observe(f"{kept.saved.life}-6", loss_of(6), now=0.0)
        assert (again.rounds, again.observed) == (100, 81)


def test_all_that_was_written_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    played_journal(path)
    with opened(path) as kept:
        saved = kept.saved
    assert saved == read_journal(path).saved
    assert [ticket.round for ticket in saved.tickets] == list(range(1, 41))
    assert sum(ticket.status == "open" for ticket in saved.tickets) == 8
    assert saved.state is not None
    assert (saved.state.rounds, saved.state.observed) == (40, 32)
    assert saved.edges["shop4"].sequence == 1
    assert read_journal(path).identity == identity()


def test_an_edge_that_is_gone_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    played_journal(path)
    with opened(path) as kept:
        alone = member(kept.saved)
        kept.write(alone.changes())
    assert read_journal(path).saved.edges == {}


def test_a_new_journal_draws_life_and_seed(tmp_path: Path) -> None:
    drawn = []
    for name in ("a.db", "b.db"):
        with opened(tmp_path / name, seed=None) as kept:
            drawn.append(kept.saved)
    first, second = drawn
    assert len(first.seed) == 32
    assert len(bytes.fromhex(first.life)) == 4
    assert (first.life, first.seed) != (second.life, second.seed)
    with opened(tmp_path / "a.db", seed=None) as kept:
        assert kept.saved == first
    with opened(tmp_path / "a.db", seed=first.seed) as kept:
        assert kept.saved == first


@pytest.mark.parametrize("seed", [b"", bytes(65)])
def test_a_seed_has_1_to_64_bytes(seed: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"1 to 64 bytes, not {len(seed)}"):
        asyncio.run(Journal(tmp_path / "a.db").open(identity(), seed))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_the_seed_is_for_the_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as kept:
        kept.write(play_one(kept))
        for file in ("a.db", "a.db-wal"):
            assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600, file


def play_one(kept: Opened) -> Changes:
    player = member(kept.saved)
    play(player, 1)
    return player.changes()


def test_touches_nothing_before_it_is_opened(tmp_path: Path) -> None:
    Journal(tmp_path / "a.db")
    assert list(tmp_path.iterdir()) == []


def test_open_close_and_open_again(tmp_path: Path) -> None:
    async def all_of_it() -> None:
        journal = Journal(tmp_path / "a.db")
        await journal.close()
        with pytest.raises(JournalError, match=r"a\.db is not open"):
            await journal.write(NOTHING)
        await journal.open(identity())
        with pytest.raises(InUseError, match=r"a\.db is open already"):
            await journal.open(identity())
        await journal.close()
        await journal.close()
        await journal.open(identity())
        await journal.close()

    asyncio.run(all_of_it())
    # What remains is the journal and its lock: no log that a copy of the file would miss.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "a.db.lock"]


def test_the_event_loop_goes_on_while_the_disk_syncs(tmp_path: Path) -> None:
    async def write_slowly() -> int:
        journal = Journal(tmp_path / "a.db")
        await journal.open(identity())
        free = threading.Event()
        assert journal._executor is not None
        journal._executor.submit(free.wait)  # a disk that takes its time
        writing = asyncio.create_task(journal.write(NOTHING))
        turns = 0
        while not writing.done():
            turns += 1
            if turns == 100:
                free.set()
            await asyncio.sleep(0)
        await journal.close()
        return turns

    assert asyncio.run(write_slowly()) >= 100


def test_durability_is_full(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as kept:
        assert kept.sql("PRAGMA journal_mode") == [("wal",)]
        assert kept.sql("PRAGMA synchronous") == [(2,)]


# One process


def test_a_second_open_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path):
        with pytest.raises(InUseError) as refused, opened(path):
            pass
        (tmp_path / "link.db").symlink_to(path)
        with pytest.raises(InUseError), opened(tmp_path / "link.db"):
            pass
    told = str(refused.value)
    assert str(path) in told
    assert f"agent 'shop3' in process {os.getpid()}" in told
    with opened(path):  # the refused one has not taken the lock along
        pass


HOLD = """
import asyncio, sys, time
from tests.live.journals import opened
from pathlib import Path
with opened(Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"open\n"
            with pytest.raises(InUseError, match=f"in process {holder.pid}"), opened(path):
                pass
            assert read_journal(path).holder == holder.pid
        finally:
            holder.kill()
    assert read_journal(path).holder == holder.pid  # who had it is still to be seen
    with opened(path):
        assert read_journal(path).holder == os.getpid()
    assert read_journal(path).holder is None


def test_reading_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        done = threading.Event()
        seen: list[int] = []

        def look() -> None:
            while not done.is_set():
                state = read_journal(path).saved.state
                seen.append(0 if state is None else state.rounds)

        reader = threading.Thread(target=look)
        reader.start()
        while player.rounds < 60 or (len(seen) < 10 and reader.is_alive()):
            play(player, 3)
            kept.write(player.changes())
        done.set()
        reader.join()
        assert read_journal(path).saved.state == player.state_record()
    assert seen == sorted(seen)
    assert seen[-1] > 0
    assert all(rounds % 3 == 0 for rounds in seen)  # never half a write


def test_what_is_read_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        play(player, 3)
        kept.write(player.changes())
        before = player.state_record()
        unsealed = journal_reading._unsealed

        def unsealed_while_writing(*args: Any) -> Any:
            if args[-1] == "the holder":  # the state has been read, the tickets have not
                play(player, 3)
                kept.write(player.changes())
            return unsealed(*args)

        monkeypatch.setattr(journal_reading, "_unsealed", unsealed_while_writing)
        saved = read_journal(path).saved
        assert (saved.state, len(saved.tickets)) == (before, 3)
        assert player.rounds == 6


# Small


@pytest.mark.slow
def test_journals_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    most = 0
    with opened(path, identity(arms=tuple(f"arm{i}" for i in range(20)))) as kept:
        kept.sql("PRAGMA synchronous=OFF")
        player = member(kept.saved, arms=20)
        for _ in range(500):
            for _ in range(100):
                ticket = player.choose(now=0.0)
                player.observe(ticket.id, 0.5, now=0.0)
            kept.write(player.changes())
            most = max(most, (tmp_path / "shop3.db-wal").stat().st_size)
    assert player.rounds == 50_000
    saved = read_journal(path).saved
    assert [ticket.round for ticket in saved.tickets] == list(range(40_001, 50_001))
    assert len(saved.tickets) == REMEMBERED
    # 10,000 closed tickets of about 110 bytes; a log of 1,000 pages and one more write.
    assert path.stat().st_size < 2_000_000
    assert most < 6_000_000


def test_forgotten_tickets_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        for _ in range(20):
            player.observe(player.choose(now=0.0).id, 0.5, now=0.0)
        kept.write(player.changes())
        kept.write(Changes(None, {}, [], [1, 2, 3]))
    assert [ticket.round for ticket in read_journal(path).saved.tickets] == list(range(4, 21))


# When the disk is full


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        play(player, 10)
        kept.write(player.changes())
        before = read_journal(path)
        (pages,) = kept.sql("PRAGMA page_count")[0]
        kept.sql(f"PRAGMA max_page_count={pages}")
        play(player, 1000)
        with pytest.raises(FullDiskError, match=FULL) as caught:
            kept.write(player.changes())
        assert isinstance(caught.value, WriteError)
        assert caught.value.errno == errno.ENOSPC
        assert read_journal(path).saved == before.saved
        kept.sql("PRAGMA max_page_count=1000000")
        # Another round would now be one whose forerunners nobody has.
        play(player, 1)
        with pytest.raises(WriteError, match=r"after an error .*full.*open it again"):
            kept.write(player.changes())
    with opened(path) as kept:
        assert kept.saved == before.saved
        again = member(kept.saved)
        play(again, 1000)
        kept.write(again.changes())
    assert read_journal(path).saved.state == again.state_record()


FULL = (
    r"^the disk of .*shop3\.db is full: [\d,]+ bytes are free\. Nothing was written, and the "
    "journal holds all that was written before; make room there, and start the agent again$"
)


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", None])
def test_a_journal_that_opens_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    error: Exception = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if name is not None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = name

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(form, "create", fail)
    with pytest.raises(FullDiskError, match=FULL), opened(tmp_path / "shop3.db"):
        pass


def test_what_cannot_be_kept_stops_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        play(player, 3)
        kept.write(player.changes())
        strange = TicketRecord("x", 2**70, 0, b"", 0.0)
        with pytest.raises(WriteError, match="nothing was written"):
            kept.write(Changes(None, {}, [strange], []))
    assert read_journal(path).saved.state == player.state_record()


TOO_LARGE = """
import resource, signal, sys
from pathlib import Path
from fedbandits.live.journal.errors import WriteError
from tests.live.journals import member, opened, play
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with opened(Path(sys.argv[1])) as kept:
    player = member(kept.saved)
    rounds = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        while True:
            play(player, 20)
            kept.write(player.changes())
            rounds = player.rounds
    except WriteError as error:
        print(rounds, error)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX")
def test_a_write_that_the_system_cuts_short(tmp_path: Path) -> None:
    """The log may not grow: a write ends in mid-page, as on a disk that is full."""
    path = tmp_path / "shop3.db"
    done = subprocess.run(
        [sys.executable, "-c", TOO_LARGE, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert "nothing was written" in done.stdout, done.stderr
    with opened(path) as kept:
        again = member(kept.saved)
        assert again.rounds == int(done.stdout.split()[0]) > 0
        undisturbed = member(unsaved(SEED))
        play(undisturbed, again.rounds)
        assert play(again, 50) == play(undisturbed, 50)
