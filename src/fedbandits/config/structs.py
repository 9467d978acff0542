"""Sections of TOML files as `msgspec` structs: types, defaults and descriptions in one place.

A key is one line of a struct and one line of its docstring. `struct_of` validates a table, and
`schema.struct_schema` describes the same struct for editors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from .experiment import Place, unknown
from .hints import alternatives

T = TypeVar("T", bound=msgspec.Struct)

WORDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "the name of a file or folder",
    list: "a list of texts",
    dict: "a table of texts",
}
"""The types of keys, for errors."""


class Key(NamedTuple):
    """A key of a section.

    Attributes:
        name: as a file spells it.
        hint: the type without None, which stands for a key that is absent.
        kind: the class of its values.
        required: whether it has no default.
        words: a description of its values, for errors.
        example: a value in TOML; may be empty.
    """

    name: str
    hint: Any
    kind: type
    required: bool
    words: str
    example: str


def keys_of(struct: type[msgspec.Struct]) -> Iterator[Key]:
    """Yield the keys of a section, in the order of its struct."""
    for field in msgspec.structs.fields(struct):
        hint = next(hint for hint in alternatives(field.type) if hint is not type(None))
        bare, *metas = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        meta = metas[0] if metas else msgspec.Meta()
        kind = get_origin(bare) or bare
        words = WORDS.get(kind, "a section") + (
            "" if meta.ge is None else f" of at least {meta.ge:g}"
        )
        example = json.dumps(meta.examples[0]) if meta.examples else ""
        yield Key(field.name, hint, kind, field.required, words, example)


def struct_of(table: dict[str, Any], struct: type[T], place: Place) -> T:
    """Return the struct that a table describes.

    Args:
        table: the section as read.
        struct: the section's type. A field that is a struct is a section within it.
        place: the place of the section, for errors; file names are relative to its folder.

    Raises:
        ConfigError: if a key is unknown, missing or of another type.
    """
    keys = {key.name: key for key in keys_of(struct)}
    for name in table:
        if name not in keys:
            raise place.error(unknown("key", name, keys))
    for key in keys.values():
        if key.required and key.name not in table:
            raise place.error(f"no {key.name}; add {key.name} = {key.example or key.words}")
    return struct(**{name: _value(keys[name], value, place) for name, value in table.items()})


def _value(key: Key, value: Any, place: Place) -> Any:
    if issubclass(key.kind, msgspec.Struct):
        if not isinstance(value, dict):
            raise place.error(f"{key.name} must be a section: write [{key.name}], not {value!r}")
        return struct_of(value, key.kind, place._replace(name=f"{place.name} [{key.name}]"))

    def path(_: type, name: Any) -> Path:
        if not isinstance(name, str) or not name:
            raise TypeError
        return place.folder / name

    try:
        return msgspec.convert(value, key.hint, dec_hook=path)
    except msgspec.ValidationError as error:
        such = key.example and f" such as {key.name} = {key.example}"
        raise place.error(f"{key.name} must be {key.words}{such}, not {value!r}") from error
