"""What the parameters of a constructor take, by their type hints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_origin

from fedbandits.common.own_modules import OwnError
from fedbandits.gossip.base import Gossip
from fedbandits.problems import Problem
from fedbandits.schedules import Schedule

from .catalogue import REGISTRIES, Registry
from .hints import alternatives, hints_of

TABLES: Mapping[type, Registry] = {
    Schedule: REGISTRIES["schedule"],
    Problem: REGISTRIES["problem"],
    Gossip: REGISTRIES["gossip"],
}
"""What a table stands for, where a parameter takes an object of this type."""


class Accepts(NamedTuple):
    """What a parameter takes beside a number, a text or a truth value.

    Attributes:
        file: whether a text is the name of a file.
        table: what a table names; None where it is no constructor's.
        lists: whether a list is one value, which a bare list does not sweep then.
    """

    file: bool = False
    table: Registry | None = None
    lists: bool = False

    def or_else(self, other: Accepts) -> Accepts:
        """What one of the two takes."""
        return Accepts(
            self.file or other.file, self.table or other.table, self.lists or other.lists
        )


PLAIN = Accepts()
"""Of a parameter that takes none of these, or that is not there."""


def accepted(registry: Registry, name: Any) -> dict[str, Accepts]:
    """What each parameter of the constructor of that name takes; nothing where there is none.

    Example:
        >>> from fedbandits import networks
        >>> accepted(networks.REGISTRY, "read_graphml")
        {'path': Accepts(file=True, table=None, lists=False)}
        >>> accepted(networks.REGISTRY, "read_grafml")
        {}
    """
    if not isinstance(name, str) or name not in registry:
        return {}
    try:
        return parameters_of(registry[name])
    except OwnError:  # whoever builds it says so, with its place
        return {}


@cache  # a sweep asks for every cell
def parameters_of(make: Callable[..., Any]) -> dict[str, Accepts]:
    """What each parameter of a constructor takes.

    Example:
        >>> from fedbandits import Exp3
        >>> parameters_of(Exp3)["learning_rate"].table is TABLES[Schedule]
        True
    """
    try:
        hints = hints_of(make)
    except Exception as error:  # of an own one: hints are code
        raise OwnError(f"the type hints of {make.__qualname__} cannot be read: {error}") from error
    return {
        key: _accepts(hints[key]) if key in hints else PLAIN
        for key in inspect.signature(make).parameters
    }


def _accepts(hint: Any) -> Accepts:
    """What a hint allows.

    Example:
        >>> _accepts(str | Path | None).file, _accepts(int | list[int]).lists
        (True, True)
        >>> _accepts(Mapping[str, list[str]])
        Accepts(file=False, table=None, lists=False)
    """
    kinds = [get_origin(kind) or kind for kind in alternatives(hint)]
    tables = [registry for kind, registry in TABLES.items() if kind in kinds]
    return Accepts(Path in kinds, tables[0] if tables else None, any(map(_is_list, kinds)))


def _is_list(kind: Any) -> bool:
    if kind is Any:
        return True
    whole = (str, bytes, Mapping)  # these can be gone through too
    return isinstance(kind, type) and issubclass(kind, Iterable) and not issubclass(kind, whole)
