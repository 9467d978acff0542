"""Where the user's system wants caches and data to lie."""

from __future__ import annotations

from pathlib import Path


def cache_folder() -> Path:
    """The user's folder for what can be made again; may not exist yet.

    `$XDG_CACHE_HOME/fedbandits`, usually `~/.cache/fedbandits`, on Linux.

    Raises:
        OSError: this user has no home folder.
    """
    import platformdirs

    return _absolute(platformdirs.user_cache_path("fedbandits", appauthor=False))


def data_folder() -> Path:
    """The user's folder for what was fetched; may not exist yet.

    `$XDG_DATA_HOME/fedbandits`, usually `~/.local/share/fedbandits`, on Linux.

    Raises:
        OSError: this user has no home folder.
    """
    import platformdirs

    return _absolute(platformdirs.user_data_path("fedbandits", appauthor=False))


def _absolute(folder: Path) -> Path:
    if not folder.is_absolute():  # "~" that stands for nothing would become a folder of that name
        raise OSError(f"{folder}: this user has no home folder; set HOME")
    return folder
