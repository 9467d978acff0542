"""Several draws of the losses, one after another by one program: intervals over the losses too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits import results
from fedbandits.common import checks
from fedbandits.common.interrupts import calm
from fedbandits.problems.base import Problem, loss_seeds
from fedbandits.results.record import MOST_ROUND_LOSSES

from .checkpoint import writing

if TYPE_CHECKING:
    import xarray as xr

MOST = 10_000
"""Draws; each keeps curves of its own."""


def simulate_over_draws(
    play: Callable[[Problem, int], Sequence[results.Result]],
    problem: Problem,
    seed: int,
    draws: int,
    kept: Path | None = None,
) -> list[results.Result]:
    """What is found on several draws of the losses, along a first dimension `draw`.

    Draw 0 has the problem as it is and the agents' randomness of `seed`; draw d has other losses
    and the randomness of `seed + d`. Each draw is bit-identical to a simulation of its own, and is
    kept as soon as it is done. In one batch, as in `several_draws`, float32 would round otherwise
    and flip an arm now and then, and on some hundred agents it would take longer.

    Args:
        play: gives the results of a problem with a seed, one for each algorithm.
        problem: the losses.
        seed: of the agents' randomness in draw 0.
        draws: how many.
        kept: how the files begin in which draws that are done wait for the others; none by default.
    """
    seeds = draw_seeds(problem, seed, draws)
    played: list[Sequence[results.Result]] = []
    for d, drawn in enumerate(seeds):
        files = [] if kept is None else _files(kept, d)
        if not files:
            with calm():  # what has been played is kept
                found = play(problem.redraw(drawn) if d else problem, seed + d)
                played.append([_light(result, draws) for result in found])
                if kept is not None:
                    _keep(played[-1], kept, d)
        else:
            played.append([results.load(file) for file in files])
    joined = [_joined(each, seeds) for each in zip(*played, strict=True)]
    if kept is not None:
        for d in range(len(seeds)):
            for file in _files(kept, d):
                file.unlink()
    return joined


def draw_seeds(problem: Problem, seed: int, draws: int) -> tuple[int, ...]:
    """The seeds of the losses; refuses what cannot be drawn so often."""
    draws = checks.whole(draws, "draws", least=2, most=MOST)
    checks.seed32(checks.seed32(seed) + draws - 1, "seed + draws - 1")
    return loss_seeds(problem, draws)


def _light(result: results.Result, draws: int) -> results.Result:
    """Without the losses of every round, where those of all draws would be too many."""
    data = result.dataset
    if "round_loss" not in data or data["round_loss"].size * draws <= MOST_ROUND_LOSSES:
        return result
    return results.Result(data.drop_vars("round_loss"))


def _keep(played: Sequence[results.Result], kept: Path, d: int) -> None:
    """Write the results of a draw; the first is the last to be written, so that all are there."""
    for h in reversed(range(len(played))):
        path = kept.with_name(f"{kept.name}-{d}-{h}.nc")
        with writing(path):
            played[h].save(path)


def _files(kept: Path, d: int) -> list[Path]:
    """Where the results of a draw that is done are, in the order of the algorithms."""
    if not kept.with_name(f"{kept.name}-{d}-0.nc").exists():
        return []
    found = kept.parent.glob(f"{kept.name}-{d}-*.nc")
    return sorted(found, key=lambda file: int(file.stem.rpartition("-")[2]))


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
    config: dict[str, Any] = played[0].config | draws_config(seeds)
    return results.Result(data.assign_attrs(config=json.dumps(config)))


def draws_config(seeds: Sequence[int]) -> dict[str, Any]:
    """What the configuration of a result says of its draws."""
    return {"draws": len(seeds), "loss_seeds": list(seeds)}
