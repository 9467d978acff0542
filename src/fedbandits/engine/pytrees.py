"""Makes frozen dataclasses traceable: fields are traced unless their metadata says static."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import jax

_registered: set[type] = set()
_lock = threading.RLock()  # simulations may run in threads


def register(value: Any) -> None:
    """Register the dataclass of `value`, and those inside it, as JAX pytrees (once each).

    JAX's own `register_dataclass` rebuilds an object through `__init__`, which would run the
    checks of arguments on traced values; here the fields are put back as they were.
    """
    if isinstance(value, tuple):
        for item in value:
            register(item)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return
    with _lock:
        _register(value)


def _register(value: Any) -> None:
    cls = type(value)
    fields = dataclasses.fields(value)
    for field in fields:
        register(getattr(value, field.name))
    if cls in _registered:
        return
    static = tuple(field.name for field in fields if field.metadata.get("static"))
    traced = tuple(field.name for field in fields if field.name not in static)

    def flatten(item: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(item, name) for name in traced), tuple(
            getattr(item, name) for name in static
        )

    def unflatten(aux: tuple[Any, ...], children: tuple[Any, ...]) -> Any:
        item = object.__new__(cls)
        for name, child in zip(traced, children, strict=True):
            object.__setattr__(item, name, child)
        for name, constant in zip(static, aux, strict=True):
            object.__setattr__(item, name, constant)
        return item

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    _registered.add(cls)
