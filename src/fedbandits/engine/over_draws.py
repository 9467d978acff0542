"""Several draws of the losses, one after another by one program: intervals over the losses too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits import checks, results
from fedbandits.problems.base import Problem
from fedbandits.problems.redrawn import loss_seeds, redraw

if TYPE_CHECKING:
    import xarray as xr

MOST = 10_000
"""Draws; each keeps curves of its own."""


def simulate_over_draws(
    play: Callable[[Problem, int], results.Result],
    problem: Problem,
    seed: int,
    draws: int,
    kept: Path | None = None,
) -> results.Result:
    """What is found on several draws of the losses, along a first dimension `draw`.

    Draw 0 has the problem as it is and the agents' randomness of `seed`; draw d has other losses
    and the randomness of `seed + d`.

    Args:
        play: gives the result of a problem with a seed.
        problem: the losses.
        seed: of the agents' randomness in draw 0.
        draws: how many.
        kept: how the files begin in which draws that are done wait for the others; none by default.
    """
    draws = checks.whole(draws, "draws", least=2, most=MOST)
    checks.seed32(checks.seed32(seed) + draws - 1, "seed + draws - 1")
    seeds = loss_seeds(problem, draws)
    played, files = [], []
    for d, drawn in enumerate(seeds):
        each = redraw(problem, drawn) if d else problem
        if kept is None:
            played.append(play(each, seed + d))
            continue
        file = kept.with_name(f"{kept.name}-{d}.nc")
        if not file.exists():
            play(each, seed + d).save(file)
        played.append(results.load(file))
        files.append(file)
    joined = _joined(played, seeds)
    for file in files:
        file.unlink()
    return joined


def _joined(played: Sequence[results.Result], seeds: Sequence[int]) -> results.Result:
    """One result of many, which differ in seeds alone."""
    import xarray as xr

    data: xr.Dataset = xr.concat(
        [result.dataset for result in played],
        xr.DataArray(np.arange(len(seeds)), dims="draw", name="draw"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )
    config: dict[str, Any] = played[0].config | over_draws(seeds)
    return results.Result(data.assign_attrs(config=json.dumps(config)))


def over_draws(seeds: Sequence[int]) -> dict[str, Any]:
    """What the configuration of a result says of its draws."""
    return {"draws": len(seeds), "loss_seeds": list(seeds)}
