"""The folder of a sweep: what it consists of, a file for each finished cell, and what failed.

- `sweep.json`: the axes and cells, and the command that plays them
- `cells/HASH.nc`: a result, written whole or not at all
- `failed/HASH.json`: why a cell failed; gone once it has succeeded
- `under_way/`: batches that are being played, see `sharing`
"""

from __future__ import annotations

import errno
import json
import logging
import shlex
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedbandits.common.files import atomic_write
from fedbandits.config.expansion import short_names
from fedbandits.results import result as results
from fedbandits.results.snapshots import write_netcdf

from .identity import FORMAT
from .plan import Plan

if TYPE_CHECKING:
    import xarray as xr

MANIFEST = "sweep.json"

logger = logging.getLogger("fedbandits")


class SweepError(OSError):
    """A sweep that cannot start or go on; the message says what is safe and what to do."""


@dataclass(frozen=True)
class StoredCell:
    """What a sweep's folder knows of a cell.

    Attributes:
        hash: its name.
        title: its parameters for people.
        position: where on each axis it is.
        values: its parameters by path.
    """

    hash: str
    title: str
    position: list[int]
    values: dict[str, Any]


@dataclass(frozen=True)
class StoredAxis:
    """What a sweep's folder knows of an axis.

    Attributes:
        paths: the parameters that vary along it.
        names: their short names.
        values: a row per position, a value per parameter.
    """

    paths: list[str]
    names: list[str]
    values: list[list[Any]]


@dataclass(frozen=True)
class Manifest:
    """What a sweep consists of.

    Attributes:
        version: of the package that plays it.
        command: what plays it, and what is missing of it.
        folder: where it was typed; names of files in it start there.
        config: the configuration, lists and all.
        axes: what is swept.
        cells: all of them, the last axis varying fastest.
    """

    version: str
    command: list[str]
    folder: str
    config: dict[str, Any]
    axes: list[StoredAxis]
    cells: list[StoredCell]


class Status(NamedTuple):
    """How far a sweep is.

    Attributes:
        done: cells whose results are there.
        failed: cells that failed, with the error.
        missing: cells that have not been played.
        damaged: of these, files that are there and do not count, with the reason.
        others: how many results of other cells the folder holds: of the sweep before it was edited.
    """

    done: list[StoredCell]
    failed: list[tuple[StoredCell, str]]
    missing: list[StoredCell]
    damaged: list[tuple[Path, str]]
    others: int


class Trace(NamedTuple):
    """Which files of a cell are there: each written anew has another mark, none an empty one."""

    result: str
    failure: str


def manifest_of(plan: Plan, command: list[str]) -> Manifest:
    """What the folder will say of a plan."""
    from fedbandits.common.version import __version__

    axes = plan.sweep.axes
    names = short_names([path for axis in axes for path in axis.paths])
    return Manifest(
        __version__,
        command,
        str(Path.cwd()),
        plan.config,
        [
            StoredAxis(
                list(axis.paths),
                [names[path] for path in axis.paths],
                [list(row) for row in axis.values],
            )
            for axis in axes
        ],
        [
            StoredCell(name, cell.title, list(cell.position), cell.values)
            for name, cell in zip(plan.hashes, plan.sweep.cells, strict=True)
        ],
    )


def check(folder: Path, manifest: Manifest, *, force: bool = False) -> None:
    """Refuse a folder whose results are not to be mixed with those of this sweep."""
    if not (folder / MANIFEST).exists():
        return
    there = read_manifest(folder)
    if there.version != manifest.version and not force:
        raise SweepError(
            f"{folder} holds results of fedbandits {there.version}, and this is "
            f"{manifest.version}: they are not mixed. Choose another --out, or redo them with "
            "--force"
        )
    gone = {cell.hash for cell in there.cells} - {cell.hash for cell in manifest.cells}
    if gone:
        logger.info("%s held another sweep, %d cells of which are not in this", folder, len(gone))


def prepare(folder: Path, manifest: Manifest, *, force: bool = False) -> None:
    """Make the folder ready, or refuse before anything is computed.

    Args:
        folder: may exist, with cells of the same sweep or of an earlier form of it.
        manifest: what is to be played.
        force: remove the results of these cells first.
    """
    check(folder, manifest, force=force)
    try:
        for name in ("cells", "failed"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder / name):
                pass
        if force:
            for cell in manifest.cells:
                cell_path(folder, cell.hash).unlink(missing_ok=True)
                _failure_path(folder, cell.hash).unlink(missing_ok=True)
        text = json.dumps(
            {"format": FORMAT, "result_format": results.FORMAT, **asdict(manifest)},
            indent=1,
            default=str,
        )
        with atomic_write(folder / MANIFEST) as file:
            file.write(text.encode())
    except OSError as error:
        room = "make room there or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise SweepError(
            f"{unwritable(folder, error)}; nothing was computed; {room}choose another --out"
        ) from error


def unwritable(folder: Path, error: OSError) -> str:
    """Says which path of a sweep's folder cannot be written, and why."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{folder} cannot be written ({where}{error.strerror or error})"


def read_manifest(folder: str | Path) -> Manifest:
    """What the sweep in a folder consists of; a folder of another layout is refused."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} is not the folder of a sweep: it has no {MANIFEST}; fedbandits run "
            "SWEEP.toml makes one, named after the file"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        layout = found.pop("format"), found.pop("result_format")
        if layout != (FORMAT, results.FORMAT):
            raise SweepError(
                f"{folder} was written in layout {'.'.join(map(str, layout))} of sweeps, by "
                f"fedbandits {found.get('version')}; this version knows {FORMAT}.{results.FORMAT}. "
                "Read it with that version, or choose another --out"
            )
        return Manifest(
            found["version"],
            found["command"],
            found.get("folder", ""),
            found["config"],
            [StoredAxis(**axis) for axis in found["axes"]],
            [StoredCell(**cell) for cell in found["cells"]],
        )
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); delete it, and fedbandits run writes it anew and "
            "keeps the cells"
        ) from error


def shown_command(manifest: Manifest, folder: str | Path) -> str:
    """What to type to play what is missing, into the folder where it is now."""
    command, here = list(manifest.command), Path(folder).resolve()
    file, start = Path(command[2]), Path(manifest.folder)
    first = ""
    if "--out" in command:
        out = command.index("--out") + 1
        wrote = Path(command[out], file.stem)
        if (start / wrote).resolve() != here:
            together = _without(here, wrote)
            if together is not None and (together / file).is_file():
                start = together
            else:
                command[out] = str(here.parent)
            if here.name != file.stem:
                first = f"rename {here} to {file.stem}, then "
    if not file.is_absolute() and start != Path() and start != Path.cwd():
        first += f"cd {shlex.quote(str(start))} && "
    return first + shlex.join(command)


def _without(path: Path, end: Path) -> Path | None:
    """The path without its last parts, if it has them.

    Example:
        >>> _without(Path("/new/out/sweep"), Path("out/sweep")).as_posix()
        '/new'
    """
    return path.parents[len(end.parts) - 1] if path.match(str(end)) else None


def status(folder: str | Path, manifest: Manifest) -> Status:
    """Which cells are done, failed and missing."""
    root = Path(folder)
    found = Status([], [], [], [], 0)
    for cell in manifest.cells:
        path = cell_path(root, cell.hash)
        fault = _fault(path, manifest.version) if path.exists() else None
        if path.exists() and fault is None:
            found.done.append(cell)
            continue
        if fault is not None:
            found.damaged.append((path, fault))
        failure = failure_of(root, cell.hash)
        if failure is None:
            found.missing.append(cell)
        else:
            found.failed.append((cell, failure))
    known = {cell.hash for cell in manifest.cells}
    others = sum(path.stem not in known for path in (root / "cells").glob("*.nc"))
    return found._replace(others=others)


def cell_path(folder: Path, name: str) -> Path:
    """Where the result of a cell is."""
    return folder / "cells" / f"{name}.nc"


def save_cell(folder: Path, name: str, data: xr.Dataset) -> None:
    """Write a result as `Result.save` does, whole or not at all."""
    write_netcdf(data, cell_path(folder, name))
    _failure_path(folder, name).unlink(missing_ok=True)


def save_failure(folder: Path, name: str, title: str, error: str) -> None:
    """Keep why a cell failed."""
    with atomic_write(_failure_path(folder, name)) as file:
        file.write(json.dumps({"cell": title, "error": error}, indent=1).encode())


def trace(folder: Path, name: str) -> Trace:
    """What is there of a cell now."""

    def mark(path: Path) -> str:
        try:
            found = path.stat()
        except OSError:
            return ""
        return f"{found.st_ino}, {found.st_mtime_ns}"

    return Trace(mark(cell_path(folder, name)), mark(_failure_path(folder, name)))


def _failure_path(folder: Path, name: str) -> Path:
    return folder / "failed" / f"{name}.json"


def failure_of(folder: Path, name: str) -> str | None:
    """Why a cell failed the last time; None if it has not been played."""
    path = _failure_path(folder, name)
    if not path.exists():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["error"])
    except (ValueError, KeyError, TypeError):
        return f"{path} cannot be read"


def _fault(path: Path, version: str) -> str | None:
    """Why a file does not count as a cell's result; None if it does.

    Opening is enough to find a file cut off: its header says how long it is.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            layout = file.attrs.get("fedbandits_format")
            config = json.loads(file.attrs.get("config", "{}"))
    except (OSError, ValueError) as error:
        return f"cannot be read ({error})"
    if layout != results.FORMAT:
        return f"is a result of layout {layout}, not {results.FORMAT}"
    if config.get("version") != version:
        return f"is of fedbandits {config.get('version')}, not {version}"
    return None
