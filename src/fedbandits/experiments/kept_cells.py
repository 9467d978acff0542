"""Cells of a long experiment that have been played, kept on disk until all of them are."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandits.common.describe import canonical, describe
from fedbandits.common.files import atomic_path
from fedbandits.common.version import __version__

from .section import Options


@dataclass(frozen=True)
class KeptCells:
    """Where the cells of one part are kept: stopped and asked for again, it goes on from there.

    Attributes:
        folder: one file for each cell.
        about: what decides the numbers of all cells, as plain data.
    """

    folder: Path
    about: Any

    def played(self, cell: Any, play: Callable[[], Any]) -> Any:
        """What came of a cell, plain data: read where it was kept, else played and kept.

        A file is written whole or not at all. One that cannot be read is played anew.
        """
        name = hashlib.sha256(canonical([self.about, describe(cell)]).encode()).hexdigest()[:32]
        path = self.folder / f"{name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = play()
        with atomic_path(path) as file:
            file.write_text(json.dumps(found), encoding="utf-8")
        return found


def kept_cells(options: Options, part: str, about: Any) -> KeptCells:
    """Those of a part of `fedbandits reproduce`, asked for with these options.

    Args:
        options: what was asked for.
        part: its name.
        about: what decides the numbers beside the options.
    """
    known = [__version__, options.command(part), describe(about)]
    return KeptCells(_folder(options, part), known)


def forget_cells(options: Options, part: str) -> None:
    """Remove what is kept of a part, which is done."""
    shutil.rmtree(_folder(options, part), ignore_errors=True)


def _folder(options: Options, part: str) -> Path:
    return options.out / f".{part}-cells"
