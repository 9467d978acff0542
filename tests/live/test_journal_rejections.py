"""Files that an agent does not use: they are never misread or changed, and the error says why."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from fedbandits.live.journal import Journal, read_journal
from fedbandits.live.journal.errors import CorruptJournalError, JournalError
from fedbandits.live.journal.format import (
    VERSION,
    JournalContent,
    key_checksum,
    log_path,
    seal,
)
from fedbandits.live.journal.reading import contradiction
from fedbandits.live.protocol.records import (
    Changes,
    LossRecord,
    SavedAgent,
    StateRecord,
    TicketRecord,
)

from .journals import (
    ARMS,
    copy_of,
    identity,
    member,
    opened,
    played_journal,
    put_private,
    rejected,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "shop3.db"
    played_journal(path)
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return copy_of(whole, tmp_path)


# Other agents and other files


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
    error = rejected(whole, JournalError, msgspec.structs.replace(identity(), **change))
    assert holds in error
    assert expected in error
    assert "new one to start again" in error
    # The default of an algorithm may change with the package, without any loss.
    assert ("write the journal's into the federation's file" in error) == ("algorithm" in change)


def test_another_seed(whole: Path) -> None:
    with pytest.raises(JournalError, match=r"shop3\.db began with another seed"):
        asyncio.run(Journal(whole).open(identity(), b"another"))


@pytest.mark.skipif(os.name != "posix", reason="no modes")
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o606])
@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_journal_that_every_user_may_read(copy: Path, mode: int, end: str) -> None:
    """It holds the seed of all later choices."""
    file = copy.with_name(f"{copy.name}{end}")
    file.touch()
    file.chmod(mode)
    assert f"chmod 600 {file}" in rejected(copy, JournalError)
    file.chmod(0o640)  # a group may make backups
    with opened(copy):
        pass


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        (VERSION + 1, JournalError, f"up to version {VERSION}; install a newer fedbandits"),
        (0, CorruptJournalError, "version 0, which never existed"),
    ],
)
def test_another_version(copy: Path, version: int, kind: type[JournalError], why: str) -> None:
    sql(copy, f"PRAGMA user_version={version}")
    assert why in rejected(copy, kind)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    mail = tmp_path / "mail.db"
    sql(mail, "PRAGMA application_id=7", "PRAGMA journal_mode=WAL", "CREATE TABLE mail (x)")
    assert "another program (application 0x7)" in rejected(mail, JournalError)
    notes = tmp_path / "notes.txt"
    notes.write_text("tea, then coffee\n" * 100)
    assert "not a SQLite database" in rejected(notes, JournalError)
    empty = tmp_path / "shop3.db"  # one that lost its content
    empty.touch()
    assert "is empty (0 bytes). Restore a backup" in rejected(empty, CorruptJournalError)
    assert "is a folder" in rejected(tmp_path, JournalError)
    with pytest.raises(JournalError, match="is a folder"):
        read_journal(tmp_path)
    assert not tmp_path.with_name(f"{tmp_path.name}.lock").exists()


def unreachable(path: Path) -> str:
    with pytest.raises(JournalError, match=str(path)) as error:
        asyncio.run(Journal(path).open(identity()))
    return str(error.value)


def test_no_folder(tmp_path: Path) -> None:
    assert "its folder must exist" in unreachable(tmp_path / "no" / "shop3.db")
    (tmp_path / "file").touch()
    assert "its folder must exist" in unreachable(tmp_path / "file" / "shop3.db")
    with pytest.raises(JournalError, match="No such file"):
        read_journal(tmp_path / "shop3.db")


@contextmanager
def not_root(folder: Path) -> Iterator[None]:
    """Act as a user without special permissions, who owns the folder."""
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
    # If root runs pytest, only root may use its folder.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = copy_of(whole, folder)
        with not_root(folder):
            for mode in (0o000, 0o400):  # neither read nor write; no write
                path.chmod(mode)
                assert "you need permission to read and write both" in unreachable(path)
            path.chmod(0o600)
            folder.chmod(0o500)
            try:
                assert "you need permission" in unreachable(folder / "new.db")
                read_journal(path)  # reading needs no more
            finally:
                folder.chmod(0o700)


# Damage


def read_changed(path: Path, content: bytes) -> JournalContent | None:
    """Return the journal with other bytes; None if it is rejected."""
    path.write_bytes(content)
    try:
        return read_journal(path)
    except JournalError as error:
        assert str(path) in str(error)  # noqa: PT017
        return None


@pytest.mark.parametrize(
    "every",
    [101, pytest.param(int(os.environ.get("EVERY", "7")), marks=pytest.mark.slow)],
)
def test_a_flipped_bit_is_detected_or_harmless(whole: Path, tmp_path: Path, every: int) -> None:
    """One bit in every so many bytes; EVERY=1 takes a minute."""
    content, expected, luck = whole.read_bytes(), read_journal(whole), random.Random(0)
    detected = 0
    for place in range(0, len(content), every):
        changed = bytearray(content)
        changed[place] ^= 1 << luck.randrange(8)
        found = read_changed(tmp_path / "shop3.db", bytes(changed))
        detected += found is None
        if found is not None:
            assert (found.identity, found.saved, found.holder) == expected[:3], place
    # Undetected flips are in free space, which a file with few tickets has much of.
    assert detected > 0.2 * len(content) / every


@pytest.mark.slow
def test_a_truncated_file_is_detected(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    for length in [*range(1, 120), *range(120, len(content), 97), len(content) - 1]:
        assert read_changed(tmp_path / "shop3.db", content[:length]) is None, length


def test_swapped_pages_are_detected(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
    for i in range(len(pages)):
        for j in range(len(pages)):
            changed = b"".join([*pages[:i], pages[j], *pages[i + 1 :]])
            assert i == j or read_changed(tmp_path / "shop3.db", changed) is None, (i, j)


def test_the_error_of_damage_names_the_place_and_the_fix(copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    content[content.index(b"incarnation") + 3] ^= 1
    copy.write_bytes(content)
    error = rejected(copy, CorruptJournalError)
    assert "the checksum of the edge to 'shop4' is wrong" in error
    assert "Restore a backup of it, or give the agent another file" in error
    assert "an agent that lost its disk" in error


WRONG_TYPE, _ = seal({"rounds": "many"}, key_checksum("state"))


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
        # With a correct checksum, as a faulty program would write it.
        (
            f"UPDATE meta SET value = x'{WRONG_TYPE.hex()}' WHERE key = 'state'",
            "the state cannot be read",
        ),
        ("CREATE TABLE more (x)", "its tables are not those of a journal"),
        ("DROP TABLE edges", "its tables are not those of a journal"),
    ],
)
def test_changed_values_are_detected(statement: str, why: str, copy: Path) -> None:
    sql(copy, statement)
    assert why in rejected(copy, CorruptJournalError)


def test_an_older_value_is_detected(copy: Path) -> None:
    """As after a page that the disk did not write."""
    with closing(sqlite3.connect(copy)) as connection:
        query = "SELECT value FROM meta WHERE key = 'state'"
        ((state,),) = connection.execute(query).fetchall()
    with opened(copy) as journal:
        player = member(journal.saved, ("shop4",))
        player.observe(f"{journal.saved.life}-5", 0.5, now=0.0)
        journal.write(player.changes())
    sql(copy, f"UPDATE meta SET value = x'{state.hex()}' WHERE key = 'state'")
    assert "it should hold" in rejected(copy, CorruptJournalError)


def test_a_log_without_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as journal:
        journal.play(3)
        put_private(tmp_path / "other.db-wal", log_path(path).read_bytes())
    assert "other.db-wal exists" in rejected(tmp_path / "other.db", CorruptJournalError)


# Values that contradict each other

K = len(ARMS)
OPEN = TicketRecord("a-1", 1, 0, bytes(8 * K), 0.0)
CLOSED = TicketRecord("a-2", 2, 1, b"", 0.0, "observed")


def state(rounds: int, observed: int, expired: int = 0) -> StateRecord:
    return StateRecord(rounds, observed, expired, {}, {}, {})


def changed(ticket: TicketRecord, **fields: object) -> TicketRecord:
    return msgspec.structs.replace(ticket, **fields)


@pytest.mark.parametrize(
    ("saved", "tickets", "why"),
    [
        (None, [OPEN], "1 tickets and no state"),
        (state(1, 0), [OPEN, CLOSED], "a ticket of round 2, and the agent is at round 1"),
        (state(2, 2), [OPEN, CLOSED], "2 observed, 0 expired and 1 open"),
        (state(2, 1), [CLOSED], "1 observed, 0 expired and 0 open"),
        (state(3, 1, 1), [OPEN, changed(CLOSED, absent=(3,))], "beyond the 3 arms"),
        (state(1, 0), [changed(OPEN, arm=3)], "beyond the 3 arms"),
        (state(1, 0), [changed(OPEN, p=bytes(8))], "not drawn from 3 arms"),
        (state(1, 0), [changed(OPEN, would=3)], "beyond the 3 arms"),
        (state(2, 1), [OPEN, changed(CLOSED, event="x")], "lacks its probability"),
        (state(2, 0), [OPEN, CLOSED], "0 observed"),
        (
            msgspec.structs.replace(state(2, 2), losses=LossRecord(0.0, 0.0, False, bytes(8))),
            [],
            "sums of losses do not fit 3 arms",
        ),
        (state(5, 3, 1), [OPEN, CLOSED], None),
        (None, [], None),
    ],
)
def test_contradictions(
    saved: StateRecord | None, tickets: list[TicketRecord], why: str | None
) -> None:
    found = contradiction(SavedAgent("a", b"seed", saved, {}, tickets), K)
    assert found == why if why is None else why in str(found)


def test_a_contradiction_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as journal:
        journal.write(Changes(state(1, 0), {}, [OPEN, CLOSED], []))
    assert "a ticket of round 2, and the agent is at round 1" in rejected(path, CorruptJournalError)
