"""The identity of a cell of a sweep: a hash of its configuration and of the files it names."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from fedbandits.common.describe import canonical
from fedbandits.config.building import SETTINGS
from fedbandits.config.experiment import Experiment
from fedbandits.config.identity import Contents
from fedbandits.simulation.simulation import Simulation

FORMAT = 1
"""Version of what a hash is made of and of the files of a sweep; another one is refused."""

_DEFAULTS = {
    field.name: field.default
    for field in (*dataclasses.fields(Simulation), *dataclasses.fields(Experiment))
    if field.name in SETTINGS and field.default is not None
}


def cell_hash(config: Mapping[str, Any], contents: Contents) -> str:
    """The name of a cell: 32 hexadecimal digits.

    Whether the defaults of runs, seed, dtype and against are written out makes no difference.

    Args:
        config: the cell's configuration.
        contents: of the files it names.

    Example:
        >>> from pathlib import Path
        >>> here = Contents(Path())
        >>> cell_hash({"seed": 0}, here) == cell_hash({"runs": 10}, here)  # both the default
        True
    """
    text = canonical({"format": FORMAT, "config": contents.identity({**_DEFAULTS, **config})})
    return hashlib.sha256(text.encode()).hexdigest()[:32]
