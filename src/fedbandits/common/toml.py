"""Configurations as TOML text; Python reads TOML but does not write it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(config: Mapping[str, Any]) -> str:
    """Tables as `tomllib` gives them, as text that it reads again: keys first, then [sections].

    Example:
        >>> print(toml_text({"runs": 2, "algorithm": {"name": "Exp3", "learning_rate": 0.1}}))
        runs = 2
        <BLANKLINE>
        [algorithm]
        name = "Exp3"
        learning_rate = 0.1
        <BLANKLINE>
    """
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    sections = {key: value for key, value in config.items() if isinstance(value, Mapping)}
    parts = [_lines(plain)] if plain else []
    parts += [f"[{_key(name)}]\n{_lines(section)}" for name, section in sections.items()]
    return "\n".join(parts)


def toml_value(value: Any) -> str:
    """One value on one line.

    Example:
        >>> toml_value({"name": "power", "c": 0.01, "on": True, "steps": [1, 2]})
        '{ name = "power", c = 0.01, on = true, steps = [1, 2] }'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the one character that only TOML refuses.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        # inf and nan are words of TOML too; NumPy's floats are floats, with a name in their repr.
        return repr(float(value)) if isinstance(value, float) else repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if hasattr(value, "isoformat"):  # dates and times
        return str(value.isoformat())
    raise TypeError(f"{type(value).__name__} {value!r} has no form in TOML")


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {toml_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)
