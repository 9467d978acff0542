"""A configuration file tuned: what is refused before anything is played, and what is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fedbandits import schedules
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common.describe import describe
from fedbandits.common.files import atomic_write
from fedbandits.common.interrupts import calm
from fedbandits.common.toml import changed, toml_text
from fedbandits.config.catalogue import THEOREM
from fedbandits.config.document import read_document
from fedbandits.config.experiment import ConfigError, Experiment
from fedbandits.config.identity import moved
from fedbandits.config.replacing import refuse_present
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.simulation.liars import Liars

from . import fresh_seeds, knobs
from .choice import Choice, choose
from .fresh_seeds import Report


class Files(NamedTuple):
    """What is written.

    Attributes:
        config: the whole configuration, with what was found in its [algorithm] if that wins.
        candidates: what was tried, a row for each.
        fresh: the regret on every fresh seed.
        result: that of this configuration on the first fresh seed.
    """

    config: Path
    candidates: Path
    fresh: Path
    result: Path


@dataclass(frozen=True)
class Tuned:
    """What came of tuning a configuration file.

    Attributes:
        choice: what was tried.
        report: the winner and the file's own setting on fresh seeds.
        section: the [algorithm] that is written, as text: what tuning found where it wins on
            fresh seeds, else the file's own.
        files: what was written.
    """

    choice: Choice
    report: Report
    section: str
    files: Files


@dataclass(frozen=True, eq=False)
class Request:
    """A configuration file that can be tuned.

    Attributes:
        source: the file.
        config: its tables after all changes.
        experiment: what it describes.
        ranges: other ranges than the default ones.
        files: what will be written.
        force: whether files that are there already are replaced.
    """

    source: Path
    config: dict[str, Any]
    experiment: Experiment
    ranges: dict[str, tuple[float, float]]
    files: Files
    force: bool

    def tune(self, budget: int = 25, runs: int | None = None) -> Tuned:
        """Choose, report and write.

        Args:
            budget: the most candidates.
            runs: of each candidate on each draw of the losses; the file's by default.
        """
        asked = self.experiment.simulation
        shared: dict[str, Any] = {
            "runs": asked.runs if runs is None else runs,
            "seed": asked.seed,
            "dtype": asked.dtype,
            "privacy": asked.condition(RandomisedResponse),
        }
        players = (asked.problem, asked.algorithm, asked.gossip)
        try:
            choice = choose(*players, ranges=self.ranges, budget=budget, **shared)
            report = fresh_seeds.report(asked.problem, choice.winner, *players[1:], **shared)
        except KeyboardInterrupt as stop:
            stopped = str(stop) or "stopped"
            raise KeyboardInterrupt(f"{stopped}; nothing is kept, tuning starts anew") from stop
        section = self.config["algorithm"]
        if report.wins:
            section = {**section, **_changed(choice.winner, asked.algorithm)}
        if not self.force:
            refuse_present(self.files)  # someone else may have been faster
        with calm():
            _write(self, {**self.config, "algorithm": section}, choice, report)
        return Tuned(choice, report, toml_text({"algorithm": section}), self.files)


def request(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    out: str | Path = "out",
    ranges: Sequence[str] = (),
    force: bool = False,
) -> Request:
    """What a configuration file asks to be tuned; refused before anything is played.

    Args:
        path: the configuration file; a sweep is refused.
        overrides: changes to it, as in `load_config`.
        out: folder for the files, which are named after the configuration's.
        ranges: other ranges than the default ones, such as `"learning_rate=0.1:10"`.
        force: whether files that are there already are replaced.
    """
    source = Path(path)
    wanted = dict(knobs.parse_range(text) for text in ranges)
    document = read_document(source, overrides)
    experiment = document.experiment()
    if experiment.simulation.draws is not None:
        raise ConfigError(f"{source}: tune draws the losses anew by itself; leave draws out")
    if experiment.simulation.condition(Liars) is not None:
        raise ConfigError(f"{source}: tune plays with honest agents alone; leave [liars] out")
    if document.tables["algorithm"].get(THEOREM):
        raise ConfigError(
            f"{source} [algorithm]: {THEOREM} chooses the rates itself; remove it to tune them"
        )
    files = Files(*(Path(out) / f"{source.stem}.{end}" for end in _ENDINGS))
    if not force:
        refuse_present(files)
    return Request(source, document.tables, experiment, wanted, files, force)


_ENDINGS = ("tuned.toml", "candidates.csv", "fresh.csv", "fresh.nc")


def _changed(winner: AnyAlgorithm, given: AnyAlgorithm) -> dict[str, Any]:
    """The parameters that tuning changed, as a configuration file has them."""
    tuned = {name: getattr(winner, name) for name in winner.tunable}
    return {
        name: _plain(value)
        for name, value in tuned.items()
        if describe(value) != describe(getattr(given, name))
    }


def _plain(value: Any) -> Any:
    """A number, or a schedule as the table that names it.

    Example:
        >>> _plain(schedules.constant(0.1)), _plain(schedules.power(0.01, 0.5))
        (0.1, {'name': 'power', 'c': 0.01, 'a': 0.5})
    """
    if isinstance(value, schedules.Constant):
        return value.value
    if dataclasses.is_dataclass(value):
        return {**describe(value), "name": schedules.name_of(value)}
    return describe(value)  # a plain number, whatever array it was in


def _write(asked: Request, config: Mapping[str, Any], choice: Choice, report: Report) -> None:
    source, files = asked.source, asked.files
    # The configuration comes last: where it is, all of it is.
    for path, table in ((files.candidates, choice.table()), (files.fresh, report.table())):
        with atomic_write(path) as file:
            file.write(table.to_csv(index=False).encode())
    result = (report.tuned if report.wins else report.given)[0]
    result.against(asked.experiment.against).save(files.result)
    outcome = "as it was: nothing that was tried is clearly better"
    if report.wins:
        outcome = "with its [algorithm] tuned by fedbandits"
    text = (
        f"# {source.name} {outcome};\n# {files.candidates.name} has what was tried, "
        f"{files.fresh.name} the regret on fresh seeds.\n\n"
    )
    there = moved(config, source.parent.resolve(), files.config.parent.resolve())
    text += changed(source.read_text(encoding="utf-8"), there)
    with atomic_write(files.config) as file:
        file.write(text.encode())
