"""The cells of a sweep one by one: as rows of a file, and as curves of a figure."""

from __future__ import annotations

import csv
import io
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedbandits.common.describe import label

from . import store
from .load import read_arrays

logger = logging.getLogger("fedbandits")


class FinalRegret(NamedTuple):
    """Regret at T: the mean over runs, or draws of the losses, and a 95% interval for it."""

    mean: float
    low: float
    high: float


def final_regret(
    folder: Path, cell: store.StoredCell, sequence: Mapping[str, int] | None = None
) -> FinalRegret:
    """Of a cell that is done; against a `sequence`, the arguments of `Result.regret_against`."""
    import xarray as xr

    from fedbandits.common.statistics import band

    arrays, _ = read_arrays(store.cell_path(folder, cell.hash), ["regret"], sequence)
    values = arrays["regret"][..., -1]
    at_end = xr.DataArray(values, dims=("draw", "run")[-values.ndim :])
    return FinalRegret(*(float(x) for x in band(at_end)))


def as_csv(
    folder: Path,
    manifest: store.Manifest,
    status: store.SweepStatus,
    sequence: Mapping[str, int] | None = None,
) -> str:
    """All cells, in their order: the axes, the status, regret at T, the error, the file.

    If regret is against a sequence, the column names say so. Limits of one run are empty.
    """
    done = {cell.hash for cell in status.done}
    errors = {cell.hash: error for cell, error in status.failed}
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    name = "_".join(["final_regret", *(f"{kind}_{s}" for kind, s in (sequence or {}).items())])
    regret = [name, f"{name}_low", f"{name}_high"]
    rows.writerow([*_names(manifest), "status", *regret, "error", "file"])
    for cell in manifest.cells:
        values = [label(value) for value in cell.values.values()]
        if cell.hash in done:
            path = store.cell_path(folder, cell.hash)
            found = final_regret(folder, cell, sequence)
            shown = ["" if math.isnan(x) else x for x in found]
            rows.writerow([*values, "done", *shown, "", path])
        else:
            how = "failed" if cell.hash in errors else "missing"
            rows.writerow([*values, how, "", "", "", errors.get(cell.hash, ""), ""])
    return text.getvalue()


def curves(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Result files, and what to call those that are cells of a sweep.

    Args:
        paths: results and folders of sweeps, which stand for all their cells that are done.

    Returns:
        the files; a cell is called by its values on the axes that vary, anything else "".
    """
    found = []
    for path in paths:
        if not path.is_dir():
            found.append((path, ""))
            continue
        whose = f"{path}: " if len(paths) > 1 else ""
        found += [(file, name and whose + name) for file, name in _curves_of(path)]
    return found


def _curves_of(folder: Path) -> list[tuple[Path, str]]:
    manifest = store.read_manifest(folder)
    status = store.status(folder, manifest)
    if not status.done:
        raise ValueError(
            f"none of the {len(manifest.cells)} cells in {folder} is done; play them with "
            f"{store.shown_command(manifest, folder)}"
        )
    missing = len(manifest.cells) - len(status.done)
    if missing:
        logger.warning("%d of %d cells are not done and not drawn", missing, len(manifest.cells))
    names = _names(manifest)
    rows = [[label(value) for value in cell.values.values()] for cell in status.done]
    varies = [len(set(column)) > 1 for column in zip(*rows, strict=True)]
    return [
        (
            store.cell_path(folder, cell.hash),
            ", ".join(f"{n}={v}" for n, v, kept in zip(names, row, varies, strict=True) if kept),
        )
        for cell, row in zip(status.done, rows, strict=True)
    ]


def _names(manifest: store.Manifest) -> list[str]:
    return [name for axis in manifest.axes for name in axis.names]
