"""What a sweep is made of: a configuration with lists in it becomes axes and cells.

A list where one value is expected is swept. Where a parameter takes lists itself (its type hint
says so) a bare list is a value, and `{ sweep = [...] }` sweeps it; that form works everywhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedbandits.common.describe import canonical, label
from fedbandits.results.result import DIMENSIONS

from .accepting import PLAIN, Accepts, accepted
from .catalogue import REGISTRIES, SECTIONS, Registry
from .experiment import ConfigError, unknown

SWEEP = "sweep"
"""The key of the explicit form, and the section that says which axes vary together."""

MOST = 100_000
"""Cells of a sweep: each is built, and gets a file of its own."""

RESERVED = {"draw", "run", "time", "date", "agent", "arm", *DIMENSIONS}
"""Names that results have already; a parameter of such a name goes by its whole path."""


@dataclass(frozen=True)
class Axis:
    """Parameters that vary together.

    Attributes:
        paths: which ones, such as `algorithm.learning_rate`; several where they are zipped.
        values: one row per position on the axis, with one value per path.
    """

    paths: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Cell:
    """One experiment of a sweep.

    Attributes:
        config: its configuration, with nothing swept in it.
        position: where on each axis it is.
        values: the swept parameters by path.
        title: the same for people, such as `learning_rate=0.1, network=ring(agents=4)`.
    """

    config: dict[str, Any]
    position: tuple[int, ...]
    values: dict[str, Any]
    title: str


@dataclass(frozen=True)
class Sweep:
    """All cells of a configuration, the last axis varying fastest.

    Attributes:
        axes: in the order of the file; none where nothing is swept.
        cells: one per combination of positions; one cell where nothing is swept.
    """

    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]


def expand(config: Mapping[str, Any], source: str = "the configuration") -> Sweep:
    """The axes and cells of a configuration.

    Args:
        config: its tables, with lists where something is swept.
        source: what errors call it.

    Example:
        >>> sweep = expand({"seed": [0, 1], "algorithm": {"name": "Exp3", "learning_rate": [1, 2]}})
        >>> [cell.title for cell in sweep.cells]
        ['seed=0, learning_rate=1', 'seed=0, learning_rate=2',
         'seed=1, learning_rate=1', 'seed=1, learning_rate=2']
        >>> sweep.cells[1].config
        {'seed': 0, 'algorithm': {'name': 'Exp3', 'learning_rate': 2}}
    """
    swept = find_axes(config, source)
    axes = _zipped(swept, config.get(SWEEP, {}), source)
    plain = {key: value for key, value in config.items() if key != SWEEP}
    names = short_names([path for axis in axes for path in axis.paths])
    _refuse_many([len(axis.values) for axis in axes], source)
    cells = []
    for position in itertools.product(*(range(len(axis.values)) for axis in axes)):
        values = {
            path: value
            for axis, i in zip(axes, position, strict=True)
            for path, value in zip(axis.paths, axis.values[i], strict=True)
        }
        title = ", ".join(f"{names[path]}={label(value)}" for path, value in values.items())
        cells.append(Cell(_replaced(plain, values), position, values, title))
    return Sweep(axes, tuple(cells))


def _refuse_many(lengths: Sequence[int], source: str) -> None:
    """Refuse more combinations than anybody can play, before they are written down."""
    if math.prod(lengths) > MOST:
        raise ConfigError(
            f"{source}: lists of {' × '.join(map(str, lengths))} values make "
            f"{math.prod(lengths):,} cells; a sweep has at most {MOST:,}: shorten the lists, or "
            "zip some"
        )


def find_axes(config: Mapping[str, Any], source: str) -> dict[str, list[Any]]:
    """What is swept, by path, in the order of the file.

    Example:
        >>> find_axes({"runs": 2, "network": [{"name": "ring", "agents": [4, 5]}]}, "here")
        {'network': [{'name': 'ring', 'agents': 4}, {'name': 'ring', 'agents': 5}]}
    """
    found: dict[str, list[Any]] = {}
    for key, value in config.items():
        if key != SWEEP:
            registry = REGISTRIES[key] if key in SECTIONS else None
            _search(value, key, registry, takes_lists=False, source=source, found=found)
    return found


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """The last part of each path where it is the only one of that name, else the whole path.

    What has a name goes by what it is, as where the whole table is swept.

    Example:
        >>> short_names(["seed", "problem.seed", "algorithm.exploration.c", "gossip.name"])
        {'seed': 'seed', 'problem.seed': 'problem.seed', 'algorithm.exploration.c': 'c',
         'gossip.name': 'gossip'}
    """
    last = [path.removesuffix(".name").rpartition(".")[2] for path in paths]
    return {
        path: path if last.count(name) > 1 or name in RESERVED else name
        for path, name in zip(paths, last, strict=True)
    }


def _search(
    value: Any,
    path: str,
    registry: Registry | None,
    *,
    takes_lists: bool,
    source: str,
    found: dict[str, list[Any]],
) -> None:
    """Add what is swept in `value`, which stands at `path`, to `found`."""
    options = _options(value, path, takes_lists, source)
    if options is not None:
        # An alternative may sweep inside: each of its combinations is an alternative.
        each = [plain for option in options for plain in _plain(option, path, registry, source)]
        _refuse_duplicates(each, path, source)
        found[path] = each
    elif isinstance(value, Mapping):
        takes = _takes(value, registry)
        for key, item in value.items():
            if "." in key:
                raise ConfigError(f"{source}: {path} has the key {key!r}; a name has no dot")
            accepts = takes.get(key, PLAIN)
            _search(
                item,
                f"{path}.{key}",
                accepts.table,
                takes_lists=accepts.lists,
                source=source,
                found=found,
            )


def _options(value: Any, path: str, takes_lists: bool, source: str) -> list[Any] | None:
    """The alternatives that `value` lists; None if it is one value."""
    if isinstance(value, Mapping) and SWEEP in value:
        options = value[SWEEP]
        if len(value) > 1 or not isinstance(options, list):
            raise ConfigError(
                f"{source}: {path} = {label(value)}: write {{ sweep = [value, value] }} and "
                "nothing else in the braces"
            )
    elif isinstance(value, list) and not takes_lists:
        options = value
    else:
        return None
    if not options:
        raise ConfigError(f"{source}: {path} is an empty list; give it a value or remove it")
    return options


def _plain(option: Any, path: str, registry: Registry | None, source: str) -> list[Any]:
    """The combinations of what an alternative sweeps; itself if it sweeps nothing."""
    if not isinstance(option, Mapping):
        return [option]
    nested = _options(option, path, True, source)
    if nested is not None:
        return [plain for item in nested for plain in _plain(item, path, registry, source)]
    inside: dict[str, list[Any]] = {}
    _search(option, path, registry, takes_lists=True, source=source, found=inside)
    keys = [key.removeprefix(f"{path}.") for key in inside]
    _refuse_many([len(values) for values in inside.values()], source)
    return [
        _replaced(option, dict(zip(keys, values, strict=True)))
        for values in itertools.product(*inside.values())
    ]


def _takes(table: Mapping[str, Any], registry: Registry | None) -> dict[str, Accepts]:
    """What each key of a table takes; where the name is swept too, what any of them takes."""
    name = table.get("name")
    if isinstance(name, Mapping):
        name = name.get(SWEEP)
    names: Iterable[Any] = name if isinstance(name, list) else [name]
    takes: dict[str, Accepts] = {}
    for one in names:
        for key, accepts in accepted(registry or {}, one).items():
            takes[key] = takes.get(key, PLAIN).or_else(accepts)
    return takes


def _refuse_duplicates(values: Sequence[Any], path: str, source: str) -> None:
    seen: set[str] = set()
    for value in values:
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
        text = canonical(float(value) if whole else value)
        if text in seen:
            raise ConfigError(f"{source}: {path} has {label(value)} twice; remove one")
        seen.add(text)


def _zipped(swept: Mapping[str, list[Any]], table: Any, source: str) -> tuple[Axis, ...]:
    """Axes from what is swept: those that [sweep] zips stand where the first of them is."""
    groups = _groups(swept, table, source)
    axes: dict[tuple[str, ...], Axis] = {}
    for path in swept:
        paths = groups.get(path, (path,))
        if paths not in axes:
            rows = zip(*(swept[member] for member in paths), strict=True)
            axes[paths] = Axis(paths, tuple(rows))
    return tuple(axes.values())


def _groups(swept: Mapping[str, list[Any]], table: Any, source: str) -> dict[str, tuple[str, ...]]:
    """For every zipped path, all that vary with it."""
    place = f"{source} [{SWEEP}]"
    example = 'zip = [["algorithm.learning_rate", "algorithm.exploration.c"]]'
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place}: expected a table such as {example}, not {label(table)}")
    for key in table:
        if key != "zip":
            raise ConfigError(f"{place}: {unknown('key', key, ['zip'])}")
    listed = table.get("zip", [])
    if not isinstance(listed, list):
        raise ConfigError(f"{place}: zip is {label(listed)}; write {example}")
    groups: dict[str, tuple[str, ...]] = {}
    for group in listed:
        names = isinstance(group, list) and all(isinstance(path, str) for path in group)
        if not names or len(group) < 2:
            raise ConfigError(
                f"{place}: {label(group)} is not a list of two or more parameters; write {example}"
            )
        for path in group:
            if path not in swept:
                raise ConfigError(f"{place}: {unknown('swept parameter', path, swept)}")
            if path in groups:
                raise ConfigError(f"{place}: {path} stands in two groups; leave it in one")
            groups[path] = tuple(group)
        sizes = {path: len(swept[path]) for path in group}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{path} has {size} values" for path, size in sizes.items())
            raise ConfigError(f"{place}: {counts}; what is zipped needs as many of each")
    return groups


def _replaced(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested tables with other values at some paths.

    Example:
        >>> _replaced({"a": {"b": 1, "c": 2}}, {"a.b": 3})
        {'a': {'b': 3, 'c': 2}}
    """
    copy = dict(table)
    for path, value in values.items():
        key, _, rest = path.partition(".")
        copy[key] = _replaced(copy[key], {rest: value}) if rest else value
    return copy
