"""A configuration file: read once, expanded once, and whoever asks gets what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .building import build
from .expansion import Sweep, expand
from .experiment import ConfigError, Experiment
from .own import looking_beside
from .own_contract import check_own
from .reading import read_config


@dataclass(frozen=True)
class Document:
    """What a configuration file says.

    Attributes:
        source: the file.
        overrides: the `--set` options, which are in `config` already; errors name them.
        config: its tables, lists and all.
        sweep: what the lists make: one cell where nothing is swept.
    """

    source: Path
    overrides: tuple[str, ...]
    config: dict[str, Any]
    sweep: Sweep

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of the only experiment; a sweep is refused."""
        swept = [path for axis in self.sweep.axes for path in axis.paths]
        if swept:
            raise ConfigError(
                f"{self.source} is a sweep over {', '.join(swept)}; play all of it with fedbandits "
                f"run, or choose one value of each, as in --set {swept[0]}=..."
            )
        return self.sweep.cells[0].config

    def experiment(self) -> Experiment:
        """The only experiment, built; a sweep is refused, and what breaks the contract."""
        found = build(self.tables, self.source, self.overrides)
        check_own(self.tables, found, self.source)
        return found


def read_document(path: str | Path, overrides: Sequence[str] = ()) -> Document:
    """Read a configuration file and expand its lists; nothing is built yet.

    Args:
        path: the file.
        overrides: changes such as `"runs=20"`, `"algorithm.exploration.c=0.02"` or
            `'network={name = "ring", agents = 36}'`.
    """
    source = Path(path)
    config = read_config(source, overrides)
    with looking_beside(config, source):
        sweep = expand(config, str(source))
    return Document(source, tuple(overrides), config, sweep)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment that a TOML file describes.

    Args:
        path: the file. Names of other files in it are relative to its folder.
        overrides: changes to it, as in `read_document`.

    Returns:
        the experiment, ready to `simulate()`.
    """
    return read_document(path, overrides).experiment()
