"""Experiments, which configurations describe, and the errors of configurations."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fedbandits.common import checks
from fedbandits.networks import Network
from fedbandits.simulation.options import Options, Recorded
from fedbandits.simulation.simulation import Simulation

if TYPE_CHECKING:
    from fedbandits.results.result import Result


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the value, the place and the fix."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment, as a configuration file or a cell of a sweep describes it.

    Attributes:
        simulation: the simulation.
        network: the network; it may be given where nothing is sent.
        against: the arm that regret is compared with: `current` or `final`.
        record: `agents` for snapshots of every agent; None for curves alone.
    """

    simulation: Simulation
    network: Network | None = None
    against: Literal["current", "final"] = "current"
    record: Recorded = None

    def simulate(
        self, *, checkpoint: str | Path | None = None, progress: bool | None = None
    ) -> Result:
        """Play the simulation; see `fb.simulate` for the arguments and the result."""
        from fedbandits.engine.play import play

        for doubt in self.simulation.doubts():
            warnings.warn(doubt, stacklevel=2)
        options = Options(checkpoint=checkpoint, progress=progress, record=self.record)
        return play([self.simulation], options)[0].against(self.against)


class Place(NamedTuple):
    """Where in a configuration something stands, for errors and for relative file names.

    Attributes:
        name: what errors call it.
        folder: relative file names start here.
        changes: the `--set` options that touched it.
        confined: whether file names must stay in the folder, as in files that others may change.
    """

    name: str
    folder: Path = Path()
    changes: tuple[str, ...] = ()
    confined: bool = False

    def file(self, name: str) -> Path:
        """Return the file of this name, which is relative to the folder."""
        if self.confined and (Path(name).is_absolute() or ".." in Path(name).parts):
            raise self.error(
                f"{name!r} is outside the folder of this file; move it into that folder"
            )
        return self.folder / name

    def error(self, message: object) -> ConfigError:
        """The message with the place before it."""
        changed = "".join(f" --set {change}" for change in self.changes)
        return ConfigError(f"{self.name}{' with' + changed if changed else ''}: {message}")


def unknown(what: str, value: Any, valid: Iterable[str], owner: str = "") -> str:
    """Says what is unknown, what was probably meant, and what there is."""
    names = list(valid)
    there_is = f"Valid: {', '.join(names)}" if names else f"{owner} takes none"
    return f"unknown {what} {value!r}{checks.did_you_mean(value, names)} {there_is}"
