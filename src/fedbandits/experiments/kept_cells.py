"""Cells of a long experiment that have been played, kept on disk until all of them are."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedbandits.common.describe import canonical, describe
from fedbandits.common.files import atomic_write

from .section import Options

In = TypeVar("In")
Out = TypeVar("Out")

_ARRAY = "array"


@dataclass(frozen=True)
class KeptCells:
    """Where the cells of one part are kept: stopped and asked for again, it goes on from there.

    Attributes:
        folder: one file for each cell.
        about: what decides the numbers of all cells, as plain data.
    """

    folder: Path
    about: Any

    def keeping(self, made: Callable[[Any], Out], play: Callable[[In], Out]) -> Callable[[In], Out]:
        """`play`, but that what came of a cell is read where it was kept, else played and kept.

        A file is written whole or not at all. One that cannot be read is played anew.

        Args:
            made: gives what `play` does, of its parts.
            play: of a cell: tuples and lists of numbers, texts, arrays and mappings.
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
    """As JSON has it, arrays under a name of their own."""
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
    return (
        np.array(value[_ARRAY]) if _ARRAY in value else {k: _unpacked(x) for k, x in value.items()}
    )


def kept_cells(options: Options, part: str, about: Any) -> KeptCells:
    """Those of a part of `fedbandits reproduce`, asked for with these options.

    Args:
        options: what was asked for.
        part: its name.
        about: what decides the numbers beside the options.
    """
    return KeptCells(cells_folder(options, part), describe(about))


def cells_folder(options: Options, part: str) -> Path:
    """Where a part keeps the cells that it has played, until it is done.

    Another one for each command and for other code: what these played is of no use.
    """
    known = canonical([_code(), options.command(part)])
    return options.out / f".{part}-cells" / hashlib.sha256(known.encode()).hexdigest()[:16]


def forget_cells(options: Options, part: str) -> None:
    """Remove what is kept of a part, which is done; also by other commands or code."""
    shutil.rmtree(cells_folder(options, part).parent, ignore_errors=True)


@functools.cache
def _code() -> str:
    """A hash of the library's sources: what older ones played is not mixed with what is new."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
