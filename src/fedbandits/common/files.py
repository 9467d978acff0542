"""Files that are either written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def others_have_access(path: str | Path) -> bool:
    """Return whether users besides the owner and the group may read or write a file.

    Always False on systems without such modes.
    """
    return os.name == "posix" and bool(Path(path).stat().st_mode & 0o007)


@contextmanager
def atomic_path(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it if the block ends without an error.

    Args:
        path: where the file appears.
        private: only its owner may read it, at any time.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if not private:
            # mkstemp makes private files; a result should be as readable as any other new file.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write(path: str | Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A binary file that appears at `path` whole, or not at all."""
    with atomic_path(path, private=private) as temporary, temporary.open("wb") as file:
        yield file
