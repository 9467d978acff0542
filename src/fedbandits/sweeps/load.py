"""All cells of a sweep as one dataset, ready for a plot against any parameter."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common.describe import label
from fedbandits.config.expansion import short_names
from fedbandits.results.dynamic_regret import given_sequence
from fedbandits.results.result import DIMENSIONS, Result, load

from . import store

if TYPE_CHECKING:
    import xarray as xr

Position = tuple[int, ...]
Values = dict[str, np.ndarray[Any, Any]]

FINAL = {"final_regret": "regret", "final_expected_regret": "expected_regret"}
"""At each cell's own T, and of which variable: the last round of all is not the last of each."""

CALENDAR = ("units", "calendar")
"""What makes dates of the numbers that a file has for them."""

JOINED = ("draw", "run", "time")
"""Dimensions that may differ between cells: what a cell does not have is NaN."""


def load_experiment(
    folder: str | Path,
    variables: Sequence[str] | None = None,
    *,
    changes: int | None = None,
    parts: int | None = None,
) -> xr.Dataset:
    """The results of a sweep, with a dimension for each axis beside those of a single result.

    Parameters that are zipped share a dimension, named after the first of them. If an axis
    lists whole sections, each parameter that differs has a coordinate along it. Cells that are
    missing are NaN. Where cells differ in their agents or arms, what is kept for each of these is
    left out, and the attribute `left_out` says so. Rounds have their coordinate `date` where it is
    the same in all cells. With `draws` in the configuration, `draw` is the first of a result's own
    dimensions.

    Args:
        folder: what `fedbandits run` wrote.
        variables: what to read, for a large sweep; everything by default. See `fb.Result`.
        changes: regret is against the best sequence with at most so many changes, as in
            `Result.regret_against`, up to half a second for each cell; nothing is run again.
        parts: or against the best arm of each of so many equal parts.

    Returns:
        a dataset with, for example, `regret[learning_rate, network, run, time]`, and with
        `final_regret[learning_rate, network, run]` and `final_expected_regret`, each cell's at its
        own T: `fb.load_experiment("out/sweep").final_regret.mean("run").plot(hue="network")`.
    """
    import xarray as xr

    sequence = given_sequence(changes, parts)
    manifest = store.read_manifest(folder)
    if isinstance(variables, str):
        raise TypeError(f"variables must be a list of names: write [{variables!r}]")
    wanted = {name: _dimensions(name, manifest) for name in _wanted(variables)}
    cells = _read(Path(folder), manifest, wanted, sequence)
    wanted |= _own_losses(wanted, [values for values, _ in cells.values()])
    coordinates, left_out = _common([values for values, _ in cells.values()])
    sizes = [len(axis.values) for axis in manifest.axes]
    dimensions = [axis.names[0] for axis in manifest.axes]
    data: dict[str, Any] = {}
    for name, inner in wanted.items():
        if not set(inner) & set(left_out):
            inside = {dimension: coordinates[dimension] for dimension in inner}
            data[name] = ([*dimensions, *inner], _stacked(cells, name, sizes, inside))
    used = {dimension for every, _ in data.values() for dimension in every}
    coords: dict[str, Any] = {k: v for k, v in coordinates.items() if k in used}
    if "time" in used:
        done = [cell.hash for cell in manifest.cells if tuple(cell.position) in cells]
        dates = _dates([store.cell_path(Path(folder), name) for name in done])
        coords |= {} if dates is None else {"date": ("time", dates)}
    for axis in manifest.axes:
        for name, values in zip(axis.names, zip(*axis.values, strict=True), strict=True):
            coords[name] = (axis.names[0], _coordinate(values))
    for axis in manifest.axes:
        within = _within(axis)
        for path, name in short_names(list(within)).items():
            free = name if name not in coords and name not in data else path
            coords[free] = (axis.names[0], _coordinate(within[path]))
    attributes = {
        "config": json.dumps(manifest.config, default=str),
        "version": manifest.version,
        "missing": len(manifest.cells) - len(cells),
        "left_out": "; ".join(left_out.values()),
        "against": ", ".join(sorted({against for _, against in cells.values()})),
    }
    return xr.Dataset(data, coords=coords, attrs=attributes)


def _wanted(variables: Sequence[str] | None) -> list[str]:
    known = [*DIMENSIONS, *FINAL]
    unknown = sorted(set(variables or ()) - set(known))
    if unknown:
        raise ValueError(
            f"no variable {', '.join(unknown)} in a result; there are {', '.join(known)}"
        )
    return known if variables is None else list(variables)


def _dimensions(name: str, manifest: store.Manifest) -> tuple[str, ...]:
    inner = ("run",) if name in FINAL else DIMENSIONS[name]
    return ("draw", *inner) if "draws" in manifest.config else inner


def _read(
    folder: Path,
    manifest: store.Manifest,
    wanted: Mapping[str, tuple[str, ...]],
    sequence: Mapping[str, Any],
) -> dict[Position, tuple[Values, str]]:
    """The finished cells by position: their values, and what their regret is against."""
    status = store.status(folder, manifest)
    for path, fault in status.damaged:
        warnings.warn(f"{path} {fault}; its cell counts as missing", stacklevel=3)
    names = {FINAL.get(name, name) for name in wanted}
    names.update(("run",), *wanted.values())
    cells: dict[Position, tuple[Values, str]] = {}
    for cell in status.done:
        path = store.cell_path(folder, cell.hash)
        try:
            values, against = read_arrays(path, sorted(names), sequence)
        except (OSError, KeyError) as error:
            warnings.warn(
                f"{path} cannot be read ({error}); its cell counts as missing", stacklevel=3
            )
            continue
        finals = {name: values[FINAL[name]][..., -1] for name in wanted if name in FINAL}
        cells[tuple(cell.position)] = {**values, **finals}, against
    if not cells:
        raise ValueError(
            f"none of the {len(manifest.cells)} cells in {folder} is done; play them with "
            f"{store.shown_command(manifest, folder)}"
        )
    return cells


def _own_losses(
    wanted: Mapping[str, tuple[str, ...]], cells: Sequence[Values]
) -> dict[str, tuple[str, ...]]:
    """The dimensions of `arm_loss` where runs have losses of their own, in some cells at least.

    In the other cells, whose problem does not watch, every run gets the same.
    """
    name = "arm_loss"
    if name not in wanted or all(cell[name].ndim == len(wanted[name]) for cell in cells):
        return {}
    for cell in cells:
        if cell[name].ndim == len(wanted[name]):
            cell[name] = np.repeat(cell[name][..., None, :, :], len(cell["run"]), axis=-3)
    *before, time, arm = wanted[name]
    return {name: (*before, "run", time, arm)}


def read_arrays(
    path: Path, names: Sequence[str], sequence: Mapping[str, Any] | None = None
) -> tuple[Values, str]:
    """Some arrays of a result file by name, and what its regret is against.

    For thousands of files: it takes a thirtieth of the time of `fb.load`, unless regret is asked
    for against a `sequence`, the arguments of `Result.regret_against`.
    """
    import h5py

    if sequence:
        return _against_sequence(path, names, sequence)
    with h5py.File(path, "r") as file:
        found = {name: file[name] for name in names}
        values = {
            name: np.asarray(data.asstr()[...] if data.dtype.kind == "O" else data[...])
            for name, data in found.items()
        }
        return values, str(file.attrs["against"])


def load_against(path: Path, sequence: Mapping[str, Any]) -> Result:
    """A result from its file, its regret against a `sequence`: as it is where that is empty.

    Args:
        path: the file.
        sequence: the arguments of `Result.regret_against`.
    """
    found = load(path)
    try:
        return found.regret_against(**sequence) if sequence else found
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _against_sequence(
    path: Path, names: Sequence[str], sequence: Mapping[str, Any]
) -> tuple[Values, str]:
    """With regret against the best sequence of arms."""
    data = load_against(path, sequence).dataset
    return {name: data[name].to_numpy() for name in names}, str(data.attrs["against"])


def _dates(paths: Sequence[Path]) -> np.ndarray[Any, Any] | None:
    """The dates of the rounds, `[time]`, where all cells have the same."""
    import h5py
    import xarray as xr

    stored: set[tuple[bytes, str]] = set()
    for path in paths:
        with h5py.File(path, "r") as file:
            if "date" not in file:
                return None
            date = file["date"]
            raw, attributes = date[...], {key: str(date.attrs[key]) for key in CALENDAR}
        stored.add((raw.tobytes(), str(attributes)))
        if len(stored) > 1:
            return None
    decoded = xr.decode_cf(xr.Dataset({"date": ("time", raw, attributes)}))["date"].to_numpy()
    return np.asarray(decoded)


def _common(cells: Sequence[Values]) -> tuple[Values, dict[str, str]]:
    """Coordinates that fit all cells, and for those that none fits, why."""
    coordinates: Values = {}
    left_out: dict[str, str] = {}
    known = {"draw"}.union(*DIMENSIONS.values())
    for name in sorted(known & set(cells[0])):
        each = [cell[name] for cell in cells]
        if all(np.array_equal(each[0], other) for other in each[1:]):
            coordinates[name] = each[0]
        elif name in JOINED:
            coordinates[name] = np.unique(np.concatenate(each))
        else:
            left_out[name] = f"what is kept for each {name}: cells differ in their {name}s"
    return coordinates, left_out


def _stacked(
    cells: Mapping[Position, tuple[Values, str]],
    name: str,
    sizes: Sequence[int],
    inside: Values,
) -> np.ndarray[Any, Any]:
    """A variable of all cells, `[*sizes, *inside]`, NaN where a cell has no value."""
    shape = (*sizes, *(len(values) for values in inside.values()))
    given = [values[name] for values, _ in cells.values()]
    whole = sum(values.size for values in given) == np.prod(shape)
    stacked = np.full(shape, 0 if whole else np.nan, given[0].dtype if whole else np.float64)
    for position, (values, _) in cells.items():
        # Joined coordinates are sorted, so this finds each of the cell's among them.
        places = [
            np.searchsorted(all_, values[d]) if d in JOINED else np.arange(len(all_))
            for d, all_ in inside.items()
        ]
        stacked[position][np.ix_(*places)] = values[name]
    return stacked


def _within(axis: store.StoredAxis) -> dict[str, list[Any]]:
    """Return the parameters that differ between the tables of an axis, by path.

    None stands for a parameter that a table does not have. A name that alone differs is left out:
    it is the axis itself.
    """
    found: dict[str, list[Any]] = {}
    for path, values in zip(axis.paths, zip(*axis.values, strict=True), strict=True):
        if all(isinstance(value, Mapping) for value in values):
            differing = dict(_differing(path, values))
            found |= differing if list(differing) != [f"{path}.name"] else {}
    return found


def _differing(path: str, tables: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the parameters that are not the same in all tables.

    Example:
        >>> list(_differing("rate", [{"name": "power", "c": 1}, {"name": "power", "c": 2, "a": 3}]))
        [('rate.c', [1, 2]), ('rate.a', [None, 3])]
    """
    for key in dict.fromkeys(key for table in tables for key in table):
        values = [table.get(key) for table in tables]
        inside = f"{path}.{key}"
        if all(isinstance(value, Mapping) for value in values if value is not None):
            yield from _differing(inside, [value or {} for value in values])
        elif any(value != values[0] for value in values):
            yield inside, values


def _coordinate(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return numbers as numbers and everything else as text; None is NaN, or an empty text.

    Example:
        >>> _coordinate((1, 0.5)), _coordinate(({"name": "ring", "agents": 4}, {"name": "star"}))
        (array([1. , 0.5]), array(['ring(agents=4)', 'star'], dtype='<U14'))
        >>> _coordinate((1, None)), _coordinate(("power", None))
        (array([ 1., nan]), array(['power', ''], dtype='<U5'))
    """
    there = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return np.asarray([np.nan if value is None else value for value in values])
    return np.asarray(["" if value is None else label(value) for value in values])
