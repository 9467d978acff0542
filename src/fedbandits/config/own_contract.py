"""Own things held to the contract before a run: by the engine's checks, and by a small play."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbandits.common.own_modules import line_of
from fedbandits.networks import grid

from .experiment import ConfigError, Experiment
from .identity import own_names
from .own import is_own


def check_own(config: Mapping[str, Any], experiment: Experiment, source: Path) -> None:
    """Refuse own things that cannot be played, and an own algorithm that is not federated.

    The engine prepares a run, which looks at shapes, names and types, and at losses that do not
    depend on the round. An own algorithm is played on a grid of 2 × 3 agents by `check_federated`,
    which takes a few seconds; one that plays arms by their vectors is set up for the experiment.

    Args:
        config: the tables of the experiment; without own names nothing is checked.
        experiment: what they describe.
        source: their file, for errors.
    """
    names = own_names(config)
    if not names:
        return
    try:
        _prepare(experiment)
        if is_own(config["algorithm"]["name"]):
            _play(experiment)
    except Exception as error:  # own code may raise anything
        kind = "" if isinstance(error, _WORDED) else f"{type(error).__name__}: "
        words = f"{kind}{str(error) or type(error).__name__}{_own_line(error)}"
        refusal = ConfigError(f"{source}: {' and '.join(names)} cannot be played: {words}")
        for note in getattr(error, "__notes__", ()):
            if "JAX_TRACEBACK_FILTERING" not in note:
                refusal.add_note(note)
        raise refusal from error


_WORDED = (ValueError, TypeError, AssertionError)
"""What the engine raises, in words of its own."""


def _own_line(error: Exception) -> str:
    """The line of an error that own code raised; one that the engine raised has none."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(__file__).parents[1] in Path(frames[-1].filename).parents
    return "" if ours else line_of(error)


def _prepare(experiment: Experiment) -> None:
    from fedbandits.engine.preparation import precision, prepare

    simulation = replace(experiment.simulation, runs=1, draws=None)
    with precision(simulation.dtype):
        prepare([simulation])


def _play(experiment: Experiment) -> None:
    from fedbandits.engine.checks.federated import check_federated

    simulation = experiment.simulation
    vectors = simulation.problem.actions is not None
    check_federated(simulation.ready if vectors else simulation.algorithm, grid(2, 3))
