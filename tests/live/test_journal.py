"""A journal saves an agent, which continues from it as if it had never stopped."""

from __future__ import annotations

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
    ROOT,
    SEED,
    gossip,
    identity,
    loss_of,
    member,
    opened,
    play,
    played_journal,
    unsaved,
)

NOTHING = Changes(None, {}, [], [])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop3.db"


def test_an_agent_continues_as_if_undisturbed(path: Path) -> None:
    undisturbed = member(unsaved(), ("shop4",))
    others = [member(unsaved(b"other"), ("shop3",), "shop4") for _ in range(2)]
    for day in range(4):
        with opened(path) as journal:
            interrupted = member(journal.saved, ("shop4",))
            assert interrupted.rounds == 25 * day
            assert interrupted.open_tickets == 5 * day
            for other, agent in zip(others, (undisturbed, interrupted), strict=True):
                play(other, 10)
                gossip(agent, other)
            assert play(interrupted, 25) == play(undisturbed, 25)
            values = [each.ledger.values["z"].tobytes() for each in (interrupted, undisturbed)]
            assert values[0] == values[1]
            journal.write(interrupted.changes())
    with opened(path) as journal:
        again = member(journal.saved, ("shop4",))
        # Tickets of all days are known: an open one is observed, and a repetition has no effect.
        again.observe(f"{journal.saved.life}-5", 0.5, now=0.0)
        again.observe(f"{journal.saved.life}-6", loss_of(6), now=0.0)
        assert (again.rounds, again.observed) == (100, 81)


def test_everything_written_is_read(path: Path) -> None:
    played_journal(path)
    with opened(path) as journal:
        saved = journal.saved
        assert saved == read_journal(path).saved
        assert [ticket.round for ticket in saved.tickets] == list(range(1, 41))
        assert sum(ticket.status == "open" for ticket in saved.tickets) == 8
        assert saved.state is not None
        assert (saved.state.rounds, saved.state.observed) == (40, 32)
        assert saved.edges["shop4"].sequence == 1
        assert read_journal(path).identity == identity()
        journal.write(member(saved).changes())  # without neighbours
        journal.write(Changes(None, {}, [], [1, 2, 3]))
    saved = read_journal(path).saved
    assert saved.edges == {}
    assert [ticket.round for ticket in saved.tickets] == list(range(4, 41))


def test_a_new_journal_draws_its_life_and_seed(tmp_path: Path) -> None:
    drawn = []
    for name in ("a.db", "b.db"):
        with opened(tmp_path / name, seed=None) as journal:
            drawn.append(journal.saved)
    first, second = drawn
    assert len(first.seed) == 32
    assert len(bytes.fromhex(first.life)) == 4
    assert (first.life, first.seed) != (second.life, second.seed)
    for seed in (None, first.seed):
        with opened(tmp_path / "a.db", seed=seed) as journal:
            assert journal.saved == first


@pytest.mark.parametrize("seed", [b"", bytes(65)])
def test_a_seed_has_1_to_64_bytes(seed: bytes, path: Path) -> None:
    """No file appears before a valid seed."""
    with pytest.raises(ValueError, match=f"1 to 64 bytes, not {len(seed)}"):
        asyncio.run(Journal(path).open(identity(), seed))
    assert list(path.parent.iterdir()) == []


def test_files_are_durable_and_private(path: Path) -> None:
    with opened(path) as journal:
        assert journal.sql("PRAGMA journal_mode") == [("wal",)]
        assert journal.sql("PRAGMA synchronous") == [(2,)]
        journal.play(1)
        for file in (path, form.log_path(path)) if os.name == "posix" else ():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_journal_is_opened_and_closed_again(path: Path) -> None:
    async def work() -> None:
        journal = Journal(path)
        await journal.close()
        with pytest.raises(JournalError, match=r"shop3\.db is not open"):
            await journal.write(NOTHING)
        await journal.open(identity())
        with pytest.raises(InUseError, match=r"shop3\.db is open already"):
            await journal.open(identity())
        await journal.close()
        await journal.close()
        await journal.open(identity())
        await journal.close()

    asyncio.run(work())
    # No log remains that a copy of the file would lack.
    assert sorted(file.name for file in path.parent.iterdir()) == ["shop3.db", "shop3.db.lock"]


def test_the_event_loop_continues_while_the_disk_syncs(path: Path) -> None:
    async def write_slowly() -> int:
        journal = Journal(path)
        await journal.open(identity())
        free = threading.Event()
        assert journal._executor is not None
        journal._executor.submit(free.wait)  # a slow disk
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


def test_a_second_open_is_rejected_with_the_name_of_the_holder(path: Path) -> None:
    with opened(path):
        with pytest.raises(InUseError) as error, opened(path):
            pass
        path.with_name("link.db").symlink_to(path)
        with pytest.raises(InUseError), opened(path.with_name("link.db")):
            pass
    assert str(path) in str(error.value)
    assert f"agent 'shop3' in process {os.getpid()}" in str(error.value)
    with opened(path):  # the rejected one did not keep the lock
        pass


HOLD = """
import sys, time
from pathlib import Path
from tests.live.journals import opened
with opened(Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_second_process_is_rejected_until_the_first_is_killed(path: Path) -> None:
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
    assert read_journal(path).holder == holder.pid  # the killed process is still named
    with opened(path):
        assert read_journal(path).holder == os.getpid()
    assert read_journal(path).holder is None


def test_a_journal_is_read_while_an_agent_writes(path: Path) -> None:
    with opened(path) as journal:
        player = member(journal.saved)
        done = threading.Event()
        seen: list[int] = []

        def read() -> None:
            while not done.is_set():
                state = read_journal(path).saved.state
                seen.append(0 if state is None else state.rounds)

        reader = threading.Thread(target=read)
        reader.start()
        while player.rounds < 60 or (len(seen) < 10 and reader.is_alive()):
            play(player, 3)
            journal.write(player.changes())
        done.set()
        reader.join()
        assert read_journal(path).saved.state == player.state_record()
    assert seen == sorted(seen)
    assert seen[-1] > 0
    assert all(rounds % 3 == 0 for rounds in seen)  # never a part of a write


def test_reading_returns_one_moment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as journal:
        player = journal.play(3)
        before = player.state_record()
        unsealed = journal_reading._unsealed

        def write_and_unseal(*args: Any) -> Any:
            if args[-1] == "the holder":  # after reading the state, before reading the tickets
                play(player, 3)
                journal.write(player.changes())
            return unsealed(*args)

        monkeypatch.setattr(journal_reading, "_unsealed", write_and_unseal)
        saved = read_journal(path).saved
        assert (saved.state, len(saved.tickets)) == (before, 3)
        assert player.rounds == 6


@pytest.mark.slow
def test_journals_stay_small(path: Path) -> None:
    most = 0
    with opened(path, identity(arms=tuple(f"arm{i}" for i in range(20)))) as journal:
        journal.sql("PRAGMA synchronous=OFF")
        player = member(journal.saved, arms=20)
        for _ in range(500):
            for _ in range(100):
                ticket = player.choose(now=0.0)
                player.observe(ticket.id, 0.5, now=0.0)
            journal.write(player.changes())
            most = max(most, form.log_path(path).stat().st_size)
    assert player.rounds == 50_000
    saved = read_journal(path).saved
    assert [ticket.round for ticket in saved.tickets] == list(range(40_001, 50_001))
    assert len(saved.tickets) == REMEMBERED
    # 10,000 closed tickets of about 110 bytes; a log of 1,000 pages and one more write.
    assert path.stat().st_size < 2_000_000
    assert most < 6_000_000


# Failed writes

FULL = (
    r"^the disk of .*shop3\.db is full: [\d,]+ bytes are free\. Nothing was written, and the "
    "journal holds all that was written before; make room there, and start the agent again$"
)


def test_a_full_disk(path: Path) -> None:
    with opened(path) as journal:
        player = journal.play(10)
        before = read_journal(path)
        (pages,) = journal.sql("PRAGMA page_count")[0]
        journal.sql(f"PRAGMA max_page_count={pages}")
        play(player, 1000)
        with pytest.raises(FullDiskError, match=FULL) as error:
            journal.write(player.changes())
        assert isinstance(error.value, WriteError)
        assert error.value.errno == errno.ENOSPC
        assert read_journal(path).saved == before.saved
        journal.sql("PRAGMA max_page_count=1000000")
        # The rounds before the next one were not written.
        play(player, 1)
        with pytest.raises(WriteError, match=r"after an error .*full.*open it again"):
            journal.write(player.changes())
    with opened(path) as journal:
        assert journal.saved == before.saved
        again = journal.play(1000)
    assert read_journal(path).saved.state == again.state_record()


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", None])
def test_opening_on_a_full_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    error: Exception = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if name is not None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = name

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(form, "create", fail)
    with pytest.raises(FullDiskError, match=FULL), opened(path):
        pass


def test_a_value_that_cannot_be_stored_stops_the_journal(path: Path) -> None:
    with opened(path) as journal:
        player = journal.play(3)
        strange = TicketRecord("x", 2**70, 0, b"", 0.0)
        with pytest.raises(WriteError, match="nothing was written"):
            journal.write(Changes(None, {}, [strange], []))
    assert read_journal(path).saved.state == player.state_record()


TOO_LARGE = """
import resource, signal, sys
from pathlib import Path
from fedbandits.live.journal.errors import WriteError
from tests.live.journals import opened
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with opened(Path(sys.argv[1])) as journal:
    rounds = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        while True:
            rounds = journal.play(20).rounds
    except WriteError as error:
        print(rounds, error)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX")
def test_a_write_that_the_system_cuts_short(path: Path) -> None:
    """The log may not grow: a write ends within a page, as on a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", TOO_LARGE, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert "nothing was written" in done.stdout, done.stderr
    with opened(path) as journal:
        again = member(journal.saved)
        assert again.rounds == int(done.stdout.split()[0]) > 0
        undisturbed = member(unsaved(SEED))
        play(undisturbed, again.rounds)
        assert play(again, 50) == play(undisturbed, 50)
