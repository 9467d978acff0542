"""Files that are written whole or not at all, and the user's folders for caches and data."""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error codes of a full disk, an exhausted quota and a file that is too large."""


def others_have_access(path: str | Path) -> bool:
    """Return whether users besides the owner and the group may read or write a file.

    Always False on systems without such modes.
    """
    return os.name == "posix" and bool(Path(path).stat().st_mode & 0o007)


@contextmanager
def atomic_write(path: str | Path, *, private: bool = False) -> Iterator[io.BytesIO]:
    """Yield a file in memory, and write it to `path` whole or not at all when the block ends.

    Libraries that write a file themselves fail in different ways on a full disk: HDF5 crashes the
    interpreter, and matplotlib hides the error. In memory they cannot fail.

    Args:
        path: where the file appears.
        private: make it readable for its owner alone.

    Raises:
        OSError: if the disk is full, with the path, the bytes needed and the bytes free. No partial
            file remains, and an earlier file is unchanged.
    """
    with io.BytesIO() as held:
        yield held
        with (
            held.getbuffer() as content,
            atomic_path(path, private=private, size=len(content)) as temporary,
            temporary.open("wb") as file,
        ):
            file.write(content)


@contextmanager
def atomic_path(
    path: str | Path, *, private: bool = False, size: int | None = None
) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block ends without an error.

    It is for writers that must not hold the whole file in memory; others use `atomic_write`.

    Args:
        path: where the file appears.
        private: make it readable for its owner alone, from the beginning.
        size: size of the file in bytes, if known, for the error of a full disk.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _replacing(target, private) as temporary:
            yield temporary
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise full_disk(error.errno, target, size) from error


def full_disk(code: int, path: Path, size: int | None = None) -> OSError:
    """Return the error for a file that has no room.

    Args:
        code: one of `FULL`.
        path: the file; its folder exists.
        size: size of the file in bytes, if known.
    """
    free = f"{shutil.disk_usage(path.parent).free:,} bytes are free"
    room = free if size is None else f"the file needs {size:,} bytes, and {free}"
    fix = "make room there, or choose another folder"
    return OSError(code, f"{os.strerror(code)}: {room}; {fix}", str(path))


@contextmanager
def _replacing(target: Path, private: bool) -> Iterator[Path]:
    """Yield a new file in the folder of `target`, and rename it to `target` at the end."""
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


def save_figure(figure: Figure, *paths: str | Path) -> None:
    """Write a figure whole or not at all, in the format that each file name ends in."""
    for path in map(Path, paths):
        kind = path.suffix.lstrip(".")
        known = figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise ValueError(
                f"cannot save a figure as {path.name}; known endings: {', '.join(sorted(known))}"
            )
        with atomic_write(path) as file:
            figure.savefig(file, format=kind, dpi=200)


def cache_folder() -> Path:
    """Return the user's folder for files that can be made again; it may not exist yet.

    `$XDG_CACHE_HOME/fedbandits`, usually `~/.cache/fedbandits`, on Linux.

    Raises:
        OSError: this user has no home folder.
    """
    import platformdirs

    return _absolute(platformdirs.user_cache_path("fedbandits", appauthor=False))


def data_folder() -> Path:
    """Return the user's folder for downloaded files; it may not exist yet.

    `$XDG_DATA_HOME/fedbandits`, usually `~/.local/share/fedbandits`, on Linux.

    Raises:
        OSError: this user has no home folder.
    """
    import platformdirs

    return _absolute(platformdirs.user_data_path("fedbandits", appauthor=False))


def _absolute(folder: Path) -> Path:
    if not folder.is_absolute():  # an unexpanded "~" would become a folder of that name
        raise OSError(f"{folder}: this user has no home folder; set HOME")
    return folder
