"""Cells that are played together: as plain data on their way, as experiments where they arrive."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedbandits.config.building import Shared, build
from fedbandits.config.experiment import Experiment
from fedbandits.config.identity import Contents, files_of, own_names
from fedbandits.config.own import looking_beside, source_files

from .identity import cell_hash


class Parcel(NamedTuple):
    """A batch of cells, which are played together, as plain data that travels.

    Attributes:
        source: the configuration file, an absolute path.
        configs: the configuration of every cell.
        hashes: their names, which say what is in the files that the configurations name.
    """

    source: str
    configs: list[dict[str, Any]]
    hashes: list[str]


Unpack = Callable[[Parcel], Sequence[Experiment]]
"""Gives what the cells of a parcel describe."""


class Workshop:
    """Builds what the cells of one sweep describe; what they share is made once.

    Args:
        source: the configuration file that the batches are from.
    """

    def __init__(self, source: str) -> None:
        self._source = Path(source)
        self._contents = Contents(self._source.parent)
        self._shared = Shared(self._contents)
        self._lock = threading.Lock()  # a worker of a cluster may have several threads

    @property
    def contents(self) -> Contents:
        """Of the files that the cells name."""
        return self._contents

    def build(self, config: Mapping[str, Any], overrides: Sequence[str] = ()) -> Experiment:
        """What a cell describes."""
        with self._lock:
            return build(config, self._source, overrides, made=self._shared)

    def __call__(self, parcel: Parcel) -> list[Experiment]:
        """What the cells describe; refused if their files are not what the plan was made of."""
        for config, name in zip(parcel.configs, parcel.hashes, strict=True):
            with looking_beside(config, self._source):
                named = self._named(config)
                if cell_hash(config, self._contents) != name:
                    raise ValueError(
                        f"{', '.join(named)} is not here, or not what it was when the sweep began; "
                        "put it back, or run the sweep again"
                    )
        return [self.build(config) for config in parcel.configs]

    def _named(self, config: Mapping[str, Any]) -> list[str]:
        """The files that decide what a cell is: those it names, and those of own modules."""
        files = [str(self._source.parent / file) for file in files_of(config)]
        return files + [path for name in own_names(config) for path in source_files(name)]


@functools.lru_cache(maxsize=2)
def workshop_of(source: str) -> Workshop:
    """The workshop of a worker that plays batch after batch of a sweep."""
    return Workshop(source)
