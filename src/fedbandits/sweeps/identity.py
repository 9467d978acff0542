"""What makes a cell the cell it is, and which cells one compiled program plays."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from fedbandits.common.describe import canonical, describe
from fedbandits.config.building import SETTINGS
from fedbandits.config.experiment import Experiment
from fedbandits.config.identity import Contents

FORMAT = 1
"""Version of what a hash is made of and of the files of a sweep; another one is refused."""

_DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(Experiment)
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


def shape_of(value: Any) -> Any:
    """What two algorithms must share to be played by one compiled program: all but numbers.

    Example:
        >>> from fedbandits import Exp3
        >>> shape_of(Exp3(0.1)) == shape_of(Exp3(0.2))
        True
        >>> shape_of(Exp3(0.1)) == shape_of(Exp3(0.1, exploration=0.2))  # no longer a power of t
        False
    """
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
