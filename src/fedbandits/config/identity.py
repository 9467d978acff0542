"""What a configuration is, however it is written: its values, and the contents of its files.

Not the folder it lies in, nor the order of its keys, nor whether a number is written 1 or 1.0. Of
an own thing, such as `my_package:MyLeader`, the modules that name and define it are such files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedbandits.common.describe import canonical
from fedbandits.common.own_modules import OwnError

from .accepting import PLAIN, accepted
from .catalogue import REGISTRIES, SECTIONS, Registry
from .own import MODULES, Open, is_own, sources

Stamp = tuple[tuple[str, int, int], ...]


class Contents:
    """What is in the files that configurations name. Each is read once, and again if it changes.

    Args:
        folder: names of files are relative to this.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hashes: dict[Path, tuple[Stamp, str | None]] = {}

    def identity(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration, or some of its sections, with every file replaced by what is in it."""
        told = {key: value for key, value in config.items() if key != MODULES}
        plain: dict[str, Any] = _numbers_alike(_with_files(told, self._content, _own_content))
        return plain

    def _content(self, name: str) -> dict[str, str]:
        path = self._folder / name
        now = _stamp(path)
        stamp, found = self._hashes.get(path, (None, None))
        if stamp != now:
            found = content_hash(path)
            self._hashes[path] = (now, found)
        return {"missing": name} if found is None else {"content": found}


def _own_content(name: str) -> dict[str, Any]:
    """An own name with what is in its modules; one that cannot be imported is missing."""
    try:
        return {"own": name, "sources": sources(name)}
    except OwnError:  # its constructor says so in better words
        return {"own": name, "missing": True}


def _stamp(path: Path) -> Stamp:
    """When a file, or each file of a folder, was written, and how large it is."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    facts = [(str(file), file.stat()) for file in files if file.is_file()]
    return tuple((name, fact.st_mtime_ns, fact.st_size) for name, fact in facts)


def content_hash(path: Path) -> str | None:
    """SHA-256 of a file, or of all files of a folder with their names; None if there is none."""
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        names = {file.relative_to(path).as_posix(): content_hash(file) for file in inside}
        return hashlib.sha256(canonical(names).encode()).hexdigest()
    if not path.is_file():
        return None  # its constructor says so in better words
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(config: Mapping[str, Any]) -> list[str]:
    """The files that a configuration names.

    Example:
        >>> files_of({"network": {"name": "read_graphml", "path": "friends.graphml"}})
        ['friends.graphml']
    """
    files: list[str] = []
    _with_files(config, files.append)
    return files


def own_names(config: Mapping[str, Any]) -> list[str]:
    """The own things that a configuration names.

    Example:
        >>> own_names({"algorithm": {"name": "my_package:MyLeader"}})
        ['my_package:MyLeader']
    """
    names: list[str] = []
    _with_files(config, _as_it_is, names.append)
    return names


def moved(config: Mapping[str, Any], folder: Path, to: Path) -> dict[str, Any]:
    """The configuration for a file in another folder: names of files are relative to that.

    Example:
        >>> network = {"name": "read_graphml", "path": "friends.graphml"}
        >>> moved({"network": network}, Path("here"), Path("here/out"))["network"]["path"]
        '../friends.graphml'

    Own modules that are found beside the file, or in the folder `modules`, are named from there.
    """

    def seen_from_there(name: str) -> str:
        if Path(name).is_absolute():
            return name
        return Path(os.path.relpath(folder / name, to)).as_posix()

    there = _with_files(config, seen_from_there)
    beside = MODULES in config or own_names(config)
    return there | {MODULES: seen_from_there(config.get(MODULES, "."))} if beside else there


def _numbers_alike(value: Any) -> Any:
    """Whole numbers as floats, wherever they stand; those that no float holds stay."""
    if isinstance(value, Mapping):
        return {key: _numbers_alike(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_alike(item) for item in value]
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return float(value) if whole else value


def _as_it_is(name: str) -> str:
    return name


def _with_files(
    config: Mapping[str, Any],
    replace: Callable[[str], Any],
    own: Callable[[str], Any] = _as_it_is,
) -> dict[str, Any]:
    """A copy of the configuration with something else in the place of files and own names."""
    return {
        key: _table(value, REGISTRIES[key], replace, own)
        if key in SECTIONS and isinstance(value, Mapping)
        else value
        for key, value in config.items()
    }


def _table(
    table: Mapping[str, Any],
    registry: Registry,
    replace: Callable[[str], Any],
    own: Callable[[str], Any],
) -> dict[str, Any]:
    takes = accepted(registry, table.get("name"))
    plain: dict[str, Any] = {}
    for key, value in table.items():
        accepts = takes.get(key, PLAIN)
        if key == "name" and isinstance(registry, Open) and is_own(value):
            plain[key] = own(value)
        elif isinstance(value, str) and accepts.file:
            plain[key] = replace(value)
        elif isinstance(value, Mapping) and accepts.table is not None:
            plain[key] = _table(value, accepts.table, replace, own)
        else:
            plain[key] = value
    return plain
