"""Type hints of constructors, also where a module imports types for type checkers alone."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints


def alternatives(hint: Any) -> Iterator[Any]:
    """Yield the members of a union; for any other hint, yield the hint itself."""
    if get_origin(hint) in (Union, types.UnionType):
        for member in get_args(hint):
            yield from alternatives(member)
    else:
        yield hint


class _Anything(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # Python asks, not a type hint
            raise AttributeError(name)
        return cls


class Unloaded(metaclass=_Anything):
    """A stand-in for names that are imported for type checkers only, such as pandas.

    Importing pandas would take a second, and no configuration can hold its objects.
    """


def hints_of(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the type hints of a constructor, by parameter."""
    bare = inspect.unwrap(make)
    target = bare.__init__ if inspect.isclass(bare) else bare
    unloaded: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(target, localns=unloaded)
        except NameError as error:
            if error.name is None or error.name in unloaded:
                raise
            unloaded[error.name] = Unloaded
