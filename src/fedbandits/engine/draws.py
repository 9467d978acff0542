"""Draws of the losses: the results of several draws as one, and the files that hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedbandits import results
from fedbandits.results.record import MOST_ROUND_LOSSES
from fedbandits.simulation.simulation import Simulation

from .checkpoint import writing

if TYPE_CHECKING:
    import xarray as xr


def without_round_losses(result: results.Result, draws: int) -> results.Result:
    """Return a result; drop the losses of every round if all draws together have too many."""
    data = result.dataset
    if "round_loss" not in data or data["round_loss"].size * draws <= MOST_ROUND_LOSSES:
        return result
    return results.Result(data.drop_vars("round_loss"))


def joined(played: Sequence[results.Result], simulation: Simulation) -> results.Result:
    """Return one result of the results of all draws, along a first dimension `draw`."""
    import xarray as xr

    data: xr.Dataset = xr.concat(
        [result.dataset for result in played],
        xr.DataArray(np.arange(len(played)), dims="draw", name="draw"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )
    return results.Result(data.assign_attrs(config=json.dumps(simulation.describe())))


@dataclass(frozen=True)
class KeptDraws:
    """The files of finished draws, which wait for the other draws.

    Attributes:
        place: how their names begin.
    """

    place: Path

    def save(self, d: int, played: Sequence[results.Result]) -> None:
        """Write the results of draw d; the first comes last, so that it stands for all of them."""
        for h in reversed(range(len(played))):
            path = self.place.with_name(f"{self.place.name}-{d}-{h}.nc")
            with writing(path):
                played[h].save(path)

    def load(self, d: int) -> list[results.Result] | None:
        """Return the results of draw d, or None if it is not finished."""
        if not self.place.with_name(f"{self.place.name}-{d}-0.nc").exists():
            return None
        files = self.place.parent.glob(f"{self.place.name}-{d}-*.nc")
        numbered = sorted(files, key=lambda file: int(file.stem.rpartition("-")[2]))
        return [results.load(file) for file in numbered]

    def discard(self) -> None:
        """Remove the files of all draws."""
        for file in self.place.parent.glob(f"{self.place.name}-*-*.nc"):
            file.unlink()
