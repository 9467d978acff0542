"""Datasets as NetCDF files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.common.files import atomic_write

from .snapshots import encoding

if TYPE_CHECKING:
    import xarray as xr


def write_netcdf(data: xr.Dataset, path: str | Path) -> None:
    """Write a dataset whole or not at all; HDF5 makes the file in memory."""
    with atomic_write(path) as file:
        data.to_netcdf(file, engine="h5netcdf", encoding=encoding(data))
