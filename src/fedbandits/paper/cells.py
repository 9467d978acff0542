"""Cells of a long computation: played in threads, and kept on disk until all of them are done."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedbandits.common.describe import canonical, describe
from fedbandits.common.files import atomic_write

if TYPE_CHECKING:
    from .section import Options

In = TypeVar("In")
Out = TypeVar("Out")

_ARRAY = "array"


def in_threads(play: Callable[[In], Out], cells: Sequence[In], title: str) -> list[Out]:
    """Return `play(cell)` of every cell, in order, computed on all cores.

    Compiled rounds release Python's lock, so threads are enough.
    """
    from rich.console import Console
    from rich.progress import track

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return list(
                track(
                    pool.map(play, cells),
                    title,
                    total=len(cells),
                    console=Console(stderr=True),
                    disable=not sys.stderr.isatty(),
                )
            )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@dataclass(frozen=True)
class KeptCells:
    """Cells of one part on disk. If the part is stopped and started again, it reads them.

    Attributes:
        folder: one file for each cell.
        about: what decides the numbers of all cells, as plain data.
    """

    folder: Path
    about: Any

    def keeping(self, made: Callable[[Any], Out], play: Callable[[In], Out]) -> Callable[[In], Out]:
        """Return a `play` that reads a cell from its file, or plays it and writes the file.

        A file is written whole or not at all. A cell whose file cannot be read is played again.

        Args:
            made: builds the value of `play` from its parts.
            play: computes tuples and lists of numbers, texts, arrays and mappings from a cell.
        """

        def kept_or_played(cell: In) -> Out:
            text = canonical([self.about, describe(cell)])
            path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
            try:
                return made(_unpacked(json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError, KeyError):
                found = play(cell)
            with atomic_write(path) as file:
                file.write(json.dumps(_packed(found)).encode())
            return found

        return kept_or_played


def _packed(value: Any) -> Any:
    """Return the value as JSON stores it, with arrays marked."""
    if isinstance(value, np.ndarray):
        return {_ARRAY: value.tolist()}
    if isinstance(value, Mapping):
        return {key: _packed(item) for key, item in value.items()}
    return [_packed(item) for item in value] if isinstance(value, list | tuple) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return np.array(value[_ARRAY])
    return {key: _unpacked(item) for key, item in value.items()}


def kept_cells(options: Options, part: str, about: Any) -> KeptCells:
    """Return the cells of a part, for these options.

    Args:
        options: of the command.
        part: its name.
        about: what decides the numbers, besides the options.
    """
    return KeptCells(cells_folder(options, part), describe(about))


def cells_folder(options: Options, part: str) -> Path:
    """Return the folder in which a part keeps its cells until it is done.

    Each command and each version of the code has its own folder: cells of others do not fit.
    """
    known = canonical([_code(options.sources), options.command(part)])
    return options.out / f".{part}-cells" / hashlib.sha256(known.encode()).hexdigest()[:16]


def forget_cells(options: Options, part: str) -> None:
    """Remove all kept cells of a part that is done, also cells of other commands or code."""
    shutil.rmtree(cells_folder(options, part).parent, ignore_errors=True)


@functools.cache
def _code(folders: tuple[Path, ...]) -> str:
    """Return a hash of the sources in some folders, so that cells of older code are not read."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
