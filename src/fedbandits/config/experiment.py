"""What a configuration describes, and the errors of one that describes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.attacks import Attack
from fedbandits.common import checks
from fedbandits.gossip.base import Gossip
from fedbandits.networks import Network
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems import Problem

if TYPE_CHECKING:
    from fedbandits.results.result import Result


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the value, the place and the fix."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What a configuration file, or a cell of a sweep, describes: the arguments of `fb.simulate`.

    A part of the paper in `fedbandits.paper` is another thing: it plays many of these.

    Attributes:
        problem: the losses.
        algorithm: what each agent does.
        network: who talks to whom; None where nothing is sent.
        gossip: the matrix on it; None where nothing is sent.
        runs: R.
        seed: of the agents' randomness.
        dtype: `float32` or `float64`.
        against: `current` or `final`.
        draws: of the losses; None for those of the problem as it is.
        privacy: how losses are blurred before the algorithm sees them; None where they are not.
        liars: who sends something else than it should, and what.
        record: `agents` for snapshots of every agent; None for curves alone.
    """

    problem: Problem
    algorithm: AnyAlgorithm
    network: Network | None = None
    gossip: Gossip | None = None
    runs: int = 10
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    against: Literal["current", "final"] = "current"
    draws: int | None = None
    privacy: RandomisedResponse | None = None
    liars: Mapping[int | str, Attack] = field(default_factory=dict)
    record: Literal["agents"] | None = None

    def simulate(
        self, *, checkpoint: str | Path | None = None, progress: bool | None = None
    ) -> Result:
        """Play it; see `fb.simulate` for the arguments and the result."""
        from fedbandits.engine.simulate import simulate

        return simulate(
            self.problem,
            self.algorithm,
            self.gossip,
            self.runs,
            self.seed,
            against=self.against,
            dtype=self.dtype,
            checkpoint=checkpoint,
            progress=progress,
            draws=self.draws,
            privacy=self.privacy,
            liars=self.liars,
            record=self.record,
        )

    def configuration(self) -> dict[str, Any]:
        """What `Result.config` will be, before anything is played."""
        from fedbandits.engine.over_draws import draws_config
        from fedbandits.engine.preparation import configuration, setting_of
        from fedbandits.engine.stages.liars import checked_liars
        from fedbandits.problems.base import loss_seeds

        ready = self.algorithm.set_up(setting_of(self.problem, self.gossip))
        lying = checked_liars(self.liars, self.problem, ready, self.gossip)
        found = configuration(
            self.problem,
            ready,
            self.gossip,
            self.runs,
            self.seed,
            self.dtype,
            self.privacy,
            lying,
        )
        if self.draws is None:
            return found
        return found | draws_config(loss_seeds(self.problem, self.draws))


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
