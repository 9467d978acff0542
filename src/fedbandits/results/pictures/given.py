"""What a picture is given: results that hold enough for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedbandits.results.snapshots import DIMENSIONS

if TYPE_CHECKING:
    import xarray as xr

    from fedbandits.results.result import Result


def one_of(results: Mapping[str, Result], kind: str) -> tuple[str, Result]:
    """The only result, with its name; refuses several."""
    if len(results) > 1:
        raise ValueError(
            f"kind={kind!r} shows one result, not {len(results)} ({', '.join(results)}); call "
            f"result.plot(kind={kind!r}) for each"
        )
    [[name, result]] = results.items()
    return name, result


def snapshots_of(name: str, result: Result, kind: str) -> xr.Dataset:
    """The dataset of a result with snapshots; refuses one without."""
    if not DIMENSIONS.keys() <= set(result.dataset.data_vars):
        config = result.config
        draws = f", draws={config['draws']}" if "draws" in config else ""
        raise ValueError(
            f"kind={kind!r} needs snapshots of every agent, which {name} does not have; simulate "
            f"it with fb.simulate(problem, algorithm, gossip, runs={config['runs']}, "
            f'seed={config["seed"]}{draws}, record="agents"), or write record = "agents" in its '
            "configuration file"
        )
    return result.dataset
