"""A TOML file and the changes of the command line, as tables."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .experiment import ConfigError


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of a TOML file after the changes in `overrides`, not yet looked at."""
    config = _read_toml(Path(path))
    for override in overrides:
        _apply_override(config, override)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    if not path.is_file():
        raise FileNotFoundError(f"no configuration file at {path}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file in UTF-8: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply; write its tables as [sections]") from error


def _apply_override(config: dict[str, Any], override: str) -> None:
    """Change `config` in place by one `section.key=value`.

    Example:
        >>> config = {"algorithm": {"exploration": {"c": 0.01}}}
        >>> _apply_override(config, "algorithm.exploration.c=0.02")
        >>> _apply_override(config, "algorithm.name=Exp3")
        >>> config
        {'algorithm': {'exploration': {'c': 0.02}, 'name': 'Exp3'}}
    """
    target, equals, value = override.partition("=")
    keys = [key.strip() for key in target.split(".")]
    if not equals or not all(keys):
        raise ConfigError(
            f"--set {override}: expected section.key=value, for example "
            "--set problem.horizon=1000 or --set runs=20"
        )
    table = config
    for depth, key in enumerate(keys[:-1]):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            parent = ".".join(keys[: depth + 1])
            raise ConfigError(
                f"--set {override}: {parent} is {table!r}, which has no keys of its own; replace "
                f"it whole, as in --set '{parent}={{name = ..., {keys[depth + 1]} = {value}}}'"
            )
    table[keys[-1]] = toml_value(value, f"--set {override}")


def toml_value(text: str, place: str) -> Any:
    """A TOML value; text that is none stands for itself, so that names need no quotes.

    Example:
        >>> [toml_value(text, "") for text in ("20", "false", "[1, 2]", "FedExp3")]
        [20, False, [1, 2], 'FedExp3']
    """
    text = text.strip()
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in tuple("[{\"'"):  # meant as TOML
            raise ConfigError(f"{place}: {text} is not a TOML value: {error}") from error
        return text
    return parsed["value"] if len(parsed) == 1 else text
