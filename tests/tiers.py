"""Parameters of which only some are played by `make test`, and all others by `make soak`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def soak_but(kept: Iterable[Any], values: Iterable[Any] | Mapping[str, Any]) -> list[Any]:
    """Return the parameters, all but `kept` of them marked `soak`.

    Args:
        kept: those that stay in `make test`: values, or keys of a mapping.
        values: all of them, a tuple for several arguments. The keys of a mapping are the
            parameters' names in reports.
    """
    kept = list(kept)
    named = dict(values).items() if isinstance(values, Mapping) else [(x, x) for x in values]
    found = [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=key if isinstance(values, Mapping) else None,
            marks=() if key in kept else pytest.mark.soak,
        )
        for key, value in named
    ]
    if sum(not each.marks for each in found) != len(kept):
        raise ValueError(f"not all of {kept} are among the parameters {[key for key, _ in named]}")
    return found
