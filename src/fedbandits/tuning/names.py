"""What tables call the parameters of candidates: the names that users give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedbandits import schedules
from fedbandits.algorithms import AnyAlgorithm


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What candidates differ in, a column each.

    Args:
        settings: the candidates as plain data.

    Returns:
        by name: numbers, and in words what is none. Rates of one kind have a column for each of
        their numbers; those of several kinds share one.

    Example:
        >>> from fedbandits import Exp3
        >>> from fedbandits.common.describe import describe
        >>> from fedbandits.schedules import power, small_loss
        >>> differences([describe(Exp3(0.1, power(c, 1 / 3))) for c in (0.01, 0.1)])
        {'exploration.c': [0.01, 0.1]}
        >>> differences([describe(Exp3(rate)) for rate in (0.1, small_loss())])
        {'learning_rate': [0.1, 'small_loss(c=2)']}
    """
    keys = dict.fromkeys(key for setting in settings for key in setting)
    columns: dict[str, list[Any]] = {}
    for key in keys:
        name = "algorithm" if key == "name" else key
        columns |= _columns(name, [setting.get(key) for setting in settings])
    return {name: values for name, values in columns.items() if len({*map(repr, values)}) > 1}


def asked_for(candidate: AnyAlgorithm, setting: Mapping[str, Any]) -> dict[str, Any]:
    """A candidate as plain data, with `default` for a rate that only the algorithm itself makes.

    Args:
        candidate: as it was asked for.
        setting: the same with what it took from the network filled in.

    Example:
        >>> from fedbandits import BlockGossip
        >>> asked_for(BlockGossip(), {"learning_rate": {"name": "BlockRate", "block": 9}})
        {'learning_rate': 'default'}
    """
    return {
        key: "default"
        if isinstance(value, Mapping)
        and getattr(candidate, key, None) is None
        and schedules.name_of(value.get("name", "")) not in schedules.REGISTRY
        else value
        for key, value in setting.items()
    }


def _columns(name: str, values: list[Any]) -> dict[str, list[Any]]:
    """One column; or one for each number, where all are of one kind that has several."""
    kinds = {value.get("name") if isinstance(value, Mapping) else None for value in values}
    parts = [value for value in values if isinstance(value, Mapping)]
    if len(kinds) > 1 or len(parts) < len(values) or kinds == {"Constant"}:
        return {name: [in_words(value) for value in values]}
    columns: dict[str, list[Any]] = {}
    for key in parts[0]:
        if key != "name":
            columns |= _columns(f"{name}.{key}", [part.get(key) for part in parts])
    return columns


def in_words(described: Any) -> Any:
    """A rate as one would write it; a number stays one.

    Example:
        >>> in_words({"name": "Power", "c": 0.01, "a": 1 / 3}), in_words(0.1)
        ('power(c=0.01, a=0.333333)', 0.1)
    """
    if not isinstance(described, Mapping) or "name" not in described:
        return described
    kind, values = described["name"], {k: x for k, x in described.items() if k != "name"}
    if kind in ("Constant", "Computed"):  # a number or a function, which stands for itself
        return next(iter(values.values()))
    shown = (f"{key}={x:g}" if isinstance(x, float) else f"{key}={x}" for key, x in values.items())
    return f"{schedules.public_name(kind)}({', '.join(shown)})"
