"""Configurations as TOML text; Python reads TOML but does not write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any


def toml_text(config: Mapping[str, Any]) -> str:
    """Return tables as TOML text: keys first, then [sections].

    Example:
        >>> print(toml_text({"runs": 2, "algorithm": {"name": "Exp3", "learning_rate": 0.1}}))
        runs = 2
        <BLANKLINE>
        [algorithm]
        name = "Exp3"
        learning_rate = 0.1
        <BLANKLINE>
    """
    return changed("", config)


def changed(text: str, config: Mapping[str, Any]) -> str:
    """Return the text of a configuration with new values, and with the user's comments and order.

    Args:
        text: TOML.
        config: what the new text says; keys that are not in it go.

    Example:
        >>> changed("runs = 2  # few", {"runs": 3})
        'runs = 3  # few'
    """
    import tomlkit

    there = tomlkit.parse(text)
    new = {
        key: _in_one_line(value)
        for key, value in config.items()
        if key not in there and not isinstance(value, Mapping)
    }
    # New keys of no section come first: after one they would be that section's.
    document = tomlkit.parse(tomlkit.dumps(new) + text)
    _change(document, config, tomlkit.table)
    return tomlkit.dumps(document)


def _change(
    table: MutableMapping[str, Any], wanted: Mapping[str, Any], new: Callable[[], Any]
) -> None:
    """Change a table of a document to the wanted values; equal values stay unchanged.

    Args:
        table: changed in place.
        wanted: what it says then.
        new: an empty table for those that it lacks: sections in a document, else `{ }` in a line.
    """
    import tomlkit

    for key in [key for key in table if key not in wanted]:
        del table[key]
    for key, value in wanted.items():
        there = table.get(key)
        if isinstance(there, MutableMapping) != isinstance(value, Mapping):
            table.pop(key, None)  # a section does not become a number where it stands
        if isinstance(value, Mapping):
            if key not in table:
                table[key] = new()
            _change(table[key], value, tomlkit.inline_table)
        elif key not in table or repr(tomlkit.item(there).unwrap()) != repr(value):
            table[key] = _in_one_line(value)


def _in_one_line(value: Any) -> Any:
    """Return a value other than a table as an item of a document."""
    import tomlkit

    if not isinstance(value, list | tuple):
        return tomlkit.item(value)
    array = tomlkit.array()
    array.extend(value)
    return array
