"""Objects as plain data, for result files and checkpoints: names, numbers and hashes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_LISTED = 64
"""Arrays up to this many values are written out; larger ones are named by their hash."""


def array_hash(array: np.ndarray[Any, Any]) -> str:
    """Return the SHA-256 of an array's dtype, shape and values."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Fresh:
    """A user's function with a new identity.

    Compiled programs are kept by the functions they call. The data behind a function may change
    while the function stays the same object; a new `Fresh` compiles again.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)


def describe(value: Any) -> Any:
    """Return a JSON-able description of a dataclass, array, function or plain value.

    A field with the metadata `if_given` is left out if it is None, so that descriptions from before
    the field existed stay valid. A field with the metadata `told` is always left out: it follows
    from the network, which has its own description.

    Example:
        >>> from fedbandits.schedules import power
        >>> describe({"exploration": power(0.01, 0.5)})
        {'exploration': {'name': 'Power', 'c': 0.01, 'a': 0.5}}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.size <= _LISTED:
            return value.tolist()
        return {"shape": list(value.shape), "sha256": array_hash(value)}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"name": type(value).__name__} | {
            field.name: describe(item)
            for field, item in fields.items()
            if not (item is None and field.metadata.get("if_given"))
            and not field.metadata.get("told")
        }
    if hasattr(value, "__array__"):
        return describe(np.asarray(value))
    if isinstance(value, Fresh):
        return describe(value.function)
    if callable(value):
        # By name: an object's repr holds its address, which no second run would have.
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"
    raise TypeError(f"cannot describe {type(value).__name__} {value!r} as plain data")


def label(value: Any) -> str:
    """Return a described value in a few words: a table as a call.

    Example:
        >>> label({"name": "power", "c": 0.01, "a": 0.5}), label([1, 2]), label("float64")
        ('power(c=0.01, a=0.5)', '[1, 2]', 'float64')
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}={label(item)}" for key, item in value.items() if key != "name")
        name = str(value.get("name", ""))
        return f"{name}({inside})" if inside or not name else name
    if isinstance(value, list):
        return f"[{', '.join(label(item) for item in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def canonical(value: Any) -> str:
    """Return one text for equal values, whatever the order of their keys.

    Example:
        >>> canonical({"b": 1, "a": [True, "x"]})
        '{"a":[true,"x"],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
