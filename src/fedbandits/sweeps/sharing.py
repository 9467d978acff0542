"""Processes that play one sweep share its batches: each plays those that no other holds.

`under_way/NAME/` in the sweep's folder has a batch's lock and its checkpoint; it is gone when all
cells of the batch are settled. The lock is the operating system's: it goes with the process that
holds it, however that ends, and another process then goes on from the checkpoint.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from fedbandits.common.files import atomic_write

from . import store
from .store import SweepError, Trace
from .workshop import Parcel

UNDER_WAY = "under_way"
"""The folder of what is being played, inside the sweep's."""

CLUSTER = "cluster"
"""The place of a process that has sent all batches to a Dask scheduler."""


class Missing(NamedTuple):
    """A cell that is to be written: its title, and what the folder held of it at the start."""

    title: str
    before: Trace


class Task(NamedTuple):
    """A batch that is not finished.

    Attributes:
        folder: of the sweep.
        parcel: its cells, as plain data.
        missing: those of them that are to be written, by name.
    """

    folder: Path
    parcel: Parcel
    missing: dict[str, Missing]

    @property
    def place(self) -> Path:
        """Where its lock and its checkpoint are."""
        name = hashlib.sha256(" ".join(self.parcel.hashes).encode()).hexdigest()[:32]
        return self.folder / UNDER_WAY / name

    def settled(self) -> bool:
        """Whether every cell has been played since the start, here or by another process."""
        return all(
            any(now and now != then for now, then in zip(trace, cell.before, strict=True))
            for name, cell in self.missing.items()
            for trace in [store.trace(self.folder, name)]
        )

    def forget(self) -> None:
        """Remove its checkpoint, if there is one."""
        for path in kept_in(self.place):
            path.unlink(missing_ok=True)


def kept_in(place: Path) -> list[Path]:
    """The checkpoint of a batch, and its draws of the losses that are done."""
    return [*place.glob("*.npz"), *place.glob("*.nc")]


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Hold a place, if no other process does: says which."""
    from filelock import FileLock, Timeout

    lock = FileLock(place / "lock")
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except (Timeout, FileNotFoundError):  # held; or removed by who held it, just now
        yield False
        return
    except OSError as error:
        raise SweepError(store.unwritable(place, error)) from error
    try:
        yield True
    finally:
        lock.release()


def leave(place: Path) -> None:
    """Remove what was under way. Call it while the place is claimed and all of it is settled."""
    # Who comes in between finds the batch settled and removes the rest.
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):  # others are under way
        place.parent.rmdir()


@contextmanager
def kept_for_cluster(folder: Path, tasks: Iterable[Task]) -> Iterator[None]:
    """Keep the whole sweep: batches that are sent away are not shared with other processes."""
    place = folder / UNDER_WAY / CLUSTER
    with claimed(place) as free:
        if not free:
            raise _taken(folder, place)
        for task in tasks:
            if task.place.exists():
                with claimed(task.place) as idle:
                    if not idle:
                        raise SweepError(
                            f"another process plays batches of {folder}; with --scheduler one "
                            "process alone can play it: wait for the other, or stop it"
                        )
        with atomic_write(place / "process") as file:
            file.write(f"{os.getpid()} on {socket.gethostname()}".encode())
        try:
            yield
        finally:
            leave(place)


def refuse_if_kept_for_cluster(folder: Path) -> None:
    """No process joins one that has sent all batches to a scheduler."""
    place = folder / UNDER_WAY / CLUSTER
    if place.exists():
        with claimed(place) as free:
            if not free:
                raise _taken(folder, place)
            leave(place)


def _taken(folder: Path, place: Path) -> SweepError:
    try:
        who = f"process {(place / 'process').read_text()}"
    except OSError:  # it is just starting or ending
        who = "another process"
    return SweepError(
        f"{who} plays {folder} on a Dask scheduler; wait for it, or choose another --out"
    )
