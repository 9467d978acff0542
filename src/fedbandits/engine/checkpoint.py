"""Checkpoints: everything a run needs to go on, in one file without pickles, written atomically."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedbandits.common.files import atomic_path
from fedbandits.results.record import Record
from fedbandits.results.snapshots import Snapshots

from .executors.program import Carry

LAYOUT = 3
"""Of the file. One of another layout has another name, and is left alone."""

SECONDS = 30.0
"""A checkpoint is written when this long has passed since the last, and on any interruption."""


Kept = Sequence[Record | Snapshots]
"""Things whose fields are all arrays."""


class CheckpointError(OSError):
    """A checkpoint that cannot be written: of the disk, not of what is played."""


class Checkpoint:
    """The checkpoint file of one simulation, or one batch, in a directory that may hold others'."""

    def __init__(self, directory: str | Path, config: dict[str, Any]) -> None:
        known_by = {"layout": LAYOUT, "config": config}
        fingerprint = hashlib.sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()
        self.path = Path(directory) / f"{fingerprint[:32]}.npz"
        self._written = time.monotonic()
        # Refused before the run rather than after an hour of it.
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path.parent):
                pass

    def load(self, carry: Carry, records: Kept) -> tuple[int, Carry]:
        """Rounds done and the carry after them; `records` are filled in place."""
        if not self.path.exists():
            return 0, carry
        leaves, structure = jax.tree.flatten(carry)
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                done = int(saved["done"])
                restored = [saved[f"carry_{i}"] for i in range(len(leaves))]
                for key, array in _arrays(records).items():
                    array[...] = saved[key]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"the checkpoint {self.path} cannot be read ({error}); delete it to start anew"
            ) from error
        return done, jax.tree.unflatten(structure, restored)

    def save(self, done: int, carry: Carry, records: Kept) -> None:
        """Write now."""
        arrays: dict[str, Any] = {"done": np.int64(done)}
        arrays |= {f"carry_{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(carry))}
        arrays |= _arrays(records)
        size = sum(array.nbytes for array in arrays.values())
        # Not in memory first: a large state would take twice the memory.
        with (
            writing(self.path),
            atomic_path(self.path, size=size) as temporary,
            temporary.open("wb") as file,
        ):
            np.savez(file, **arrays)
        self._written = time.monotonic()

    def due(self) -> bool:
        """Whether the last one is old."""
        return time.monotonic() - self._written >= SECONDS

    def discard(self) -> None:
        """The run is complete."""
        self.path.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise a `CheckpointError` for a file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {path} cannot be written ({error.strerror or error})"
        ) from error


def _arrays(records: Kept) -> dict[str, np.ndarray[Any, Any]]:
    """What the records hold, by name in the file."""
    return {
        f"record_{h}_{name}": array
        for h, record in enumerate(records)
        for name, array in vars(record).items()
    }
