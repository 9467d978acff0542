"""Files that an agent does not go on with: never misread, never changed, and told why."""

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from fedbandits.live.journal import Journal, read_journal
from fedbandits.live.journal.errors import (
    CorruptJournalError,
    ForeignFileError,
    JournalError,
    NewerJournalError,
    OtherJournalError,
)
from fedbandits.live.journal.format import VERSION, JournalContent, key_checksum, seal
from fedbandits.live.journal.reading import contradiction
from fedbandits.live.protocol.records import (
    Changes,
    Identity,
    LossRecord,
    SavedAgent,
    StateRecord,
    TicketRecord,
)

from .journals import ARMS, SEED, identity, member, opened, play, played_journal


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "shop3.db"
    played_journal(path)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file() and not file.name.endswith((".lock", "-shm"))
    }


def refused(path: Path, kind: type[JournalError], who: Identity | None = None) -> str:
    """What an agent is told; the file is as it was."""
    before = files(path.parent)
    for _ in range(2):  # the first has not left it locked
        with pytest.raises(kind) as told:
            asyncio.run(Journal(path).open(who or identity(), SEED))
    assert files(path.parent) == before
    assert str(path) in str(told.value)
    return str(told.value)


# Whose it is


@pytest.mark.parametrize(
    ("change", "holds", "expected"),
    [
        ({"agent": "shop4"}, "agent shop3", "not shop4"),
        ({"algorithm": '{"name":"Exp3"}'}, '"name":"FedExp3"', 'not {"name":"Exp3"}'),
        ({"arms": ("tea", "milk")}, "arms tea, coffee, cocoa", "not tea, milk"),
        ({"arms": ("coffee", "tea", "cocoa")}, "arms tea, coffee, cocoa", "not coffee, tea, cocoa"),
    ],
)
def test_another_identity(
    change: dict[str, object], holds: str, expected: str, whole: Path
) -> None:
    told = refused(whole, OtherJournalError, msgspec.structs.replace(identity(), **change))
    assert holds in told
    assert expected in told
    assert "new one to start again" in told
    # Defaults change with the package, and nothing need be lost for that.
    assert ("write the journal's into the federation's file" in told) == ("algorithm" in change)


def test_another_seed(whole: Path) -> None:
    with pytest.raises(OtherJournalError, match=r"shop3\.db began with another seed"):
        asyncio.run(Journal(whole).open(identity(), b"another"))


@pytest.mark.skipif(os.name != "posix", reason="no modes")
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o606])
def test_one_that_every_user_may_read(whole: Path, tmp_path: Path, mode: int) -> None:
    """As after `cp copy.db shop3.db`: it holds the seed of all choices to come."""
    path = copy(whole, tmp_path)
    path.chmod(mode)
    assert f"chmod 600 {path}" in refused(path, JournalError)
    path.chmod(0o640)  # a group may make backups
    asyncio.run(close(path))


@pytest.mark.skipif(os.name != "posix", reason="no modes")
def test_a_log_that_every_user_may_read(whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path)
    log = tmp_path / "shop3.db-wal"
    log.touch()
    log.chmod(0o644)
    assert f"chmod 600 {log}" in refused(path, JournalError)


async def close(path: Path) -> None:
    """Open a journal and close it."""
    journal = Journal(path)
    await journal.open(identity(), SEED)
    await journal.close()


# What it is


def copy(whole: Path, folder: Path) -> Path:
    return Path(shutil.copy(whole, folder / "shop3.db"))


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_newer_version(whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path)
    sql(path, f"PRAGMA user_version={VERSION + 1}")
    error = refused(path, NewerJournalError)
    assert f"version {VERSION + 1}" in error
    assert f"up to version {VERSION}; install a newer fedbandits" in error


def test_a_version_that_never_was(whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path)
    sql(path, "PRAGMA user_version=0")
    refused(path, CorruptJournalError)


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "mail.db"
    sql(path, "PRAGMA application_id=7", "PRAGMA journal_mode=WAL", "CREATE TABLE mail (x)")
    assert "another program (application 0x7)" in refused(path, ForeignFileError)


def test_a_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("tea, then coffee\n" * 100)
    assert "not a SQLite database" in refused(path, ForeignFileError)


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path, ForeignFileError)
    with pytest.raises(ForeignFileError, match="is a folder"):
        read_journal(tmp_path)
    assert not tmp_path.with_name(f"{tmp_path.name}.lock").exists()


def test_an_empty_file_once_held_something(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    path.touch()
    assert "is empty (0 bytes). Restore a backup" in refused(path, CorruptJournalError)


def test_no_folder(tmp_path: Path) -> None:
    assert "its folder must exist" in refused_outside(tmp_path / "no" / "shop3.db")
    (tmp_path / "file").touch()
    assert "its folder must exist" in refused_outside(tmp_path / "file" / "shop3.db")
    with pytest.raises(JournalError, match="No such file"):
        read_journal(tmp_path / "shop3.db")


def refused_outside(path: Path) -> str:
    with pytest.raises(JournalError, match=str(path)) as told:
        asyncio.run(Journal(path).open(identity()))
    return str(told.value)


@contextmanager
def not_root(folder: Path) -> Iterator[None]:
    """As somebody whom permissions bind, and whose the folder is."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_no_permission(whole: Path) -> None:
    # Not in pytest's folder, which is root's alone where root runs it.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = copy(whole, folder)
        with not_root(folder):
            for mode in (0o000, 0o400):  # neither read nor write; no write
                path.chmod(mode)
                assert "you need permission to read and write both" in refused_outside(path)
            path.chmod(0o600)
            folder.chmod(0o500)
            try:
                assert "you need permission to read and write both" in refused_outside(
                    folder / "new.db"
                )
                read_journal(path)  # who only looks needs no more
            finally:
                folder.chmod(0o700)


# Damage


def damaged(whole: Path, folder: Path, content: bytes) -> JournalContent | None:
    """What is read from other bytes; None if they are refused."""
    path = folder / "shop3.db"
    path.write_bytes(content)
    try:
        return read_journal(path)
    except JournalError as error:
        assert str(path) in str(error)  # noqa: PT017
        return None


def flip_all(whole: Path, folder: Path, places: range) -> int:
    """Flip one bit at each place in turn; how many flips were noticed."""
    content = whole.read_bytes()
    expected = read_journal(whole)
    luck = random.Random(0)
    noticed = 0
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << luck.randrange(8)
        found = damaged(whole, folder, bytes(changed))
        noticed += found is None
        if found is not None:
            assert (found.identity, found.saved, found.holder) == expected[:3], place
    return noticed


def test_a_flipped_bit_is_noticed_or_harmless(whole: Path, tmp_path: Path) -> None:
    size = whole.stat().st_size
    assert flip_all(whole, tmp_path, range(0, size, 101)) > 0.2 * size / 101


@pytest.mark.slow
def test_any_flipped_bit_is_noticed_or_harmless(whole: Path, tmp_path: Path) -> None:
    """Every seventh byte; EVERY=1 for each, which takes a minute."""
    every, size = int(os.environ.get("EVERY", "7")), whole.stat().st_size
    # What is not noticed lies in free space, of which a file with few tickets has much.
    assert flip_all(whole, tmp_path, range(0, size, every)) > 0.2 * size / every


@pytest.mark.slow
def test_a_truncated_file_is_noticed(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    for length in [*range(1, 120), *range(120, len(content), 97), len(content) - 1]:
        assert damaged(whole, tmp_path, content[:length]) is None, length


def test_pages_that_change_places_are_noticed(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
    for i in range(len(pages)):
        for j in range(len(pages)):
            changed = list(pages)
            changed[i] = pages[j]
            assert i == j or damaged(whole, tmp_path, b"".join(changed)) is None, (i, j)


def test_a_flip_is_reported_by_open_with_what_to_do(whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"incarnation") + 3] ^= 1
    path.write_bytes(content)
    told = refused(path, CorruptJournalError)
    assert "the checksum of the edge to 'shop4' is wrong" in told
    assert "Restore a backup of it, or give the agent another file" in told
    assert "an agent that lost its disk" in told


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DELETE FROM tickets WHERE round = 3", "it should hold"),
        ("DELETE FROM edges", "it should hold"),
        ("DELETE FROM meta WHERE key = 'head'", "it holds holder, origin, state"),
        ("UPDATE tickets SET status = 'open' WHERE round = 3", "another round or status"),
        ("UPDATE tickets SET round = 99 WHERE round = 3", "another round or status"),
        ("UPDATE edges SET neighbour = 'shop5'", "checksum of the edge to 'shop5'"),
        ("UPDATE meta SET value = 7 WHERE key = 'state'", "the state has the wrong type"),
        ("UPDATE meta SET value = x'00' WHERE key = 'origin'", "checksum of the origin"),
        ("CREATE TABLE more (x)", "its tables are not those of a journal"),
        ("DROP TABLE edges", "its tables are not those of a journal"),
    ],
)
def test_values_that_others_changed(statement: str, why: str, whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path)
    sql(path, statement)
    assert why in refused(path, CorruptJournalError)


def test_an_older_value_is_noticed(whole: Path, tmp_path: Path) -> None:
    """A page that the disk did not write: its values are whole, and of another day."""
    path = copy(whole, tmp_path)
    ((state,),) = _rows(path, "SELECT value FROM meta WHERE key = 'state'")
    with opened(path) as kept:
        player = member(kept.saved, ("shop4",))
        player.observe(f"{kept.saved.life}-5", 0.5, now=0.0)
        kept.write(player.changes())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'state'", (state,))
    connection.commit()
    connection.close()
    assert "it should hold" in refused(path, CorruptJournalError)


def _rows(path: Path, statement: str) -> list[tuple[bytes]]:
    connection = sqlite3.connect(path)
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


def test_another_kind_of_value(whole: Path, tmp_path: Path) -> None:
    """Its checksum is right; it is a program that was wrong."""
    path = copy(whole, tmp_path)
    value, _ = seal({"rounds": "many"}, key_checksum("state"))
    sql(path, f"UPDATE meta SET value = x'{value.hex()}' WHERE key = 'state'")
    assert "the state cannot be read" in refused(path, CorruptJournalError)


def test_a_log_without_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        player = member(kept.saved)
        play(player, 3)
        kept.write(player.changes())
        shutil.copy(tmp_path / "shop3.db-wal", tmp_path / "other.db-wal")
    assert "other.db-wal exists" in refused(tmp_path / "other.db", CorruptJournalError)


# What cannot be true together

K = len(ARMS)
OPEN = TicketRecord("a-1", 1, 0, bytes(8 * K), 0.0)
CLOSED = TicketRecord("a-2", 2, 1, b"", 0.0, "observed")


def state(rounds: int, observed: int, expired: int = 0) -> StateRecord:
    return StateRecord(rounds, observed, expired, {}, {}, {})


@pytest.mark.parametrize(
    ("kept", "tickets", "why"),
    [
        (None, [OPEN], "1 tickets and no state"),
        (state(1, 0), [OPEN, CLOSED], "a ticket of round 2, and the agent is at round 1"),
        (state(2, 2), [OPEN, CLOSED], "2 observed, 0 expired and 1 open"),
        (state(2, 1), [CLOSED], "1 observed, 0 expired and 0 open"),
        (state(3, 1, 1), [OPEN, msgspec.structs.replace(CLOSED, absent=(3,))], "beyond the 3 arms"),
        (state(1, 0), [msgspec.structs.replace(OPEN, arm=3)], "beyond the 3 arms"),
        (state(1, 0), [msgspec.structs.replace(OPEN, p=bytes(8))], "not drawn from 3 arms"),
        (state(1, 0), [msgspec.structs.replace(OPEN, would=3)], "beyond the 3 arms"),
        (state(2, 1), [OPEN, msgspec.structs.replace(CLOSED, event="x")], "lacks its probability"),
        (state(2, 0), [OPEN, CLOSED], "0 observed"),
        (
            msgspec.structs.replace(state(2, 2), losses=LossRecord(0.0, 0.0, False, bytes(8))),
            [],
            "sums of losses do not fit 3 arms",
        ),
    ],
)
def test_contradictions(kept: StateRecord | None, tickets: list[TicketRecord], why: str) -> None:
    found = contradiction(SavedAgent("a", b"seed", kept, {}, tickets), K)
    assert found is not None
    assert why in found


def test_a_contradiction_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        kept.write(Changes(state(1, 0), {}, [OPEN, CLOSED], []))
    assert "a ticket of round 2, and the agent is at round 1" in refused(path, CorruptJournalError)


def test_no_contradiction() -> None:
    assert contradiction(SavedAgent("a", b"seed", state(5, 3, 1), {}, [OPEN, CLOSED]), K) is None
    assert contradiction(SavedAgent("a", b"seed", None, {}, []), K) is None
