"""What makes a cell the cell it is: its configuration and the contents of the files it names.

Not the folder it lies in, nor the order of its keys, nor whether a number is written 1 or 1.0, nor
whether the defaults of runs, seed, dtype and against are written out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedbandits.config.building import SETTINGS
from fedbandits.config.catalogue import REGISTRIES, SECTIONS, accepted, names_file, nested_registry
from fedbandits.config.experiment import Experiment
from fedbandits.config.grammar import Registry, canonical

FORMAT = 1
"""Version of what a hash is made of and of the files of a sweep; another one is refused."""

_DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(Experiment)
    if field.name in SETTINGS and field.default is not None
}


def cell_hash(config: Mapping[str, Any], folder: Path) -> str:
    """The name of a cell: 32 hexadecimal digits.

    Args:
        config: the cell's configuration.
        folder: names of files in it are relative to this.

    Example:
        >>> cell_hash({"seed": 0}, Path()) == cell_hash({"runs": 10}, Path())  # both the default
        True
    """
    text = canonical({"format": FORMAT, "config": identity({**_DEFAULTS, **config}, folder)})
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def identity(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The configuration with every file it names replaced by what is in the file."""

    def content(name: str) -> dict[str, str]:
        found = content_hash(folder / name)
        return {"missing": name} if found is None else {"content": found}

    plain: dict[str, Any] = _numbers_alike(_with_files(config, content))
    return plain


def _numbers_alike(value: Any) -> Any:
    """Whole numbers as floats, wherever they stand; those that no float holds stay."""
    if isinstance(value, Mapping):
        return {key: _numbers_alike(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_alike(item) for item in value]
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return float(value) if whole else value


def files_of(config: Mapping[str, Any]) -> list[str]:
    """The files that a configuration names.

    Example:
        >>> files_of({"network": {"name": "read_graphml", "path": "friends.graphml"}})
        ['friends.graphml']
    """
    files: list[str] = []
    _with_files(config, files.append)
    return files


def moved(config: Mapping[str, Any], folder: Path, to: Path) -> dict[str, Any]:
    """The configuration for a file in another folder: names of files are relative to that.

    Example:
        >>> network = {"name": "read_graphml", "path": "friends.graphml"}
        >>> moved({"network": network}, Path("here"), Path("here/out"))["network"]["path"]
        '../friends.graphml'
    """

    def seen_from_there(name: str) -> str:
        if Path(name).is_absolute():
            return name
        return Path(os.path.relpath(folder / name, to)).as_posix()

    return _with_files(config, seen_from_there)


def _with_files(config: Mapping[str, Any], replace: Callable[[str], Any]) -> dict[str, Any]:
    """A copy of the configuration with something else in the place of every name of a file."""
    return {
        key: _table(value, REGISTRIES[key], replace)
        if key in SECTIONS and isinstance(value, Mapping)
        else value
        for key, value in config.items()
    }


def _table(
    table: Mapping[str, Any], registry: Registry, replace: Callable[[str], Any]
) -> dict[str, Any]:
    takes = accepted(registry, table.get("name"))
    plain: dict[str, Any] = {}
    for key, value in table.items():
        accepts = takes.get(key, "")
        nested = nested_registry(accepts)
        if isinstance(value, str) and names_file(accepts):
            plain[key] = replace(value)
        elif isinstance(value, Mapping) and nested is not None:
            plain[key] = _table(value, nested, replace)
        else:
            plain[key] = value
    return plain


def content_hash(path: Path) -> str | None:
    """SHA-256 of a file, or of all files of a folder with their names; None if there is none."""
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        names = {file.relative_to(path).as_posix(): content_hash(file) for file in inside}
        return hashlib.sha256(canonical(names).encode()).hexdigest()
    if not path.is_file():
        return None  # its constructor says so in better words
    found = path.stat()
    return _file_hash(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4096)
def _file_hash(path: Path, changed: int, size: int) -> str:  # noqa: ARG001
    """Read once: the time of the last change and the size tell whether it is still the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shape_of(value: Any) -> Any:
    """What two algorithms must share to be played by one compiled program: all but numbers.

    Example:
        >>> from fedbandits import Exp3
        >>> shape_of(Exp3(0.1)) == shape_of(Exp3(0.2))
        True
        >>> shape_of(Exp3(0.1)) == shape_of(Exp3(0.1, exploration=0.2))  # no longer a power of t
        False
    """
    from fedbandits.common.describe import describe

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = {
            field.name: describe(getattr(value, field.name))
            if field.metadata.get("static")
            else shape_of(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {"type": type(value).__name__, **kept}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return describe(value)


class Sections:
    """Problems, networks and gossips made so far, by content, so that cells share them.

    Problems may hold whole tables of losses: only the last few are kept.
    """

    KEPT: Mapping[str, int] = {"problem": 4, "network": 64, "gossip": 64, "algorithm": 64}

    def __init__(self) -> None:
        self._made: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        self._lock = threading.RLock()  # a Dask worker plays in several threads

    def within(self, folder: Path) -> Callable[[str, Mapping[str, Any], Callable[[], Any]], Any]:
        """For `config.build`, with names of files relative to `folder`."""

        def made(section: str, tables: Mapping[str, Any], make: Callable[[], Any]) -> Any:
            kept = self._made[section]
            key = canonical(identity(tables, folder))
            with self._lock:
                # Out and in again: the one used last is the last to go.
                kept[key] = kept.pop(key) if key in kept else make()
                while len(kept) > self.KEPT[section]:
                    del kept[next(iter(kept))]
                return kept[key]

        return made


made_here = Sections()
"""Of this process: what a plan has made is not made again when it is played."""
